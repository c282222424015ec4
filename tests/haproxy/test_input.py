"""What comes from users: parameters, addresses, sockets. No HAProxy needed."""

import contextlib

from collections.abc import Callable

import hypothesis
import pytest

from hypothesis import strategies

from webhooks.haproxy.endpoints import AllowedEndpoints, parse_endpoint
from webhooks.haproxy.errors import InvalidInput, Unreadable
from webhooks.haproxy.load_balancers import parse_identity
from webhooks.haproxy.members import parse_address
from webhooks.haproxy.parameters import Options, parse_options
from webhooks.haproxy.replies import parse_cookie, parse_loads, parse_process


DEFAULT_CHECK = "check inter 2s downinter 200ms rise 1 fall 3"

GOOD_PARAMETERS = [
    ({}, Options(1, True, DEFAULT_CHECK)),
    ({"check": "false"}, Options(1, False, "")),
    ({"weight": "0"}, Options(0, True, DEFAULT_CHECK)),
    ({"weight": "256", "check": "false"}, Options(256, False, "")),
    (
        {"inter": "5s", "fastinter": "1s", "downinter": "500", "rise": "2"},
        Options(1, True, "check inter 5s fastinter 1s downinter 500 rise 2 fall 3"),
    ),
    (
        {"check": "false", "maxconn": "10", "slowstart": "30s"},
        Options(1, False, "maxconn 10 slowstart 30s"),
    ),
]


@pytest.mark.parametrize(("parameters", "expected"), GOOD_PARAMETERS)
def test_parameters_become_keywords(
    parameters: dict[str, str], expected: Options
) -> None:
    """Each parameter is said as HAProxy's keyword; what is unsaid has our default."""
    assert expected == parse_options(parameters)


BAD_PARAMETERS = [
    ({"color": "red"}, "'color' is unknown; known are weight, check"),
    ({"weight": "257"}, "weight must be a number from 0 to 256, not '257'"),
    ({"weight": "-1"}, "weight must be"),
    ({"weight": "٣"}, "weight must be"),
    ({"weight": ""}, "weight must be"),
    ({"check": "yes"}, "check must be true or false, not 'yes'"),
    ({"check": "false", "inter": "1s"}, "inter means nothing with check: false"),
    ({"inter": "fast"}, "inter must be a time such as 500ms, 2s or 1m, not 'fast'"),
    ({"inter": "0"}, "inter must be a time"),
    ({"inter": ""}, "inter must be a time"),
    ({"slowstart": "1h"}, "slowstart must be a time"),
    ({"rise": "0"}, "rise must be a number from 1 to 100"),
    ({"maxconn": "0"}, "maxconn must be a number from 1"),
    ({"maxconn": "5 backup"}, "maxconn must be a number"),
    ({"inter": "1s;del server web/foreign-1"}, "inter must be a time"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD_PARAMETERS)
def test_bad_parameters_are_named(parameters: dict[str, str], message: str) -> None:
    """The message names the parameter, what is taken and what was said."""
    with pytest.raises(InvalidInput) as caught:
        parse_options(parameters)

    assert message in str(caught.value)


@hypothesis.given(
    strategies.dictionaries(
        strategies.sampled_from(["weight", "inter", "rise", "maxconn", "slowstart"]),
        strategies.text(max_size=12),
    )
)
def test_no_parameter_adds_a_word(parameters: dict[str, str]) -> None:
    """Whatever is said, each parameter stays one word, without a second command."""
    try:
        options = parse_options(parameters)
    except InvalidInput:
        return
    words = options.fixed.split()
    assert " ".join(words) == options.fixed
    assert options.fixed.replace(" ", "").isalnum()
    assert len(words) <= 2 * len(parameters) + len(DEFAULT_CHECK.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.1.2.3:80", "10.1.2.3:80"),
        ("[2001:DB8:0:0::1]:8080", "[2001:db8::1]:8080"),
        ("[::ffff:10.0.0.1]:65535", "[::ffff:a00:1]:65535"),
    ],
)
def test_addresses_are_normal(text: str, expected: str) -> None:
    """An address is read in each of its forms, and written in one."""
    assert expected == str(parse_address(text))


