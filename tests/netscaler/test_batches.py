"""Many members by one bulk request, and one that is refused in it."""

import asyncio

from collections.abc import Mapping

import aiohttp
import pytest

from lbcf.sdk import (
    EnsureBackendRequest,
    Fail,
    Outcome,
    RetryAfter,
    RetrySingly,
    Running,
    Succ,
)
from tests.netscaler.appliances import GROUP, Site
from tests.netscaler.configuration import Configuration, Member
from tests.netscaler.errors import (
    INVALID_ARGUMENT,
    NOT_AUTHORIZED,
    NitroRefusal,
)
from tests.netscaler.nitro import Heard, Trouble, refused
from tests.netscaler.requests import an_ensure
from tests.webhooks.requests import a_deregister, a_drain
from webhooks.netscaler.driver import NetscalerDriver


MANY = 50


def at(number: int) -> str:
    """Return the address of one of many."""
    return f"198.18.7.{number + 1}:80"


def ensures(site: Site, number: int = MANY) -> list[EnsureBackendRequest]:
    """Return requests for so many members."""
    return [an_ensure(site.lb_info, at(n), f"record-{n}") for n in range(number)]


def occupy(site: Site, host: str, port: int = 80) -> None:
    """Have a member of somebody else."""

    def bind(configuration: Configuration) -> None:
        configuration.add_server(f"theirs-{host}", host, "do not touch")
        configuration.bind(Member(GROUP, f"theirs-{host}", "", port, 3, "None"))

    site.unit.change(bind)


def strangers(site: Site) -> list[str]:
    """Return members and servers of other people, as they are."""
    running = site.unit.running
    members = [repr(m) for m in running.members.values() if m.customserverid == "None"]
    return members + [
        repr(s) for s in running.servers.values() if "lbcf" not in s.comment
    ]


def kinds(outcomes: Mapping[str, Outcome]) -> set[type]:
    """Return the types of outcomes."""
    return {type(one) for one in outcomes.values()}


def singly(outcomes: Mapping[str, Outcome]) -> set[str]:
    """Return the records that are to be asked for alone."""
    return {name for name, one in outcomes.items() if isinstance(one, RetrySingly)}


async def ended(
    driver: NetscalerDriver, site: Site, number: int = MANY
) -> Mapping[str, Outcome]:
    """Take members out until that is on disk; return the last outcomes."""
    requests = [a_deregister(site.lb_info, at(n), f"record-{n}") for n in range(number)]
    outcomes = await driver.deregister_backends(requests)
    async with asyncio.timeout(50):
        while Running in kinds(outcomes):
            await asyncio.sleep(0.05)
            outcomes = await driver.deregister_backends(requests)
    return outcomes


async def test_many_come_and_go(driver: NetscalerDriver, site: Site) -> None:
    """Two requests put them there, two take them out; strangers stay as they are."""
    occupy(site, "198.18.9.9")
    before = strangers(site)
    ensured = await driver.ensure_backends(ensures(site))
    inside = len(site.unit.running.of_group(GROUP))
    drains = [a_drain(site.lb_info, at(n), f"record-{n}") for n in range(MANY)]
    drained = await driver.drain_backends(drains)
    outcomes = await ended(driver, site)

    assert [{Succ}] * 3 == [kinds(ensured), kinds(drained), kinds(outcomes)]
    assert MANY + 1 == inside
    assert [
        ("POST", "server", ""),
        ("PUT", "servicegroup_servicegroupmember_binding", ""),
        ("POST", "servicegroup", "disable"),
        ("POST", "servicegroup_servicegroupmember_binding", "unbind"),
        ("POST", "server", "rm"),
    ] == [
        (one.method, one.resource, one.path.partition("?action=")[2])
        for one in site.nitro.changes()
    ]
    assert before == strangers(site)
    assert ["theirs-198.18.9.9"] == list(site.unit.running.servers)
    assert list(site.unit.running.members) == list(site.unit.saved.members)


