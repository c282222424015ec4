"""The appliance of these tests: field by field and type by type as the real ones.

Rows are compared with what public recordings of real appliances hold; the rest is the
vendor's NITRO reference.
"""

import json

from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiohttp import ClientSession

from tests.netscaler.appliances import GROUP, Served, a_unit, serving
from tests.netscaler.appliances import SteppedClock as Clock
from tests.netscaler.configuration import Member
from tests.netscaler.operations import BINDING
from tests.netscaler.unit import Unit


LOGIN = {"X-NITRO-USER": "lbcf", "X-NITRO-PASS": "secret"}

RECORDED_MEMBER = {
    "servicegroupname": str, "ip": str, "port": int, "svrstate": str,
    "statechangetimesec": str, "tickssincelaststatechange": str, "weight": str,
    "servername": str, "customserverid": str, "serverid": str, "state": str,
    "hashid": str, "graceful": str, "delay": str, "delay1": str, "nameserver": str,
    "dbsttl": str, "orderstr": str, "trofsdelay": str,
}  # fmt: skip
"""Of an appliance's answer that a lookup's documentation shows, 2023."""

RECORDED_HANODE = {
    "hacurstatus": str, "hacurstate": str, "hacurmasterstate": str, "transtime": str,
    "hatotpktrx": str, "hapktrxrate": int, "hatotpkttx": str, "hapkttxrate": int,
    "haerrproptimeout": str, "haerrsyncfailure": str,
}  # fmt: skip
"""Of an appliance's answer that a comment in a collector's source shows, 2022."""


@pytest.fixture(name="clock")
def _clock() -> Clock:
    """Return the appliance's time."""
    return Clock()


@pytest.fixture(name="unit")
def _unit(clock: Clock) -> Unit:
    """Return an appliance with a server."""
    unit = a_unit(clock.monotonic)
    unit.change(lambda config: config.add_server("s1", "198.18.0.1"))
    return unit


@pytest.fixture(name="served")
async def _served(unit: Unit) -> AsyncIterator[Served]:
    """Serve it by http."""
    async with serving(unit) as served:
        yield served


Said = tuple[int, str, dict[str, Any]]


async def ask(
    served: Served,
    method: str,
    path: str,
    body: object = None,
    headers: dict[str, str] | None = None,
) -> Said:
    """Send a request; return status, reason and body."""
    async with (
        ClientSession(headers=LOGIN if headers is None else headers) as client,
        client.request(
            method,
            f"{served.url}/nitro/v1/{path}",
            data=None if body is None else json.dumps(body),
        ) as response,
    ):
        return response.status, response.reason or "", await response.json()


def bind(unit: Unit, port: int = 80) -> Member:
    """Bind a member."""
    unit.change(lambda config: config.bind(Member(GROUP, "s1", "", port)))
    return unit.running.members[GROUP, "s1", port]


DONE = {"errorcode": 0, "message": "Done", "severity": "NONE"}


async def test_a_member_is_told_as_recorded(served: Served) -> None:
    """The port is a number, nearly all other numbers are texts."""
    bind(served.unit)

    _, _, said = await ask(served, "GET", f"config/{BINDING}/{GROUP}")

    (row,) = said[BINDING]
    assert RECORDED_MEMBER == {name: type(value) for name, value in row.items()}
    assert ("None", "1", "198.18.0.1") == (
        row["customserverid"], row["weight"], row["ip"],
    )  # fmt: skip


async def test_a_unit_is_told_as_recorded(served: Served) -> None:
    """Statistics of the unit itself are an object, counters in it are texts."""
    _, _, said = await ask(served, "GET", "stat/hanode")

    assert RECORDED_HANODE == {
        name: type(value) for name, value in said["hanode"].items()
    }


async def test_counters_are_texts(served: Served) -> None:
    """Counters of members are texts, ports and rates are numbers."""
    member = bind(served.unit)
    served.unit.traffic.open(member.key, 60)

    _, _, one = await ask(
        served,
        "GET",
        f"stat/servicegroupmember?args=servicegroupname:{GROUP},serverName:s1,port:80",
    )
    _, _, all_of_it = await ask(
        served, "GET", f"stat/servicegroup/{GROUP}?statbindings=yes"
    )

    (row,) = one["servicegroupmember"]
    assert ("1", 80, 0) == (
        row["curclntconnections"], row["primaryport"], row["requestsrate"],
    )  # fmt: skip
    assert [row] == all_of_it["servicegroup"][0]["servicegroupmember"]


