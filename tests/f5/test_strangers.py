"""Members and nodes of other people are never touched, whatever the driver is asked."""

import asyncio
import contextlib
import tempfile

from collections.abc import Sequence
from pathlib import Path

import attrs
import hypothesis

from hypothesis import strategies

from lbcf.sdk import NotThere, Refusal
from tests.f5.config import Config
from tests.f5.drivers import a_driver
from tests.f5.requests import WEB, an_ensure, an_identity
from tests.f5.server import PASSWORD, USER, Bigip, a_bigip
from tests.webhooks.requests import a_deregister, a_drain, a_list
from webhooks.device.errors import InvalidInput
from webhooks.f5.driver import F5Driver
from webhooks.f5.names import Mark, ObjectPath, parse_address, parse_path
from webhooks.shared.identity import Owner


PLACES = tuple(f"198.18.0.{last}:80" for last in range(1, 4))
DESCRIPTIONS = (
    "", "theirs", "lbcf", "lbcf:", "lbcf:node", "lbcfx:r1", "Lbcf:r1", " lbcf:r1",
    "x lbcf:r1",
)  # fmt: skip
"""What other people write; the driver's own is `lbcf:` and a record's id."""


@attrs.frozen
class Word:
    """One operation that the driver is asked for, or a hand of somebody else."""

    operation: str
    address: str
    record: str


WORDS = strategies.builds(
    Word,
    strategies.sampled_from(("ensure", "drain", "deregister", "list", "they add")),
    strategies.sampled_from(PLACES) | strategies.text(max_size=30),
    strategies.sampled_from(("r1", "r2", "node", "", "../x")),
)
THEIRS = strategies.dictionaries(
    strategies.sampled_from(PLACES), strategies.sampled_from(DESCRIPTIONS)
)
LONE = strategies.sets(strategies.sampled_from([one[:-3] for one in PLACES]))
"""Addresses that have a node of somebody else's, without members."""


@attrs.frozen
class Strangers:
    """What is not the driver's on a unit, as it was when it came.

    Attributes:
        config: of the unit.
        members: by path.
        nodes: by path; the driver's own may have members of theirs.
    """

    config: Config
    members: dict[str, object] = attrs.field(factory=dict)
    nodes: dict[str, object] = attrs.field(factory=dict)

    def add_node(self, host: str) -> None:
        """Have a node that no member is at; it is called as the driver's would be."""
        node = self.config.add_node({"name": host, "address": host})
        self.nodes[node.path] = attrs.asdict(node)

    def add_member(self, name: str, description: str) -> None:
        """Have a member, unless there is one, and a node if there is none."""
        if f"/Common/{name}" in self.config.pools[WEB].members:
            return
        before = set(self.config.nodes)
        body = {"name": name, "description": description}
        member = self.config.add_member(WEB, body)
        self.members[member.path] = attrs.asdict(member)
        if member.node not in before:
            self.nodes[member.node] = attrs.asdict(self.config.nodes[member.node])

    def check(self) -> None:
        """See that all is as it was, generations included."""
        members, nodes = self.config.pools[WEB].members, self.config.nodes
        for path, member in self.members.items():
            assert member == attrs.asdict(members[path])
        for path, node in self.nodes.items():
            assert node == attrs.asdict(nodes[path])


async def _ask(driver: F5Driver, bigip: Bigip, word: Word) -> None:
    """Have the driver perform an operation, refuse it, or find that it is done."""
    lb_info = an_identity(bigip)
    with contextlib.suppress(Refusal, NotThere):
        match word.operation:
            case "ensure":
                await driver.ensure_backend(
                    an_ensure(lb_info, word.address, word.record, {"ratio": "9"})
                )
            case "drain":
                await driver.drain_backend(a_drain(lb_info, word.address, word.record))
            case "deregister":
                await driver.deregister_backend(
                    a_deregister(lb_info, word.address, word.record)
                )
            case _:
                await driver.list_backends(a_list(lb_info))


async def _live(
    secret: Path, theirs: dict[str, str], lone: set[str], words: Sequence[Word]
) -> None:
    """Let the driver live among strangers."""
    async with a_bigip() as bigip:
        strangers = Strangers(bigip.unit.running)
        for host in lone:
            strangers.add_node(host)
        for name, description in theirs.items():
            strangers.add_member(name, description)
        driver = a_driver(secret)
        try:
            for word in words:
                if word.operation != "they add":
                    await _ask(driver, bigip, word)
                elif word.address in PLACES:
                    strangers.add_member(word.address, "theirs")
                strangers.check()
        finally:
            await driver.stop()
        strangers.check()


@hypothesis.given(theirs=THEIRS, lone=LONE, words=strategies.lists(WORDS, max_size=12))
@hypothesis.example(theirs={}, lone=set(), words=[Word("drain", "", "r1")])
@hypothesis.settings(deadline=None, max_examples=25)
def test_strangers_stay_as_they_are(
    theirs: dict[str, str], lone: set[str], words: list[Word]
) -> None:
    """No sequence of operations changes a member or a node that was not ours."""
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder)
        (secret / "username").write_text(USER)
        (secret / "password").write_text(PASSWORD)
        asyncio.run(_live(secret, theirs, lone, words))


@hypothesis.given(
    record=strategies.text(max_size=120), pool=strategies.sampled_from(["", "0" * 16])
)
@hypothesis.example(record="r1", pool="")
@hypothesis.example(record="node", pool="0123456789abcdef")
def test_marks_are_read_as_they_are_written(record: str, pool: str) -> None:
    """A description that we wrote tells its record, and no other mark's does."""
    mark = Mark()
    try:
        written = mark.of_member(Owner(record, pool))
    except InvalidInput:
        return
    assert Owner(record, pool) == mark.owner_of(written)
    assert record == mark.record_of(written)
    assert None is Mark("lbcfx").record_of(written)
    assert written != mark.of_node


@hypothesis.given(text=strategies.text(max_size=60))
@hypothesis.example(text="/Common/../Tenant/web")
@hypothesis.example(text="/Common/web/members/x")
@hypothesis.example(text="web?x=1")
def test_a_path_is_one_part_of_a_url(text: str) -> None:
    """No name of a pool leads to another place."""
    try:
        path = parse_path(text)
    except InvalidInput:
        return
    assert not set("/?#&\\") & set(path.in_url)
    assert ".." not in path.in_url.split("~")


def test_members_are_named_by_their_address_alone() -> None:
    """Whatever a backend's address is, its path names that member."""
    address = parse_address("198.18.0.1:80")

    assert (
        "~Common~198.18.0.1:80"
        == ObjectPath(f"/Common/{address.named(address.host)}").in_url
    )