async def test_a_large_batch_is_several_requests(
    driver: NetscalerDriver, site: Site
) -> None:
    """So that each is answered in time by an appliance that is slow with items."""
    outcomes = await driver.ensure_backends(ensures(site, 60))

    sizes = [len(one.items) for one in site.nitro.changes()]
    assert {Succ} == kinds(outcomes)
    assert [50, 10, 50, 10] == sizes
    assert 60 == len(site.unit.running.members)


async def test_no_request_says_what_the_whole_group_is(
    driver: NetscalerDriver, site: Site
) -> None:
    """Each item names a member: one without a server would mean all of the group."""
    occupy(site, "198.18.9.9")
    await driver.ensure_backends(ensures(site, 5))
    await driver.drain_backends(
        [a_drain(site.lb_info, at(n), f"record-{n}") for n in range(5)]
    )
    await ended(driver, site, 5)

    for one in site.nitro.changes():
        assert "memberlist" not in one.path
        assert one.items
        for item in one.items:
            assert item.get("name") or (item["servername"] and item["port"])


async def test_what_is_left_on_each_is_told(
    driver: NetscalerDriver, site: Site
) -> None:
    """One reading has the connections of all."""
    await driver.ensure_backends(ensures(site, 3))
    (key,) = [one for one in site.unit.running.members if one[1].endswith(".2")]
    for _ in range(7):
        site.unit.traffic.open(key, 3600)
    outcomes = await driver.drain_backends(
        [a_drain(site.lb_info, at(n), f"record-{n}") for n in range(3)]
    )

    assert [None, 7, None] == [
        getattr(outcomes[f"record-{n}"], "active_connections", None) for n in range(3)
    ]
    assert [Succ, Running, Succ] == [type(outcomes[f"record-{n}"]) for n in range(3)]


async def test_one_spoils_it_for_nobody(driver: NetscalerDriver, site: Site) -> None:
    """The appliance goes on behind it; it alone is asked for singly, and told why there."""
    occupy(site, "198.18.9.9")
    before, requests = strangers(site), ensures(site)
    site.unit.spoilt["198.18.7.8"] = "Argument cannot be used [serverName]"

    outcomes = await driver.ensure_backends(requests)

    assert {"record-7"} == singly(outcomes)
    assert {Succ, RetrySingly} == kinds(outcomes)
    assert 3 >= len(site.nitro.changes())
    assert before == strangers(site)
    with pytest.raises(Fail, match="Argument cannot be used"):
        await driver.ensure_backend(requests[7])


async def test_strangers_and_nonsense_are_left_out(
    driver: NetscalerDriver, site: Site
) -> None:
    """An address that somebody else has bound, and one that is none."""
    occupy(site, "198.18.7.3")
    requests = [*ensures(site, 5), an_ensure(site.lb_info, "nonsense", "bad")]

    outcomes = await driver.ensure_backends(requests)

    assert {"record-2", "bad"} == singly(outcomes)
    assert 4 == len([one for one in outcomes.values() if isinstance(one, Succ)])


async def test_a_server_that_others_use_stays(
    driver: NetscalerDriver, site: Site
) -> None:
    """An appliance would take their members along with it."""
    await driver.ensure_backends(ensures(site, 3))
    name = next(one for one in site.unit.running.servers if one.endswith(".2"))
    site.unit.change(lambda config: config.bind(Member("other", name, "", 443)))

    outcomes = await ended(driver, site, 3)

    assert {Succ} == kinds(outcomes)
    assert [name] == list(site.unit.running.servers)
    assert [("other", name, 443)] == list(site.unit.running.members)


