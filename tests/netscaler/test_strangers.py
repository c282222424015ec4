"""Members of other people are never touched, whatever the driver is asked."""

import asyncio
import contextlib
import tempfile

from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import hypothesis
import pytest
import trustme

from hypothesis import strategies

from lbcf.sdk import Fail, RetryAfter
from tests.netscaler.appliances import GROUP, Site, a_site
from tests.netscaler.configuration import Configuration, Member
from tests.netscaler.nitro import Heard
from tests.netscaler.requests import an_ensure
from tests.webhooks.requests import a_deregister, a_drain, a_list
from webhooks.device.errors import InvalidInput
from webhooks.netscaler import decisions
from webhooks.netscaler.changes import (
    Adjust,
    Bind,
    Change,
    Disable,
    Enable,
    Target,
    Unbind,
)
from webhooks.netscaler.decisions import Wanted
from webhooks.netscaler.driver import NetscalerDriver
from webhooks.netscaler.errors import ForeignMember
from webhooks.netscaler.members import Mark, parse_address
from webhooks.netscaler.parameters import Options
from webhooks.netscaler.replies import MemberRow


ADDRESSES = [f"198.18.0.{last}:{port}" for last in (1, 2, 3) for port in (8080, 9090)]
"""Few, so that ours and theirs meet."""

MARKS = strategies.sampled_from(
    ["None", "", "lbcf", "lbcf-", "lbcf--1", "lbcfx-1", "LBCF-1", "4711", "x-lbcf-1"]
)
"""What other people may write on their members, much of it nearly ours."""

TEXTS = strategies.one_of(
    strategies.text(max_size=80),
    strategies.sampled_from(["a-b", "-", "1;2", "a,port:1", "%2e%2e", "web/x", "*"]),
    strategies.uuids().map(str),
)


@hypothesis.given(text=MARKS | TEXTS)
def test_only_marks_of_ours_are_ours(text: str) -> None:
    """A member is ours if what is on it could have been made of prefix and id."""
    mark = Mark.read("lbcf", text)

    assert mark is None or text == str(mark)


@hypothesis.given(record=strategies.uuids().map(str))
def test_a_mark_is_read_back(record: str) -> None:
    """What is written on a member of ours tells the record it stands for."""
    mark = Mark("lbcf", record)

    assert mark == Mark.read("lbcf", str(mark))
    assert Mark.read("other", str(mark)) is None


@hypothesis.given(mark=MARKS, enabled=strategies.booleans())
def test_no_change_can_be_decided_about_a_stranger(mark: str, *, enabled: bool) -> None:
    """An address that somebody else has bound is a conflict, in whatever state."""
    address = parse_address(ADDRESSES[0])
    row = MemberRow("theirs", address, 1, mark, enabled, "UP")
    wanted = Wanted(Mark("lbcf", "1"), address, Options())

    with pytest.raises(ForeignMember, match="bound by somebody else: unbind it"):
        decisions.next_to_ensure(GROUP, wanted, row)


def all_changes(target: Target) -> list[Change]:
    """Return every change that there is about a member."""
    return [
        Bind(target, Options(weight=9)),
        Bind(target, Options(serves=False)),
        Adjust(target, Options()),
        Enable(target),
        Disable(target, None),
        Disable(target, 7),
        Unbind(target),
    ]


@hypothesis.given(group=TEXTS, server=TEXTS, record=strategies.just("1") | TEXTS)
@hypothesis.example(group="web", server="", record="1")
@hypothesis.example(group="web", server="a,port:9,servername:theirs", record="1")
def test_every_change_names_one_member(group: str, server: str, record: str) -> None:
    """Whatever the names are: no change, or one that names server and port.

    Without them the appliance would take the whole group.
    """
    try:
        target = Target(group, server, 8080, Mark("lbcf", record))
    except InvalidInput:
        return
    for change in all_changes(target):
        named = _named(change)
        assert {"servername": server, "port": "8080"} == named
        assert server


def _named(change: Change) -> dict[str, str]:
    """Return the member that a change names, as the appliance reads it."""
    call = change.call
    heard = Heard(call.method, f"/nitro/v1/config/{call.path}", {})
    if isinstance(call.body, dict):
        (fields,) = call.body.values()
        return {name: str(fields[name]) for name in ("servername", "port")}
    return heard.args


