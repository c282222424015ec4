"""Servers of other people are never touched, whatever the driver is asked."""

import contextlib

import hypothesis
import pytest

from hypothesis import strategies

from lbcf.sdk import Fail
from tests.haproxy.conftest import StartServer
from tests.haproxy.proxy import FOREIGN, Haproxy
from tests.haproxy.requests import a_deregister, a_drain, an_ensure, an_identity
from tests.webhooks.requests import a_list
from webhooks.haproxy import commands
from webhooks.haproxy.commands import Command, Target
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.errors import InvalidInput
from webhooks.haproxy.members import Member, MemberName, parse_address
from webhooks.haproxy.parameters import parse_options


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
        with contextlib.suppress(Fail):
            await driver.ensure_backend(an_ensure(lb_info, address, record))
        with contextlib.suppress(Fail):
            await driver.drain_backend(a_drain(lb_info, record))
        for drained in (True, False):
            with contextlib.suppress(Fail):
                await driver.deregister_backend(
                    a_deregister(lb_info, record, drained=drained)
                )

    assert len(FOREIGN) == len(before)
    assert before == await proxy.foreign()
    assert [] == await proxy.ours()


@pytest.mark.haproxy
async def test_strangers_are_not_listed(driver: HaproxyDriver, proxy: Haproxy) -> None:
    """Only our members are listed, in a backend full of others."""
    lb_info = an_identity(proxy)
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80", "mine"))

    answer = await driver.list_backends(a_list(lb_info))

    assert ["mine"] == [one.record_id for one in answer.backends]