async def test_what_is_empty_is_not_there(served: Served) -> None:
    """A group without members answers without their key."""
    path = f"config/{BINDING}/{GROUP}"

    assert (200, "OK", DONE) == await ask(served, "GET", path)


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "config/server/nope", None, (404, "Not Found", 351)),
        ("GET", "config/servicegroup/nope", None, (404, "Not Found", 258)),
        ("POST", "config/server", {"server": {"name": "s1", "ipaddress": "198.18.0.2"}},
         (409, "Conflict", 273)),
        ("POST", "config/server", {"server": {"name": "s2", "ipaddress": "198.18.0.1"}},
         (409, "Conflict", 273)),
        ("POST", "config/server", {"server": {"name": "s2"}}, (400, "Bad Request", 1095)),
        ("POST", "config/server", {"server": {"name": "s2", "ipaddress": "x"}},
         (400, "Bad Request", 278)),
        ("PUT", f"config/{BINDING}",
         {BINDING: {
             "servicegroupname": GROUP, "servername": "s1", "ip": "198.18.0.1",
             "port": 80}},
         (400, "Bad Request", 1092)),
        ("DELETE", f"config/{BINDING}/{GROUP}?args=servername:s1,port:81", None,
         (404, "Not Found", 258)),
        ("GET", "config/nonsense", None, (400, "Bad Request", 278)),
    ],
)  # fmt: skip
async def test_refusals(
    served: Served,
    method: str,
    path: str,
    body: object,
    expected: tuple[int, str, int],
) -> None:
    """Statuses with their phrases, which a public client compares, and numbers."""
    status, reason, said = await ask(served, method, path, body)

    assert expected == (status, reason, said["errorcode"])
    assert "ERROR" == said["severity"]


async def test_sessions(served: Served, clock: Clock) -> None:
    """A login gives a token as cookie and body; it ends by itself, or by logout."""
    login = {"login": {"username": "lbcf", "password": "secret"}}
    status, reason, said = await ask(served, "POST", "config/login", login, {})
    cookie = {"Cookie": f"NITRO_AUTH_TOKEN={said['sessionid']}"}
    odd = {"Set-Cookie": f"NITRO_AUTH_TOKEN={said['sessionid']}"}

    seen = [
        (await ask(served, "GET", "stat/ns", None, one))[0] for one in (cookie, odd)
    ]
    clock.advance(1801)
    late = await ask(served, "GET", "stat/ns", None, cookie)
    nobody = await ask(served, "GET", "stat/ns", None, {})
    wrong = await ask(
        served, "GET", "stat/ns", None, {"X-NITRO-USER": "lbcf", "X-NITRO-PASS": "?"}
    )

    assert (201, "Created") == (status, reason)
    assert [200, 200] == seen
    assert [(401, 444), (401, 1027), (401, 354)] == [
        (one[0], one[2]["errorcode"]) for one in (late, nobody, wrong)
    ]


async def test_disabling_without_a_member_takes_the_group(served: Served) -> None:
    """The trap that the driver must not fall into is there."""
    members = [bind(served.unit), bind(served.unit, 81)]

    body = {"servicegroup": {"servicegroupname": GROUP}}
    await ask(served, "POST", "config/servicegroup?action=disable", body)

    assert ["OUT OF SERVICE"] * 2 == [served.unit.svrstate(one) for one in members]


@pytest.mark.parametrize(
    ("graceful", "delay", "states"),
    [
        ("NO", 0, ["OUT OF SERVICE"] * 3),
        ("NO", 20, ["GOING OUT OF SERVICE", "GOING OUT OF SERVICE", "OUT OF SERVICE"]),
        ("YES", 0, ["GOING OUT OF SERVICE", "OUT OF SERVICE", "OUT OF SERVICE"]),
        ("YES", 5, ["GOING OUT OF SERVICE", "OUT OF SERVICE", "OUT OF SERVICE"]),
        ("YES", 30, ["GOING OUT OF SERVICE", "OUT OF SERVICE", "OUT OF SERVICE"]),
    ],
)
def test_graceful_shutdown(
    unit: Unit, clock: Clock, graceful: str, delay: int, states: list[str]
) -> None:
    """Delay and graceful together, with a connection that ends after ten seconds.

    The four cases of the vendor's page on graceful shutdown, looked at after 0, 10 and
    20 seconds.
    """
    member = bind(unit)
    unit.traffic.open(member.key, 10)
    seen = []

    unit.disable(member, graceful=graceful, delay=delay)
    for _ in range(3):
        seen.append(unit.svrstate(member))
        clock.advance(10)

    assert states == seen


def test_a_delay_cuts_what_is_left(unit: Unit, clock: Clock) -> None:
    """When its delay is over, a member's connections are over, too."""
    member = bind(unit)
    connection = unit.traffic.open(member.key, 60)

    unit.disable(member, graceful="YES", delay=5)
    clock.advance(5)
    unit.tick()

    assert 5 == connection.cut_at


def test_a_reboot_takes_what_is_not_saved(unit: Unit) -> None:
    """It comes back as it was saved, and says that it was started anew."""
    before = unit.started
    unit.save()
    bind(unit)

    unit.reboot()

    assert ({}, ["s1"]) == (unit.running.members, list(unit.running.servers))
    assert before != unit.started


def test_a_server_takes_its_members_along(unit: Unit) -> None:
    """Deleting a server object unbinds it everywhere."""
    bind(unit)

    unit.change(lambda config: config.delete_server("s1"))

    assert ["bound", "gone"] == [event.what for event in unit.events]
