"""When the registrar comes again to records that are registered already."""

import gc
import weakref

from collections import deque
from datetime import timedelta

import attrs
import pytest

from prometheus_client import CollectorRegistry

from lbcf.controller.apply import Written
from lbcf.controller.first_checks import FirstChecks
from lbcf.controller.noted_ensures import NotedEnsures
from lbcf.controller.registrar import Registrar
from lbcf.controller.view import View
from lbcf.core.lifecycle.steps import (
    CallRefused,
    NoAnswer,
    Permission,
    Reply,
    Step,
    StillRunning,
    WriteStatus,
)
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import SIGNED_OFF, BackendRecord, Waiting
from lbcf.core.model.values import BootTime, ObjectKey, Uid
from lbcf.core.reasons import Reason
from lbcf.drivers.pool import DriverPool
from lbcf.executor import Executor, Subject
from lbcf.kube.client import KubeClient
from lbcf.kube.list_watch import Put, Removed
from lbcf.runtime.journal import Journal, NoJournal, Predecessor
from lbcf.runtime.limiter import Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, Parked, RequeueAfter, Result
from lbcf.wire.metadata import identity_of
from tests.builders import ALWAYS, SETTLING, a_record, a_spec, seconds
from tests.controller.exchanges import Nobody
from tests.controller.views import everyday, show
from tests.core.world import World
from tests.fakes.clock import VirtualClock
from tests.fakes.journal import FakeJournal


ALWAYS_ENSURED = a_record(registered=True, spec=a_spec(ensure_policy=ALWAYS))
DOUBTED = a_record(registered=True, ensuring="*")


class WorldExecutor(Executor):
    """Carries out steps in a world of one record, and shows it to the view."""

    def __init__(self, world: World, view: View) -> None:
        clock = VirtualClock()
        pool = DriverPool(clock, CollectorRegistry())
        super().__init__(KubeClient(Nobody()), pool, clock)
        self._world = world
        self._view = view

    def now(self) -> Now:
        """Read the world's clock."""
        return self._world.now()

    async def perform(self, subject: Subject, step: Step) -> Reply:
        """Carry out a step, and tell the view what is there now."""
        reply = self._world.perform(step)
        if self._world.record is not None:
            assert subject.key == self._world.record.meta.key
            self._view.records.apply(Put(self._world.record))
        return reply


def started(
    record: BackendRecord, journal: Journal | None = None
) -> tuple[World, Registrar]:
    """Start a process that finds a record."""
    world, view = World(record, monotonic=100.0), show(everyday(), record)
    return world, _registrar(world, view, VirtualClock(), journal)[0]


def _registrar(
    world: World, view: View, clock: VirtualClock, journal: Journal | None = None
) -> tuple[Registrar, WorkQueue[ObjectKey]]:
    queue: WorkQueue[ObjectKey] = WorkQueue("records", clock)
    executor, checks = WorldExecutor(world, view), FirstChecks(view, clock)
    registrar = Registrar(
        view,
        queue,
        executor,
        "me",
        Shares(64),
        checks=checks,
        noted=NotedEnsures(journal or NoJournal()),
    )
    return registrar, queue


async def test_who_waits_for_an_address_looks_when_its_holder_is_gone() -> None:
    """From the first such look on it is counted when the address is free."""
    holder = a_record(name="old", uid="uid-old", deleting=True)
    waiter = a_record(spec=a_spec(address=""), name="new")
    waits = attrs.evolve(waiter.status, waiting=Waiting(holder.meta.uid))
    waiter = attrs.evolve(waiter, status=waits)
    view, clock = show(everyday(), holder, waiter), VirtualClock()
    registrar, queue = _registrar(World(waiter), view, clock)
    view.records.on_change(registrar.record_changed)

    view.records.apply(Removed(identity_of(holder.meta)))

    assert 1 == queue.delayed


async def test_record_that_is_being_written_is_looked_at_afterwards() -> None:
    """It was not looked at meanwhile: that is neither a success nor a failure."""
    record = a_record()
    view = show(everyday(), record)
    registrar, queue = _registrar(World(record), view, VirtualClock())
    with registrar.expecting(record.meta.key):
        assert Parked() == await registrar.reconcile(record.meta.key)
        assert 0 == len(queue)

    assert 1 == len(queue)


async def visits(world: World, registrar: Registrar, count: int) -> list[Result]:
    """Visit the record as often as it asks for, each time when it asks for it."""
    results: list[Result] = []
    for _ in range(count):
        result = await registrar.reconcile(world.stored.meta.key)
        results.append(result)
        world.monotonic += _wish(result).total_seconds()
    return results


def _wish(result: Result) -> timedelta:
    """Say when a worker comes again."""
    return result.delay if isinstance(result, RequeueAfter) else timedelta(0)


