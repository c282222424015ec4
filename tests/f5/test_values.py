"""Names, parameters, identities and flags: what is taken, and what is said of the rest."""

import argparse

from pathlib import Path

import pytest

from tests.f5.faults import NO_RIGHT
from webhooks.device.errors import Busy, InvalidInput, Refused, Unreadable
from webhooks.device.replies import Reply
from webhooks.f5 import __main__ as command
from webhooks.f5.errors import (
    AddressTaken,
    Denied,
    Duplicate,
    Forbidden,
    Missing,
    NodeInUse,
    check,
)
from webhooks.f5.load_balancers import parse_identity
from webhooks.f5.members import read_member
from webhooks.f5.names import Mark, parse_address, parse_path, port_of
from webhooks.f5.parameters import Options, parse_options


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("web", "/Common/web"),
        ("/Tenant/web", "/Tenant/web"),
        ("/Tenant/app/web", "/Tenant/app/web"),
    ],
)
def test_paths_are_read(text: str, expected: str) -> None:
    """A name alone is in the partition Common."""
    assert expected == str(parse_path(text))


@pytest.mark.parametrize(
    ("name", "port"),
    [
        ("10.0.0.1:80", 80),
        ("2001:db8::1.80", 80),
        ("2001:db8::1%10.443", 443),
        ("web1.example.com:8080", 8080),
        ("10.0.0.1:any", None),
        ("10.0.0.1:0", None),
    ],
)
def test_ports_are_read_from_names(name: str, port: int | None) -> None:
    """Behind a colon, for IPv6 behind a dot."""
    assert port == port_of(name)


@pytest.mark.parametrize(
    "text", ["", "10.0.0.1", "10.0.0.1:0", "::1:80", "[fe80::1%eth0]:80", "0.0.0.0:80"]
)
def test_what_is_no_address(text: str) -> None:
    """It is refused with what to write."""
    with pytest.raises(InvalidInput, match="backendAddr"):
        parse_address(text)


@pytest.mark.parametrize("text", ["", "lb-cf", "lbcf:", "x" * 21])
def test_what_is_no_mark(text: str) -> None:
    """A mark that could be another's is refused."""
    with pytest.raises(InvalidInput, match="mark"):
        Mark(text)


def test_parameters_are_read() -> None:
    """All that a member can be told."""
    assert Options(3, 100, 2, "/Common/http and /Common/tcp") == parse_options(
        {
            "weight": "3",
            "connectionLimit": "100",
            "priorityGroup": "2",
            "monitor": "/Common/tcp and /Common/http",
        }
    )
    assert Options() == parse_options({})


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"ratio": "0"}, "from 1 to 65535"),
        ({"weight": "x"}, "from 1 to 65535"),
        ({"weight": "1", "ratio": "1"}, "say one of them"),
        ({"monitor": "http"}, "/Common/http"),
        ({"maxconn": "1"}, "known are ratio"),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, str], text: str) -> None:
    """What cannot be taken says what can."""
    with pytest.raises(InvalidInput, match=text):
        parse_options(parameters)


def test_identities_are_normal() -> None:
    """The same load balancer, written differently, is the same identity."""
    identity = parse_identity(
        {"devices": "10.1.1.1, https://10.1.1.2/", "pool": "web", "syncGroup": "pair"}
    )

    rendered = identity.render()
    assert {
        "devices": "https://10.1.1.1,https://10.1.1.2",
        "pool": "/Common/web",
        "syncGroup": "/Common/pair",
    } == rendered
    assert identity == parse_identity(rendered)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"pool": "web"}, "devices is missing"),
        ({"devices": "a"}, "pool is missing"),
        ({"devices": "a", "pool": "web", "host": "b"}, "'host' is unknown"),
        ({"devices": "a", "pool": "/web"}, "no path"),
        ({"devices": "a", "pool": "web", "routeDomain": "x"}, "routeDomain"),
        *(
            ({"devices": "a", "pool": "web", "syncGroup": group}, "syncGroup")
            for group in (
                "/Common/pair force-full-load-push",
                "/Common/x from-group pair",
                "/Common/app/pair",
                "/Common/pair%1",
                "/pair",
                "a b",
            )
        ),
    ],
)
def test_wrong_identities_are_named(fields: dict[str, str], text: str) -> None:
    """What is missing or unknown is said."""
    with pytest.raises(InvalidInput, match=text):
        parse_identity(fields)