Ask = Callable[[NetscalerDriver, Site, str], Awaitable[object]]

OTHER = "other"
"""A service group that is none of the driver's."""


async def ensure_it(driver: NetscalerDriver, site: Site, address: str) -> object:
    """Ensure a member."""
    return await driver.ensure_backend(an_ensure(site.lb_info, address, weight="5"))


async def take_it_out(driver: NetscalerDriver, site: Site, address: str) -> object:
    """Deregister it."""
    request = a_deregister(site.lb_info, address, drained=False)
    return await driver.deregister_backend(request)


ASKS: list[Ask] = [
    ensure_it,
    take_it_out,
    lambda driver, site, address: driver.drain_backend(a_drain(site.lb_info, address)),
    lambda driver, site, _address: driver.list_backends(a_list(site.lb_info)),
]


async def they_bind(_driver: NetscalerDriver, site: Site, address: str) -> None:
    """Bind, in another group, the server object that an address has, if there is one."""
    host, _, port = address.rpartition(":")
    for server in list(site.unit.running.servers.values()):
        key = (OTHER, server.name, int(port))
        if server.ipaddress == host and key not in site.unit.running.members:
            member = Member(OTHER, server.name, "", int(port), 3, "None")
            site.unit.running.bind(member)


def with_strangers(
    theirs: dict[str, str], names: list[str]
) -> Callable[[Configuration], None]:
    """Return what binds members of other people, with these marks on them."""

    def change(configuration: Configuration) -> None:
        """Bind them; some server objects are called as ours would be."""
        for host in names:
            if f"lbcf-{host}" not in configuration.servers:
                configuration.add_server(f"lbcf-{host}", host)
        for address, mark in theirs.items():
            host, _, port = address.rpartition(":")
            server = f"lbcf-{host}" if host in names else f"theirs-{host}"
            if server not in configuration.servers:
                configuration.add_server(server, host)
            configuration.bind(Member(GROUP, server, "", int(port), 3, mark))

    return change


@hypothesis.settings(max_examples=15, deadline=None)
@hypothesis.given(
    theirs=strategies.dictionaries(strategies.sampled_from(ADDRESSES), MARKS),
    names=strategies.lists(strategies.sampled_from(["198.18.0.1", "198.18.0.2"])),
    asked=strategies.lists(
        strategies.tuples(
            strategies.sampled_from([*ASKS, they_bind]),
            strategies.sampled_from(ADDRESSES),
        ),
        max_size=12,
    ),
)
@hypothesis.example(
    theirs={},
    names=[],
    asked=[(one, ADDRESSES[0]) for one in (ensure_it, they_bind, take_it_out)],
)
@hypothesis.example(
    theirs={},
    names=["198.18.0.1"],
    asked=[(one, ADDRESSES[0]) for one in (ensure_it, take_it_out)],
)
def test_strangers_stay_as_they_are(
    theirs: dict[str, str], names: list[str], asked: list[tuple[Ask, str]]
) -> None:
    """After any operations on any addresses, nobody else's thing has changed."""
    asyncio.run(_work_beside(with_strangers(theirs, names), asked))


async def _work_beside(
    change: Callable[[Configuration], None], asked: list[tuple[Ask, str]]
) -> None:
    """Perform the operations on an appliance that others use, too."""
    with tempfile.TemporaryDirectory() as folder:
        async with a_site(Path(folder), AUTHORITY) as site:
            site.unit.change(change)
            driver, before = site.driver(), site.unit.running.copy()
            for ask, address in asked:
                with contextlib.suppress(Fail, RetryAfter):
                    await ask(driver, site, address)
                if ask is they_bind:
                    for member in site.unit.running.of_group(OTHER):
                        before.members[member.key] = attrs.evolve(member)
                check_all_there(before, site.unit.running)
            await driver.stop()
            check_all_there(before, site.unit.running)


def check_all_there(before: Configuration, after: Configuration) -> None:
    """See that members and server objects of other people are as they were."""
    for key, member in before.members.items():
        assert member == after.members.get(key)
    for name, server in before.servers.items():
        assert server == after.servers.get(name)


AUTHORITY = trustme.CA()
