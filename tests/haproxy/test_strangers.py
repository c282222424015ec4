"""Servers of other people are never touched, whatever the driver is asked."""

import asyncio
import contextlib

from collections.abc import Iterator, Sequence

import attrs
import hypothesis
import pytest

from hypothesis import strategies

from lbcf.sdk import Refusal
from tests.haproxy.conftest import HERE, StartServer, patient
from tests.haproxy.proxy import FOREIGN, Haproxy
from tests.haproxy.requests import a_deregister, a_drain, an_ensure, an_identity
from tests.webhooks.requests import a_list
from webhooks.haproxy import commands
from webhooks.haproxy.commands import Command, Target
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.errors import InvalidInput
from webhooks.haproxy.members import Member, MemberName, parse_address
from webhooks.haproxy.parameters import parse_options
from webhooks.haproxy.slot_driver import SlotDriver


_HOSTILE = strategies.text(
    strategies.sampled_from("lbcf-foreign-1/;\n\r\t #@%\\'\"[]{}.:_é\0"), max_size=30
)
TEXTS = strategies.one_of(
    strategies.text(max_size=120),
    _HOSTILE,
    strategies.sampled_from(["../foreign-1", "x;del server web/foreign-1", "-", ""]),
    strategies.uuids().map(str),
)
"""What may come in as a name: anything, much of it made to be dangerous."""


def all_commands(target: Target, name: MemberName) -> list[Command]:
    """Return every command that can be composed about a target."""
    member = Member(name, parse_address("[::1]:1"), parse_options({}))
    return [
        commands.add(target, member),
        commands.probe(target),
        commands.serve(target, check=True, fresh=True),
        commands.weigh(target, 7),
        commands.watch(target),
        commands.drain(target),
        commands.rest(target),
        commands.cut(target),
        commands.loosen(target),
        commands.delete(target),
        commands.move(target, member.address),
    ]


@hypothesis.given(
    prefix=strategies.just("lbcf") | TEXTS,
    record=strategies.just("6a1b") | TEXTS,
    backend=strategies.just("web") | TEXTS,
)
@hypothesis.example(prefix="lbcf", record="1;del server web/foreign-1", backend="web")
@hypothesis.example(prefix="lbcf", record="../foreign-1", backend="web")
@hypothesis.example(prefix="lbcf", record="6a1b", backend="web/foreign-1;show info")
def test_every_command_names_one_server_of_ours(
    prefix: str, record: str, backend: str
) -> None:
    """Whatever the names are: no command, or one whose only server has our prefix."""
    try:
        name = MemberName(prefix, record)
        target = Target(backend, name, cookie=True)
    except InvalidInput:
        return
    for command in all_commands(target, name):
        whole = f"enable dynamic-cookie backend {backend}"
        parts = [part for part in command.line.split(";") if part != whole]
        named = [word for part in parts for word in part.split() if "/" in word]
        assert [f"{backend}/{prefix}-{record}"] * len(parts) == named
        assert command.line.isascii()
        assert command.line.isprintable()


@hypothesis.given(server=TEXTS)
@hypothesis.example(server="lbcf")
@hypothesis.example(server="lbcf-")
@hypothesis.example(server="lbcfx-1")
@hypothesis.example(server="lbcf-1")
def test_only_prefixed_servers_are_ours(server: str) -> None:
    """A server is ours if its name could have been made of the prefix and an id."""
    name = MemberName.of_server("lbcf", server)

    assert server == str(name) if name else not server.startswith("lbcf-1")


def test_no_prefix_begins_the_names_of_another() -> None:
    """Two drivers with different prefixes never take each other's servers for theirs.

    The prefix `lbcf-b` would make names that the driver with `lbcf` takes for its own.
    """
    with pytest.raises(InvalidInput, match="name prefix"):
        MemberName("lbcf-b", "1")

    assert MemberName.of_server("lbcf", "lbcfb-1") is None


