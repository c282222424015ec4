"""When the condition InService is written, and how fast."""

import asyncio

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise

import attrs
import pytest

from lbcf.controller.first_checks import FirstChecks
from lbcf.controller.member_health import PACE, InServiceCondition
from lbcf.controller.view import View
from lbcf.core.lifecycle.in_service import (
    GRACE,
    in_service,
    said_of,
    with_in_service,
)
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, Meta
from lbcf.core.model.values import MemberKey
from lbcf.executor.listings import Listing
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Conflict
from lbcf.kube.kinds import RECORDS
from lbcf.kube.list_watch import Removed
from lbcf.kube.requests import Body
from lbcf.wire.driver_answers import BackendState, ListedBackend
from lbcf.wire.metadata import identity_of
from tests.builders import a_driver, a_load_balancer, a_record
from tests.controller.exchanges import Nobody
from tests.controller.views import everyday, show
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual


PERIOD = 2.0
MANY = 200


class Writes(ObjectWriter[BackendRecord]):
    """Writes into the view alone, and notes when; the first one may meet a conflict."""

    def __init__(self, view: View, conflicts: int = 0) -> None:
        super().__init__(KubeClient(Nobody()), RECORDS, view.records)
        self.at: list[float] = []
        self.texts: list[str] = []
        self._conflicts = conflicts

    async def patch(
        self,
        meta: Meta,
        body: Body,
        subresource: str = "",
        *,
        observe: bool = True,
        merges_lists: bool = False,
    ) -> BackendRecord:
        """Take the status that says what the condition says."""
        assert not merges_lists
        self.at.append(asyncio.get_running_loop().time())
        if len(self.at) <= self._conflicts:
            raise Conflict(f"{subresource} {observe}", status=409)
        record = self.store.get(meta.key)
        assert record is not None
        text = str(body)
        self.texts.append(text)
        word = "DOWN" if "DOWN" in text else "" if "new traffic" in text else None
        told = with_in_service(record, in_service(record, word), VirtualClock().now())
        version = int(meta.resource_version) + 1
        told = attrs.evolve(
            told, meta=attrs.evolve(meta, resource_version=str(version))
        )
        self.store.observe(told)
        return told


class Played:
    """Records of one load balancer, and what it says of them by period."""

    def __init__(
        self,
        count: int = 1,
        conflicts: int = 0,
        word: str = "DOWN",
        *,
        lists: bool = True,
    ) -> None:
        self.word = word
        self.key = a_load_balancer().meta.key
        records = [a_record(f"web-{n}", registered=True) for n in range(count)]
        timeouts = (
            {Operation.LIST_BACKENDS.value: timedelta(seconds=10)} if lists else {}
        )
        driver = attrs.evolve(a_driver(version=2), timeouts=timeouts)
        self.view = show(everyday(), driver, *records)
        self.writes, clock = Writes(self.view, conflicts), VirtualClock()
        self.health = InServiceCondition(
            self.view, self.writes, FirstChecks(self.view, clock), clock
        )

    def records(self) -> Sequence[BackendRecord]:
        """Who is registered, as the view has it now."""
        return tuple(self.view.members_of(self.key))

    async def say(self, *states: BackendState, same: bool = False) -> None:
        """Let the load balancer say something of all members, reading by reading."""
        for state in states:
            members = [_listed(r, state, self.word) for r in self.records()]
            listed = Listing("e1", members, b"1")
            self.health.read(
                self.key,
                MemberKey.RECORD,
                self.records(),
                None if same else listed,
            )
            await asyncio.sleep(PERIOD)

    def told(self) -> list[bool | None]:
        """What the records say, those that say nothing left out."""
        found = [said_of(record) for record in self.records()]
        return [said.status for said in found if said is not None]


def _listed(record: BackendRecord, state: BackendState, word: str) -> ListedBackend:
    reason = word if state is BackendState.DOWN else ""
    return ListedBackend(
        backend_addr=record.address,
        record_id=record.meta.uid,
        state=state,
        reason=reason,
    )


def play(played: Played, *states: BackendState, same: int = 0, rest: float = 0) -> None:
    """Let it say something, then the same bytes so often, then nothing more."""
    run_virtual(running(played, *states, same=same, rest=rest))


async def running(
    played: Played, *states: BackendState, same: int = 0, rest: float = 0
) -> None:
    """The same, in a loop that runs."""
    async with asyncio.TaskGroup() as tasks:
        await asyncio.sleep(GRACE.total_seconds())
        writing = tasks.create_task(played.health.run())
        await played.say(*states)
        await played.say(*states[-1:] * same, same=True)
        await asyncio.sleep(rest)
        writing.cancel()


UP, DOWN = BackendState.ACTIVE, BackendState.DOWN