async def test_policy_always_goes_on_after_a_restart() -> None:
    """A record that another incarnation registered is ensured by period, too."""
    world, registrar = started(ALWAYS_ENSURED)

    results = await visits(world, registrar, 3)

    assert [RequeueAfter(seconds(60))] * 3 == results
    assert 2 == len(world.calls(Operation.ENSURE_BACKEND))


async def test_doubted_record_is_confirmed_after_a_restart() -> None:
    """Once, when the calls of older incarnations are over."""
    world, registrar = started(DOUBTED)

    results = await visits(world, registrar, 2)

    assert [RequeueAfter(seconds(SETTLING)), Done()] == results
    assert 1 == len(world.calls(Operation.ENSURE_BACKEND))


@pytest.mark.parametrize(
    ("before", "now", "is_looked_at"),
    [
        (Waiting(Uid("old")), Waiting(Uid("old"), is_over=True), True),
        (Waiting(Uid("old")), Waiting(Uid("old"), gone_at=BootTime("b", 9)), False),
        (
            Waiting(Uid("old"), gone_at=BootTime("b", 9)),
            Waiting(Uid("old"), gone_at=BootTime("b", 4)),
            True,
        ),
        (
            Waiting(Uid("old"), gone_at=BootTime("b", 9)),
            Waiting(Uid("old"), gone_at=BootTime("c", 4)),
            False,
        ),
    ],
    ids=["over", "own look", "gone for longer", "another machine's"],
)
async def test_who_waits_looks_when_it_is_told_that_it_waits_less(
    before: Waiting, now: Waiting, *, is_looked_at: bool
) -> None:
    """By the deregistrar, which knows when calls were sent; not by its own report."""
    plain = a_record(spec=a_spec(address=""))
    old, new = (
        attrs.evolve(plain, status=attrs.evolve(plain.status, waiting=waiting))
        for waiting in (before, now)
    )
    view = show(everyday(), old)
    registrar, queue = _registrar(World(old), view, VirtualClock())

    registrar.record_changed(old, new)

    assert is_looked_at == bool(len(queue))


@pytest.mark.parametrize(
    "answer",
    [
        CallRefused("no"),
        StillRunning("busy"),
        NoAnswer(Reason.DRIVER_TIMED_OUT, "no answer in 10 s", may_land=True),
    ],
)
async def test_failing_to_ensure_again_is_paused(answer: Reply) -> None:
    """The period is over, but a driver that fails is not asked without a pause."""
    world, registrar = started(ALWAYS_ENSURED)
    world.answers.extend([answer] * 3)

    results = await visits(world, registrar, 5)

    pauses = [_wish(result).total_seconds() for result in results]
    assert 60 == pauses[0]
    assert all(0.25 <= pause <= 8 for pause in pauses[1:4])
    assert 60 == pauses[4]


@pytest.mark.parametrize(
    ("answer", "name", "is_asked"),
    [
        (CallRefused("no"), "front", True),
        (CallRefused("no"), "other", False),
        (CallRefused("no", seconds(3600)), "front", False),
    ],
    ids=["as soon as possible", "elsewhere", "as the driver wishes"],
)
async def test_call_that_failed_is_made_when_its_load_balancer_is_back(
    answer: Reply, name: str, *, is_asked: bool
) -> None:
    """Before the pause ends, which has grown with the outage."""
    record = a_record()
    view = show(everyday(), record)
    world = World(record, monotonic=100.0, answers=deque([answer]))
    registrar, queue = _registrar(world, view, VirtualClock())
    await visits(world, registrar, 1)
    world.monotonic = 100.0

    registrar.load_balancer_is_back(ObjectKey(record.meta.key.namespace, name))

    assert is_asked == bool(len(queue))


async def test_record_that_has_not_failed_waits_for_no_load_balancer() -> None:
    """It has its turn, or has had it."""
    record = a_record()
    registrar, queue = _registrar(
        World(record), show(everyday(), record), VirtualClock()
    )

    registrar.load_balancer_is_back(record.load_balancer_key)

    assert not len(queue)


async def test_lost_member_counts_as_lost_until_it_is_back() -> None:
    """On its own load balancer alone."""
    record = a_record(registered=True)
    here = record.load_balancer_key
    world, registrar = started(record)
    assert not registrar.is_resetting(here)

    registrar.reset(record, "lost")
    assert registrar.is_resetting(here)
    assert not registrar.is_resetting(ObjectKey(here.namespace, "other"))
    while registrar.is_resetting(here):
        await visits(world, registrar, 1)

    assert 1 == len(world.calls(Operation.ENSURE_BACKEND))


async def test_lost_member_that_ends_is_not_waited_for() -> None:
    """Its end takes it out; nobody puts it back."""
    record = a_record(registered=True)
    _, registrar = started(record)
    registrar.reset(record, "lost")

    registrar.record_changed(record, a_record(registered=True, deleting=True))

    assert not registrar.is_resetting(record.load_balancer_key)