@pytest.mark.haproxy
@pytest.mark.parametrize("record", [*FOREIGN, "../web/foreign-1", "1;2", "a b", ""])
async def test_strangers_stay_as_they_are(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer, record: str
) -> None:
    """After all operations on a record of that id, no other server has changed."""
    lb_info = an_identity(proxy)
    address = (await start_server("own")).address
    before = await proxy.foreign()

    for _ in range(2):
        with contextlib.suppress(Refusal):
            await driver.ensure_backend(an_ensure(lb_info, address, record))
        with contextlib.suppress(Refusal):
            await driver.drain_backend(a_drain(lb_info, record))
        for drained in (True, False):
            with contextlib.suppress(Refusal):
                await driver.deregister_backend(
                    a_deregister(lb_info, record, drained=drained)
                )

    assert len(FOREIGN) == len(before)
    assert before == await proxy.foreign()
    assert [] == await proxy.ours()


BACKENDS = {"web": FOREIGN, "slots": ("foreign-1", "lbcf.x")}
"""Servers of other people, by backend."""


SET_BY_COMMANDS = ("srv_name", "srv_addr", "srv_port", "srv_admin_state", "srv_uweight")
"""Columns of a server that its checks do not change."""


@attrs.frozen
class Event:
    """An operation of the driver, or a hand of somebody else.

    Attributes:
        what: ensure, drain, deregister, cut, list; or what they set of a server.
        backend: web, or slots for members in slots.
        record: its id; of a hand, it chooses the server.
        port: of the member.
    """

    what: str
    backend: str
    record: str
    port: int


EVENTS = strategies.builds(
    Event,
    what=strategies.sampled_from(
        [
            *("ensure", "ensure", "drain", "deregister", "cut", "list"),
            *("state ready", "state maint", "state drain", "weight 7"),
        ]
    ),
    backend=strategies.sampled_from(list(BACKENDS)),
    record=strategies.sampled_from(
        [*FOREIGN, "r1", "r2", "x", "1;del server web/lbcf"]
    ),
    port=strategies.integers(1, 3),
)


@attrs.frozen
class Stage:
    """A HAProxy that the examples of a property share, and the loop that it lives in."""

    runner: asyncio.Runner
    proxy: Haproxy

    async def happen(self, event: Event) -> None:
        """Let something happen; strangers change by their owners' hands alone."""
        theirs = BACKENDS[event.backend]
        if event.what.startswith(("state", "weight")):
            server = theirs[event.port % len(theirs)]
            await self.proxy.ask(f"set server {event.backend}/{server} {event.what}")
            return
        before = await self._strangers()
        with contextlib.suppress(Refusal):
            await self._asked(event)
        assert before == await self._strangers(), event

    async def _strangers(self) -> list[list[str]]:
        """Return what commands set of the servers of other people."""
        rows = {backend: await self.proxy.rows(backend) for backend in BACKENDS}
        return [
            [rows[backend][server][column] for column in SET_BY_COMMANDS]
            for backend, servers in BACKENDS.items()
            for server in servers
        ]

    async def _asked(self, event: Event) -> None:
        """Ask the driver."""
        kind = HaproxyDriver if event.backend == "web" else SlotDriver
        driver = patient(kind, addresses=HERE)
        lb_info = an_identity(self.proxy, backend=event.backend)
        address, record = f"127.0.1.9:{event.port}", event.record
        parameters: dict[str, str] | None = None if event.backend == "web" else {}
        match event.what:
            case "ensure":
                request = an_ensure(lb_info, address, record, parameters)
                await driver.ensure_backend(request)
            case "drain":
                await driver.drain_backend(a_drain(lb_info, record, address))
            case "list":
                await driver.list_backends(a_list(lb_info))
            case how:
                drained = how == "deregister"
                leave = a_deregister(lb_info, record, drained=drained, address=address)
                await driver.deregister_backend(leave)


@pytest.fixture(name="stage", scope="module")
def _stage() -> Iterator[Stage]:
    """Return a HAProxy for a property."""
    running = Haproxy.running()
    with asyncio.Runner() as runner:
        proxy = runner.run(running.__aenter__())
        try:
            yield Stage(runner, proxy)
        finally:
            runner.run(running.__aexit__(None, None, None))


async def lived(stage: Stage, events: Sequence[Event]) -> None:
    """Let all happen, one after the other."""
    for event in events:
        await stage.happen(event)


@pytest.mark.haproxy
@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(events=strategies.lists(EVENTS, min_size=3, max_size=12))
def test_servers_of_others_stay(stage: Stage, events: list[Event]) -> None:
    """However the driver is asked: no server of others changes, by name or by slot."""
    stage.runner.run(lived(stage, events))