@pytest.mark.parametrize(
    "text",
    [
        "", "10.1.2.3", "10.1.2.3:", ":80", "10.1.2.3:0", "10.1.2.3:65536", "a.b:80",
        "10.1.2.3:+80", "10.1.2.3: 80", "10.1.2.3:८०", "300.0.1.1:80", "10.1.2.03:80",
        "::1:80", "[10.1.2.3]:80", "[::1]", "[fe80::1%eth0]:80", "0.0.0.0:80",
        "[::]:80", "224.0.0.1:80", "unix@/tmp/x:80", "10.1.2.3:80;show info",
    ],
)  # fmt: skip
def test_bad_addresses_are_refused(text: str) -> None:
    """What HAProxy would misunderstand, or take without a word, is refused."""
    with pytest.raises(InvalidInput, match="backendAddr"):
        parse_address(text)


ALLOWED = [
    ("/run/haproxy/*.sock", "/run/haproxy/admin.sock", True),
    ("/run/haproxy/*.sock", "/run/haproxy/deep/admin.sock", False),
    ("/run/haproxy/*.sock", "/run/other/admin.sock", False),
    ("/run/*/admin.sock", "/run/a/admin.sock", True),
    ("10.0.0.*:9999", "10.0.0.7:9999", True),
    ("10.0.0.*:9999", "10.0.0.7:9998", False),
    ("10.0.0.*:9999", "10.0.0.evil.example:9999", False),
    ("*", "169.254.169.254:80", True),
    ("*", "evil.example:80", False),
    ("*", "/etc/some.sock", False),
    ("proxy.example:9999", "proxy.example:9999", True),
    ("[::1]:9999", "[::1]:9999", True),
    ("[::1]:9999", "[::2]:9999", False),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), ALLOWED)
def test_only_allowed_sockets(pattern: str, text: str, expected: bool) -> None:
    """A pattern allows what it matches, part by part, and no names by wildcards."""
    allowed = AllowedEndpoints((pattern,))
    refused = contextlib.nullcontext() if expected else pytest.raises(InvalidInput)

    with refused:
        allowed.check(parse_endpoint(text))


def test_the_default_is_narrow() -> None:
    """Where nothing is said, only sockets below HAProxy's own folder are allowed."""
    AllowedEndpoints().check(parse_endpoint("/run/haproxy/admin.sock"))
    for text in ("/var/run/docker.sock", "127.0.0.1:9999", "/run/haproxy/x/y.sock"):
        with pytest.raises(InvalidInput, match="--allow-sockets"):
            AllowedEndpoints().check(parse_endpoint(text))


@pytest.mark.parametrize(
    "text",
    [
        "", "relative.sock", "/run/../etc/x.sock", "/run//x.sock", "/run/./x.sock",
        "//x.sock", "/run/" + "x" * 107, "/run/a\nb", "host", "host:", "host:0",
        "host:65536", "ho st:1", "-host:1", "http://host:1", "[::1]:1:1",
    ],
)  # fmt: skip
def test_bad_sockets_are_refused(text: str) -> None:
    """What is no stats socket, or could be a way around the patterns, is refused."""
    with pytest.raises(InvalidInput, match="sockets"):
        parse_endpoint(text)


def test_an_identity_is_normal() -> None:
    """Spaces and doubles go, and there is one order."""
    fields = {"sockets": "/run/b.sock, /run/a.sock,/run/b.sock", "backend": "web"}

    assert {
        "sockets": "/run/a.sock,/run/b.sock",
        "backend": "web",
    } == parse_identity(fields).render()


def test_not_endlessly_many_sockets() -> None:
    """A load balancer has a bounded number of HAProxys."""
    sockets = ",".join(f"/run/{number}.sock" for number in range(17))
    with pytest.raises(InvalidInput, match="17 are more than 16"):
        parse_identity({"sockets": sockets, "backend": "web"})


def test_a_number_without_end_cannot_be_read() -> None:
    """Python takes none of more than 4,300 digits."""
    with pytest.raises(Unreadable, match="Pid in `show info` is not a number"):
        parse_process(f"Pid: {'9' * 5000}\nStart_time_sec: 1\nStopping: 0\n")


@pytest.mark.parametrize("parse", [parse_loads, parse_cookie])
def test_a_field_without_end_cannot_be_read(
    parse: Callable[[str, str], object],
) -> None:
    """Python's tables have no field of more than 128 KiB."""
    cell = "x" * 200_000
    table = f"# pxname,svname,scur,qcur,type,cookie\nweb,{cell},1,1,2,SRV\n"
    with pytest.raises(Unreadable, match="`show stat` cannot be read"):
        parse(table, "web")