@pytest.mark.parametrize("is_new", [True, False])
async def test_write_that_is_answered_after_the_end_leaves_nothing_behind(
    is_new: bool,
) -> None:
    """The watch told of the record's end before the answer of its create or update."""
    view, record = everyday(), a_record()
    show(view, record)
    clock = VirtualClock()
    queue: WorkQueue[ObjectKey] = WorkQueue("records", clock)
    executor, checks = (
        WorldExecutor(World(None, monotonic=100.0), view),
        FirstChecks(view, clock),
    )
    registrar = Registrar(
        view,
        queue,
        executor,
        "me",
        Shares(64),
        checks=checks,
        noted=NotedEnsures(NoJournal()),
    )
    end = attrs.evolve(identity_of(record.meta), version="99")
    view.records.apply(Removed(end))
    registrar.record_changed(record, None)
    seen, before = weakref.ref(record), None if is_new else a_record()

    registrar.take_up(Written(Permission(record, 100.0), before))

    del record
    gc.collect()
    assert seen() is None


ENDING = a_record(ensuring="root/one", deleting=True)
ENDED_AT = 98.0
"""Two seconds before a process starts here."""
EXPECTED = SETTLING - 4
"""Seconds from then until an ensure is over that was sent at `ENDED_AT`."""


async def test_heir_signs_off_what_ends_by_the_notes_that_it_finds() -> None:
    """At once what has none, and else when it is over."""
    uid = ENDING.meta.uid
    for left, waits in (({}, 0.0), ({uid: 130.0}, 30.0)):
        world, registrar = started(ENDING)
        registrar.inherit("root", ENDED_AT, left)

        results = await visits(world, registrar, 2)

        assert SIGNED_OFF == world.stored.status.ensuring
        assert waits == sum(_wish(result).total_seconds() for result in results)


async def test_heir_without_notes_expects_ensures_of_what_is_not_settled() -> None:
    """Until one is over that was sent last thing."""
    world, registrar = started(ENDING)
    registrar.inherit("root", ENDED_AT, None)

    assert [RequeueAfter(seconds(EXPECTED))] == await visits(world, registrar, 1)
    assert "root/one" == world.stored.status.ensuring
    await visits(world, registrar, 1)
    assert SIGNED_OFF == world.stored.status.ensuring


async def test_heir_notes_for_the_next_one_what_it_expects_itself() -> None:
    """That one finds its notes, and none from before them."""
    journal = FakeJournal()
    NotedEnsures(journal).begin("two", None)
    live = a_record(ensuring="root/one")
    _, registrar = started(live, journal)

    registrar.inherit("root", ENDED_AT, None)

    after = Predecessor("two", "root", ENDED_AT + 1)
    left = NotedEnsures(journal).begin("three", after)
    assert {live.meta.uid: 100 + EXPECTED} == left


async def test_heir_forgets_notes_of_records_that_are_gone() -> None:
    """Nobody tells it of their end."""
    journal = FakeJournal()
    NotedEnsures(journal).begin("two", None)
    gone = Uid("uid-gone")
    NotedEnsures(journal).after(gone, 130.0)
    _, registrar = started(a_record(), journal)

    registrar.inherit("root", ENDED_AT, {gone: 130.0})

    assert [] == journal.noted("")


async def test_heir_signs_by_a_name_of_its_own_in_the_line() -> None:
    """A late write of the one before it must not clear its mark (w59)."""
    world, registrar = started(a_record(ensuring="root/one"))
    registrar.inherit("root", ENDED_AT, {})

    await visits(world, registrar, 1)

    assert ["root/me", ""] == [status.ensuring for status in world.writes]


async def test_ensure_is_noted_before_it_is_made_and_its_answer_after() -> None:
    """Who begins in our place expects it in between (w57)."""
    journal, noted = FakeJournal(), []
    world, registrar = started(a_record(ensuring="me"), journal)

    def note(_world: World, _step: Step) -> None:
        noted.append(journal.noted(""))

    world.before = note
    await visits(world, registrar, 1)

    expected = ["ReadRecord", "ReadBalancer", "ensureBackend", "WriteStatus"]
    assert expected == world.kinds
    assert [[], [], [[0.0, SETTLING]], []] == noted


async def test_who_has_signed_off_ignores_what_a_lagging_watch_shows() -> None:
    """Nor does it use the permission of a write of its own from before (w55)."""
    live = a_record(ensuring="me", version=5)
    view, clock = show(everyday(), live), VirtualClock()
    world = World(live, monotonic=100.0)
    registrar, _ = _registrar(world, view, clock)

    def end(world: World, step: Step) -> None:
        if isinstance(step, WriteStatus) and not world.stored.is_deleting:
            world.record = a_record(ensuring="me", deleting=True, version=9)

    world.before = end
    await visits(world, registrar, 1)
    assert SIGNED_OFF == world.stored.status.ensuring
    show(view, live)
    registrar.take_up(Written(Permission(live, world.monotonic), None))
    await visits(world, registrar, 1)

    assert 1 == len(world.calls(Operation.ENSURE_BACKEND))