def test_member_that_is_in_service_costs_no_write() -> None:
    """Nor does one that was not for a moment."""
    played = Played()

    play(played, *[UP, UP, DOWN, DOWN, UP] * 20)

    assert [] == played.writes.at


@pytest.mark.parametrize("conflicts", [0, 3])
def test_member_that_is_down_is_told_once_until_it_is_up(conflicts: int) -> None:
    """Also where the same bytes say it, which are not read again."""
    down = Played(conflicts=conflicts)
    play(down, UP, DOWN, same=20)

    assert [False] == down.told()
    assert 1 + conflicts == len(down.writes.at)

    back = Played()
    play(back, *[DOWN] * 10, *[UP] * 10)

    assert [True] == back.told()
    assert 2 == len(back.writes.at)


def test_word_of_a_member_hides_nothing() -> None:
    """A load balancer's text is a driver's: the condition shows what is seen of it."""
    played = Played(word="DOWN\x1b[2J\x1b]0;root\x07 for \u202egood")

    play(played, *[DOWN] * 5)

    assert [True] == ["it says DOWN for good" in text for text in played.writes.texts]


def test_member_that_flaps_is_not_written_each_time() -> None:
    """It is told to be in service again only when it stays so."""
    played = Played()

    play(played, *[*[DOWN] * 5, *[UP] * 5] * 20)

    assert [False] == played.told()
    assert 3 == len(played.writes.at)


def test_load_balancer_whose_members_all_go_down_is_written_at_a_pace() -> None:
    """One write for each record, and never two at a time."""
    played = Played(MANY)

    play(played, *[DOWN] * 5, rest=MANY * PACE.total_seconds())

    assert [False] * MANY == played.told()
    assert MANY == len(played.writes.at)
    gaps = [after - before for before, after in pairwise(played.writes.at)]
    assert min(gaps) >= PACE.total_seconds() - 1e-6


@pytest.mark.parametrize("is_known", [True, False])
def test_member_that_nobody_lists_any_more_is_unknown(is_known: bool) -> None:
    """A driver that is missing may come back: of others nothing is told then."""
    played = Played(2)
    first, _ = played.records()
    told = with_in_service(first, in_service(first, "DOWN"), VirtualClock().now())
    meta = attrs.evolve(first.meta, resource_version="7")
    show(played.view, attrs.evolve(told, meta=meta))

    played.health.not_asked(played.records(), is_known=is_known)
    play(played, rest=1)

    assert [None] * (1 + is_known) == played.told()


async def _meanwhile(played: Played, record: BackendRecord) -> None:
    """Let it write, and let the watch tell of a record a second later."""

    async def tell() -> None:
        await asyncio.sleep(GRACE.total_seconds() + 1)
        meta = attrs.evolve(record.meta, resource_version="7")
        show(played.view, attrs.evolve(record, meta=meta))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(tell())
        tasks.create_task(running(played, rest=2))


def test_member_that_nobody_told_of_is_unknown() -> None:
    """Who was about to was killed, or it was registered a moment later."""
    killed, late = Played(2, lists=False), Played(0, lists=False)
    play(killed, rest=1)
    run_virtual(_meanwhile(late, a_record("web-1", registered=True)))

    assert [None, None] == killed.told()
    assert [None] == late.told()


def test_conflict_is_made_good_by_the_change_that_it_met() -> None:
    """Nobody reads the list of a load balancer that has none."""
    played = Played(conflicts=1, lists=False)
    [record] = played.records()

    run_virtual(_meanwhile(played, record))

    assert [None] == played.told()
    assert 2 == len(played.writes.at)


def end(played: Played, *records: BackendRecord) -> None:
    """Let the watch tell that records are gone."""
    for record in records:
        gone = attrs.evolve(identity_of(record.meta), version="99")
        played.view.records.apply(Removed(gone))


def test_records_that_came_and_went_before_it_led_delay_nobody() -> None:
    """A replica that takes over tells at once what is to be told of those that are there."""
    played = Played(2, lists=False)
    for number in range(MANY):
        past = a_record(f"old-{number}", registered=True)
        show(played.view, past)
        end(played, past)

    play(played, rest=1)

    assert [None, None] == played.told()


def begin_to_end(played: Played, *records: BackendRecord) -> None:
    """Let the watch tell that records are being deleted."""
    for record in records:
        show(played.view, a_record(record.meta.key.name, deleting=True, version=7))


@pytest.mark.parametrize("go", [end, begin_to_end])
def test_records_that_go_before_their_turn_delay_nobody(
    go: Callable[..., None],
) -> None:
    """Only what is written has a pause after it."""
    played = Played(MANY, lists=False)
    [_, *going, _] = played.records()

    async def story() -> None:
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(played.health.run())
            await asyncio.sleep(PACE.total_seconds() / 2)
            go(played, *going)
            await asyncio.sleep(2 * PACE.total_seconds())
            writing.cancel()

    run_virtual(story())

    assert [None, None] == played.told()