def _said(status: int, message: str) -> Reply:
    """Return an error as a unit answers it."""
    body = f'{{"code": {status}, "message": "{message}", "errorStack": []}}'
    return Reply(status, body.encode(), "application/json")


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (409, "01020066:3: The requested Pool Member (..) already exists", Duplicate),
        (404, "01020036:3: The requested Pool Member (..) was not found.", Missing),
        (400, "0107176c:3: Invalid Node, the IP address 10.0.0.1 already exists.",
         AddressTaken),
        (400, "01070110:3: Node address '/Common/n' is referenced by a member",
         NodeInUse),
        (401, "X-F5-Auth-Token does not exist.", Denied),
        (403, "Forbidden", Forbidden),
        (401, NO_RIGHT.format("/mgmt/tm/net/self", "GET"), Forbidden),
        (401, "Authorization failed: no user authentication header", Denied),
        (400, "invalid property value", Refused),
    ],
)  # fmt: skip
def test_refusals_are_told_apart(
    status: int, message: str, kind: type[Refused]
) -> None:
    """By the number that a message begins with, else by the status."""
    with pytest.raises(Refused, match="f5 answered") as refusal:
        check("f5", _said(status, message))

    assert kind is type(refusal.value)
    assert message == refusal.value.said


@pytest.mark.parametrize(
    "reply",
    [
        *(_said(status, "too much to do") for status in (429, 502, 503, 504)),
        _said(404, "Public URI path not registered: /mgmt/tm/ltm"),
        Reply(503, b"<html>busy</html>"),
        Reply(200, b"<html>BIG-IP: login</html>"),
        Reply(404, b"<html>not yet</html>"),
        Reply(302, b"<html>moved</html>"),
    ],
)
def test_what_passes_is_busy(reply: Reply) -> None:
    """Pages, and what a starting unit says, are no refusals."""
    with pytest.raises(Busy, match="f5 is busy"):
        check("f5", reply)


def test_a_page_that_refuses() -> None:
    """Whoever speaks HTML and says 401 does not know us."""
    with pytest.raises(Denied, match="username and password"):
        check("f5", Reply(401, b"<html>Authorization Required</html>"))


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"fullPath": "/Common/10.0.0.1:80"},
        {"fullPath": "x", "address": "10.0.0.1", "session": "s", "state": "s"},
        {"fullPath": "/Common/10.0.0.1:80", "address": "10.0.0.1", "session": "s",
         "state": "s", "ratio": "1"},
        {"fullPath": "/Common/10.0.0.1:80", "address": "10.0.0.1", "session": 1,
         "state": "s"},
    ],
)  # fmt: skip
def test_strange_members_are_not_believed(document: dict[str, object]) -> None:
    """A field that is missing or of another type is an error."""
    with pytest.raises(Unreadable):
        read_member(document)


def test_flags_make_a_driver(tmp_path: Path) -> None:
    """The command line is the HAProxy driver's, and that of all appliances."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.add_flags(parser)
    chosen = parser.parse_args(
        [
            "--allow-devices=10.1.1.*",
            f"--credentials={tmp_path}",
            "--mark=blue",
        ]
    )

    found = command.make_driver(chosen).load_balancers
    assert Mark("blue") == found.mark
    with pytest.raises(InvalidInput, match=r"10\.2\.1\.1 is not allowed"):
        found.find({"devices": "10.2.1.1", "pool": "web"})