@pytest.mark.parametrize("late", [True, False])
async def test_a_bulk_request_without_an_answer(
    driver: NetscalerDriver, site: Site, *, late: bool
) -> None:
    """Nobody knows of any item; asking again settles it, done or not."""
    is_server = Trouble(None, 1, lambda heard: _changing(heard) == "server", late)
    site.nitro.troubles.append(is_server)
    requests = ensures(site, 10)

    first = await driver.ensure_backends(requests)
    second = await driver.ensure_backends(requests)

    assert [{RetryAfter}, {Succ}] == [kinds(first), kinds(second)]
    assert 10 == len(site.unit.running.members)


def _changing(heard: Heard) -> str:
    """Return the resource that a request changes; empty: none."""
    return heard.resource if heard.method != "GET" else ""


async def test_an_appliance_without_bulk_requests(
    driver: NetscalerDriver, site: Site
) -> None:
    """What it refuses as a whole is asked for singly, and not again and again."""
    no_lists = NitroRefusal(INVALID_ARGUMENT, "Invalid JSON input")
    site.nitro.troubles.append(
        Trouble(
            lambda: refused(no_lists),
            1000,
            lambda heard: isinstance(heard.body.get(heard.resource), list),
        )
    )

    outcomes = await driver.ensure_backends(ensures(site, 10))

    assert {RetrySingly} == kinds(outcomes)
    assert 1 >= len(site.nitro.changes())


async def test_a_user_who_may_not(driver: NetscalerDriver, site: Site) -> None:
    """Each is told so, and none is asked for again alone."""
    may_not = NitroRefusal(NOT_AUTHORIZED, "Not authorized to execute this command")
    trouble = Trouble(lambda: refused(may_not), 1000, lambda one: bool(_changing(one)))
    await driver.ensure_backends(ensures(site, 1))
    site.nitro.troubles.append(trouble)

    outcomes = await driver.ensure_backends(ensures(site, 3)[1:])

    assert {Fail} == kinds(outcomes)
    assert "command policy" in str(outcomes["record-1"])


async def test_a_group_that_is_gone(driver: NetscalerDriver, site: Site) -> None:
    """Nobody comes in, and everybody is out."""
    lb_info = site.lb_info | {"serviceGroup": "nowhere"}
    ensured = await driver.ensure_backends([an_ensure(lb_info, at(0), "one")])
    drained = await driver.drain_backends([a_drain(lb_info, at(0), "one")])

    assert [{Fail}, {Succ}] == [kinds(ensured), kinds(drained)]


async def test_one_change_at_a_time(driver: NetscalerDriver, site: Site) -> None:
    """Batches and single calls wait for each other at an appliance."""
    site.nitro.slow_changes = 0.01
    await asyncio.gather(
        driver.ensure_backends(ensures(site, 20)[:10]),
        driver.ensure_backends(ensures(site, 20)[10:]),
        driver.ensure_backend(an_ensure(site.lb_info, at(30), "alone")),
    )

    assert 1 == site.nitro.at_once
    assert 21 == len(site.unit.running.members)


@pytest.mark.parametrize(
    ("how", "codes", "made"),
    [("continue", [273, 0], True), ("exit", [273], False), ("", [273], False)],
)
async def test_bulk_requests_are_answered_as_documented(
    site: Site, how: str, codes: list[int], *, made: bool
) -> None:
    """207 with a result for each that was tried, and what an error ends."""
    occupy(site, "198.18.9.9")
    headers = {"X-NITRO-USER": "lbcf", "X-NITRO-PASS": "secret"}
    if how:
        headers["X-NITRO-ONERROR"] = how
    servers = [
        {"name": "theirs-198.18.9.9", "ipaddress": "198.18.9.9"},
        {"name": "another", "ipaddress": "198.18.9.10"},
    ]
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(
            f"{site.served[0].url}/nitro/v1/config/server",
            json={"server": servers},
            ssl=False,
        ) as answer,
    ):
        said = await answer.json()

    assert (207, 1243) == (answer.status, said["errorcode"])
    assert codes == [one["errorcode"] for one in said["response"]]
    assert made == ("another" in site.unit.running.servers)
