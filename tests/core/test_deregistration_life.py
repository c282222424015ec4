"""Whole ends of records: which steps in which order, which waits, which words."""

import math

from datetime import timedelta

import attrs
import pytest

from lbcf.core.lifecycle.deregistration import (
    DeregistrationState,
    LateCalls,
    Phase,
    drain_progress,
    drain_time_left,
    is_final,
    late_calls_before,
    learn,
    phase_of,
)
from lbcf.core.lifecycle.steps import (
    Abandoned,
    CallDriver,
    CallRefused,
    CoverEnd,
    Deregistered,
    Finish,
    NeverRegistered,
    NoAnswer,
    Observed,
    Permission,
    ReadRecord,
    Released,
    ReleaseRecord,
    Reply,
    Step,
    StillRunning,
    Succeeded,
    Superseded,
    WriteStatus,
)
from lbcf.core.lifecycle.turn import DRIVER_RECHECK, NO_FAILURES, RETRY_FIRST, Report
from lbcf.core.model import conditions, names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import ANNOTATION_SETTLING
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    BackendRecord,
    DrainProgress,
    LoadBalancerDriver,
    RecordStatus,
)
from lbcf.core.model.values import MemberKey
from lbcf.core.reasons import Explanation, Reason
from tests.builders import (
    ALWAYS,
    SETTLING,
    START,
    a_driver,
    a_record,
    a_spec,
    at,
    seconds,
)
from tests.core.world import World, conflict_at, gone_at


PLAIN = a_driver(member_key=MemberKey.ADDRESS)
DRAINER = a_driver(drains=True)
MISSING = Explanation(
    Reason.DRIVER_NOT_FOUND, "LoadBalancerDriver shop/proxy does not exist"
)
LOST = NoAnswer(Reason.DRIVER_TIMED_OUT, "no answer in 10 s", may_land=True)
UNSENT = NoAnswer(Reason.DRIVER_UNREACHABLE, "connection refused", may_land=False)
NO = CallRefused("quota exceeded")

SETTLED = a_record(registered=True, deleting=True)
DOUBTED = a_record(registered=True, ensuring="*", deleting=True)
DRAINED_FOR_30 = a_record(
    spec=a_spec(drain_timeout=seconds(30)), registered=True, deleting=True
)


def visit(
    world: World,
    ending: DeregistrationState | None = None,
    *,
    driver: LoadBalancerDriver | Explanation | None = None,
) -> tuple[DeregistrationState, Finish]:
    """Pay a record a visit; without a memory it is the first one."""
    ending = ending or DeregistrationState(first_seen=world.monotonic)
    return world.end(ending.begin_turn(driver or a_driver()))


def deregisters(world: World) -> list[bool]:
    """List the deregister calls: was each a final one?"""
    return [call.final for call in world.calls(Operation.DEREGISTER_BACKEND)]


def word(record: BackendRecord, kind: str) -> Condition:
    """Find what a record says."""
    found = conditions.find(record.status.conditions, kind)
    assert found is not None
    return found


def still(connections: int | None = 3) -> StillRunning:
    """Answer that so many connections are left."""
    return StillRunning("draining", connections=connections)


# --- without a drain ----------------------------------------------------------------


def test_settled_record_takes_one_call_and_one_write() -> None:
    """Nothing can be out: read, deregister, let go."""
    world = World(SETTLED)

    ending, finish = visit(world)

    assert ["ReadRecord", "deregisterBackend", "ReleaseRecord"] == world.kinds
    assert [True] == deregisters(world)
    assert ReleaseRecord(Deregistered(SETTLED)) == world.steps[-1]
    assert (None, True, Finish()) == (world.record, ending.is_over, finish)


def test_watch_is_believed_of_members_named_after_records() -> None:
    """A call that comes too late finds nobody's member: nothing is read."""
    world = World(SETTLED)
    seen = Permission(SETTLED, world.monotonic)

    ending, _ = world.end(
        DeregistrationState(first_seen=0.0).begin_turn(a_driver(), seen)
    )

    assert ["deregisterBackend", "ReleaseRecord"] == world.kinds
    assert ending.is_over


def test_watch_is_not_believed_where_an_address_has_a_next_owner() -> None:
    """Members known by address are ended on a quorum read alone."""
    record = named("")
    world = World(record)
    seen = Permission(record, world.monotonic)

    world.end(DeregistrationState(first_seen=0.0).begin_turn(PLAIN, seen))

    assert ["ReadRecord", "deregisterBackend", "ReleaseRecord"] == world.kinds


def test_outdated_word_of_the_watch_lets_nothing_go() -> None:
    """The finalizer goes from the last version only."""
    newer = attrs.evolve(
        SETTLED, meta=attrs.evolve(SETTLED.meta, resource_version="900")
    )
    world = World(newer)
    seen = Permission(SETTLED, world.monotonic)

    ending, _ = world.end(
        DeregistrationState(first_seen=0.0).begin_turn(a_driver(), seen)
    )

    first = ["deregisterBackend", "ReleaseRecord"]
    assert [*first, "ReadRecord", "ReleaseRecord"] == world.kinds
    assert ending.is_over


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(DOUBTED, id="star"),
        pytest.param(
            a_record(registered=True, ensuring="me", deleting=True), id="ensuring"
        ),
        pytest.param(a_record(deleting=True), id="never said to be registered"),
        pytest.param(
            attrs.evolve(SETTLED, meta=attrs.evolve(SETTLED.meta, generation=3)),
            id="changed since",
        ),
        pytest.param(
            a_record(registered=True, spec=a_spec(ensure_policy=ALWAYS), deleting=True),
            id="ensured at any time",
        ),
    ],
)
def test_unsettled_record_is_deregistered_at_once_and_again(
    record: BackendRecord,
) -> None:
    """At once so that traffic stops; again when no ensure can come any more."""
    world = World(record)

    ending, finish = visit(world)

    assert [False] == deregisters(world)
    assert Finish(seconds(SETTLING)) == finish
    assert (
        Reason.WAITING_TO_CONFIRM == word(world.stored, conditions.DEREGISTERED).reason
    )

    world.monotonic = SETTLING - 1
    ending, finish = visit(world, ending)
    assert ([False], Finish(seconds(1))) == (deregisters(world), finish)

    world.monotonic = SETTLING
    visit(world, ending)
    assert [False, True] == deregisters(world)
    assert None is world.record
    assert 1 == len(world.writes)


def test_rest_that_no_timer_can_wait_is_none() -> None:
    """Else the record is looked at again and again until a clock with less grain moves on."""
    world = World(DOUBTED)
    ending, _ = visit(world)
    world.monotonic = SETTLING - 2e-13

    visit(world, ending)

    assert [False, True] == deregisters(world)


@pytest.mark.parametrize(
    ("said", "late", "wait"),
    [
        pytest.param("75", 0.0, 75.0, id="the driver was slower"),
        pytest.param("15", 60.0, 75.0, id="the driver is slower than the record says"),
        pytest.param("15", 0.0, 15.0, id="a fast driver"),
    ],
)
def test_confirmation_waits_for_calls_of_the_driver_as_it_was(
    said: str, late: float, wait: float
) -> None:
    """Whoever sent one went by what the record says; the driver may be edited since."""
    world = World(DOUBTED)
    world.put(annotations={ANNOTATION_SETTLING: said})

    _, finish = visit(world, driver=attrs.evolve(a_driver(), late_effect=seconds(late)))

    assert Finish(seconds(wait)) == finish


def test_unsettled_record_seen_long_ago_is_deregistered_once() -> None:
    """All that was sent before its deletion is over by now."""
    world = World(DOUBTED, monotonic=SETTLING)

    visit(world, DeregistrationState(first_seen=0.0))

    assert [True] == deregisters(world)
    assert None is world.record


def test_memory_lost_after_the_first_call_starts_over() -> None:
    """Another machine counts its own time, and trusts its own calls alone."""
    world = World(DOUBTED)
    visit(world)
    world.boot = "another"
    world.monotonic = SETTLING

    _, finish = visit(world)

    assert [False, False] == deregisters(world)
    assert Finish(seconds(SETTLING)) == finish


def test_wait_for_late_ensures_goes_on_in_another_process() -> None:
    """Where it has the machine's clock of the one before, whatever that had counted."""
    world = World(DOUBTED, monotonic=7.0)
    visit(world)
    world.monotonic = 7.0 + SETTLING - 1

    _, finish = visit(world)
    assert Finish(seconds(1)) == finish
    world.monotonic += 1
    visit(world)

    assert [False, False, True] == deregisters(world)
    assert None is world.record


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(a_record(registered=True), id="alive"),
        pytest.param(a_record(registered=True, deleting=True, held=False), id="freed"),
    ],
)
def test_record_that_is_not_ours_to_end_is_left_alone(record: BackendRecord) -> None:
    """What a stale cache believed does not matter."""
    world = World(record)

    _, finish = visit(world)

    assert (["ReadRecord"], Finish()) == (world.kinds, finish)


def test_record_without_an_address_is_let_go_at_once() -> None:
    """An address is written before the first ensure; the driver is not even needed."""
    record = a_record(spec=a_spec(address=""), deleting=True)
    world = World(record)

    visit(world, driver=MISSING)

    assert ReleaseRecord(NeverRegistered(record)) == world.steps[-1]
    assert ["ReadRecord", "ReleaseRecord"] == world.kinds


def test_address_found_later_is_deregistered_too() -> None:
    """It stands in the status."""
    status = RecordStatus(address="virtual:1")
    world = World(a_record(spec=a_spec(address=""), status=status, deleting=True))

    visit(world)

    assert ["virtual:1"] == [
        call.address for call in world.calls(Operation.DEREGISTER_BACKEND)
    ]


def test_abandoned_record_is_let_go_without_the_driver() -> None:
    """A person's order outdoes everything; their words are kept."""
    record = a_record(
        deleting=True, annotations={names.ANNOTATION_ABANDON: "it burned down"}
    )
    world = World(record)

    visit(world, driver=MISSING)

    assert ReleaseRecord(Abandoned(record, "it burned down")) == world.steps[-1]


def test_order_to_abandon_must_say_why() -> None:
    """An annotation without a value is no order."""
    world = World(
        a_record(
            registered=True, deleting=True, annotations={names.ANNOTATION_ABANDON: ""}
        )
    )

    visit(world)

    assert "deregisterBackend" in world.kinds


# --- races and failures ---------------------------------------------------------------


def test_conflict_at_the_end_is_read_and_needs_no_other_call() -> None:
    """No registrar writes into a record that is being deleted: what was proved stays."""
    world = World(SETTLED)
    world.before = conflict_at(ReleaseRecord)

    visit(world)

    again = ["ReadRecord", "ReleaseRecord"]
    assert ["ReadRecord", "deregisterBackend", "ReleaseRecord", *again] == world.kinds
    assert None is world.record


@pytest.mark.parametrize("number", [1, 2, 3])
def test_record_that_is_gone_ends_it(number: int) -> None:
    """Wherever that is noticed."""
    world = World(SETTLED)
    world.before = gone_at(number)

    ending, finish = visit(world)

    assert (True, Finish()) == (ending.is_over, finish)


def test_other_finalizers_keep_a_record_that_is_done() -> None:
    """Ours is off; the rest is not ours to wait for."""
    meta = attrs.evolve(
        SETTLED.meta, finalizers=(*SETTLED.meta.finalizers, "other/thing")
    )
    world = World(attrs.evolve(SETTLED, meta=meta))

    _, finish = visit(world)

    assert ("other/thing",) == world.stored.meta.finalizers
    assert Finish() == finish


@pytest.mark.parametrize("answer", [NO, LOST, UNSENT, StillRunning("working")])
def test_nothing_is_let_go_before_a_success(answer: Reply) -> None:
    """Each other answer is told and tried again."""
    world = World(SETTLED)
    world.answers.append(answer)

    ending, finish = visit(world)

    assert "ReleaseRecord" not in world.kinds
    assert Finish(again_after=_first_pause(answer)) == finish
    assert False is word(world.stored, conditions.DEREGISTERED).status
    assert START + _first_pause(answer) == world.stored.status.next_attempt

    visit(world, ending)
    assert None is world.record


def _first_pause(answer: Reply) -> timedelta:
    return seconds(1) if isinstance(answer, StillRunning) else RETRY_FIRST


def test_same_refusal_is_told_once_and_asked_ever_more_seldom() -> None:
    """A driver that says no for a day costs one write."""
    world = World(SETTLED)
    world.answers.extend([NO] * 8)
    ending, finish = visit(world)
    pauses = [finish.again_after]
    for _ in range(7):
        ending, finish = visit(world, ending)
        pauses.append(finish.again_after)

    assert [RETRY_FIRST * 2**n for n in range(8)] == pauses
    assert 1 == len(world.writes)


def test_long_refusal_is_told_once() -> None:
    """The API keeps less of it than the driver said."""
    world = World(SETTLED)
    world.answers.extend([CallRefused("x" * 5000)] * 2)
    ending, _ = visit(world)

    visit(world, ending)

    assert 1 == len(world.writes)


def test_lost_call_keeps_no_record() -> None:
    """It may hit the address's next owner: but the lock has none until it is over."""
    world = World(SETTLED)
    world.answers.append(LOST)
    ending, _ = visit(world, driver=PLAIN)
    world.monotonic = 2.0

    visit(world, ending, driver=PLAIN)

    assert [True, True] == deregisters(world)
    assert None is world.record


@pytest.mark.parametrize("answer", [UNSENT, NO])
def test_call_that_cannot_land_is_not_waited_for(answer: Reply) -> None:
    """A definite answer, or none sent at all, leaves nothing out there."""
    world = World(SETTLED)
    world.answers.append(answer)
    ending, _ = visit(world, driver=PLAIN)

    visit(world, ending, driver=PLAIN)

    assert None is world.record


def test_member_named_after_its_record_has_no_next_owner() -> None:
    """Nothing is waited for."""
    world = World(SETTLED)
    world.answers.append(LOST)
    ending, _ = visit(world)

    visit(world, ending)

    assert None is world.record


def test_missing_driver_is_told_once_with_the_way_out() -> None:
    """The message names the annotation and the address."""
    world = World(SETTLED)

    ending, finish = visit(world, driver=MISSING)
    _, again = visit(world, ending, driver=MISSING)

    told = word(world.stored, conditions.DEREGISTERED)
    assert (False, "DriverNotFound") == (told.status, told.reason)
    assert names.ANNOTATION_ABANDON in told.message
    assert "10.0.0.1:8080" in told.message
    assert Finish(again_after=DRIVER_RECHECK) == finish == again
    assert 1 == len(world.writes)


def test_driver_that_comes_back_is_asked_at_once() -> None:
    """Nothing of the pause outlives the turn."""
    world = World(SETTLED)
    ending, _ = visit(world, driver=MISSING)

    visit(world, ending)

    assert None is world.record


# --- drains ---------------------------------------------------------------------------


def test_idle_backend_is_drained_without_a_write() -> None:
    """Most have nothing left: one more call, no more."""
    world = World(DRAINED_FOR_30)

    visit(world, driver=DRAINER)

    expected = ["ReadRecord", "drainBackend", "deregisterBackend", "ReleaseRecord"]
    assert expected == world.kinds
    assert [True] == [c.drained for c in world.calls(Operation.DEREGISTER_BACKEND)]


@pytest.mark.parametrize(
    ("record", "driver"),
    [
        pytest.param(SETTLED, DRAINER, id="not wanted"),
        pytest.param(DRAINED_FOR_30, a_driver(), id="not offered"),
        pytest.param(
            a_record(
                spec=a_spec(drain_timeout=timedelta(0)), registered=True, deleting=True
            ),
            DRAINER,
            id="no time for it",
        ),
    ],
)
def test_drain_is_left_out(record: BackendRecord, driver: LoadBalancerDriver) -> None:
    """Both sides must want it, and there must be time."""
    world = World(record)

    visit(world, driver=driver)

    assert [] == world.calls(Operation.DRAIN_BACKEND)
    assert [False] == [c.drained for c in world.calls(Operation.DEREGISTER_BACKEND)]


def test_waiting_drain_is_written_down_with_its_clock() -> None:
    """Who is waited for, since when, until when."""
    world = World(DRAINED_FOR_30)
    world.answers.append(still())

    _, finish = visit(world, driver=DRAINER)

    assert DrainProgress(START, START + seconds(30), 3) == world.stored.status.drain
    told = word(world.stored, conditions.DRAINED)
    assert (False, Reason.DRAINING) == (told.status, told.reason)
    assert "until 00:00:30 UTC" in told.message
    assert Finish(again_after=seconds(1)) == finish


def test_only_what_stops_new_traffic_is_urgent() -> None:
    """The first call is; to ask again how far a drain is, and to deregister, can wait."""
    world = World(DRAINED_FOR_30)
    world.answers.append(still())
    ending, _ = visit(world, driver=DRAINER)
    world.monotonic = 4.0
    visit(world, ending, driver=DRAINER)

    urgent = [call.urgent for call in world.calls(Operation.DRAIN_BACKEND)]
    assert [True, False] == urgent
    assert [False] == [c.urgent for c in world.calls(Operation.DEREGISTER_BACKEND)]


def test_written_drain_is_no_longer_urgent() -> None:
    """A restart knows from the record that new traffic has ended."""
    world = World(DRAINED_FOR_30)
    world.answers.append(still())
    visit(world, driver=DRAINER)
    visit(world, driver=DRAINER)

    urgent = [call.urgent for call in world.calls(Operation.DRAIN_BACKEND)]
    assert [True, False] == urgent


def test_deregistration_that_nothing_came_before_is_urgent() -> None:
    """Once; the one that confirms it is not."""
    world = World(DOUBTED)
    ending, finish = visit(world)
    assert finish.again_after is not None
    world.monotonic += finish.again_after.total_seconds()
    visit(world, ending)

    urgent = [call.urgent for call in world.calls(Operation.DEREGISTER_BACKEND)]
    assert [True, False] == urgent


def test_drain_call_says_when_it_began_and_must_end() -> None:
    """The driver may cut what is left only past the deadline."""
    world = World(DRAINED_FOR_30)
    world.answers.extend([still(), still()])
    ending, _ = visit(world, driver=DRAINER)
    world.monotonic = 4.0

    visit(world, ending, driver=DRAINER)

    for call in world.calls(Operation.DRAIN_BACKEND):
        assert call.drain is not None
        assert START == call.drain.started_at
        assert START + seconds(30) == call.drain.deadline


def test_number_of_connections_is_written_every_ten_seconds_at_most() -> None:
    """It changes all the time; nobody watches it by the second."""
    world = World(DRAINED_FOR_30)
    world.answers.extend(still(n) for n in (9, 8, 7, 6, 6))
    world.monotonic = 100.0
    ending = None
    written = []
    for moment in (100.0, 105.0, 109.9, 110.0, 125.0):
        world.monotonic = moment
        ending, _ = visit(world, ending, driver=DRAINER)
        assert world.stored.status.drain is not None
        written.append(world.stored.status.drain.connections)

    assert [9, 9, 9, 6, 6] == written
    assert 2 == len(world.writes)


def test_drain_is_polled_at_ever_longer_intervals_up_to_five_seconds() -> None:
    """Or as the driver wishes."""
    world = World(DRAINED_FOR_30)
    world.answers.extend([*[still()] * 6, StillRunning("slow", seconds(8))])
    ending, finish = visit(world, driver=DRAINER)
    pauses = [finish.again_after]
    for _ in range(6):
        ending, finish = visit(world, ending, driver=DRAINER)
        pauses.append(finish.again_after)

    assert [seconds(n) for n in (1, 2, 3, 4, 5, 5, 8)] == pauses


def test_deadline_ends_the_drain() -> None:
    """Whatever is left then is cut by the deregistration."""
    world = World(DRAINED_FOR_30)
    world.answers.append(still())
    ending, _ = visit(world, driver=DRAINER)
    world.monotonic = 30.0

    visit(world, ending, driver=DRAINER)

    assert 1 == len(world.calls(Operation.DRAIN_BACKEND))
    assert [False] == [c.drained for c in world.calls(Operation.DEREGISTER_BACKEND)]
    assert None is world.record


def test_pause_does_not_reach_beyond_the_deadline() -> None:
    """However long the driver wants to be left alone."""
    world = World(DRAINED_FOR_30)
    world.answers.append(StillRunning("come tomorrow", seconds(86400)))

    _, finish = visit(world, driver=DRAINER)

    assert Finish(again_after=seconds(30)) == finish


def test_deadline_survives_a_restart() -> None:
    """It is counted from what is written, not from the new beginning."""
    world = World(DRAINED_FOR_30)
    world.answers.extend([still(), still()])
    visit(world, driver=DRAINER)
    world.monotonic = 29.0

    _, finish = visit(world, driver=DRAINER)

    (_, second) = world.calls(Operation.DRAIN_BACKEND)
    assert second.drain is not None
    assert START + seconds(30) == second.drain.deadline
    assert Finish(again_after=seconds(1)) == finish
    world.monotonic = 30.0
    visit(world, driver=DRAINER)
    assert None is world.record


def test_deadline_is_kept_where_it_could_not_be_written() -> None:
    """A write that was lost does not start the clock anew."""
    world = World(DRAINED_FOR_30)
    world.answers.extend([still(), still()])
    ending, _ = visit(world, driver=DRAINER)
    world.record = DRAINED_FOR_30
    world.monotonic = 20.0

    visit(world, ending, driver=DRAINER)

    (_, second) = world.calls(Operation.DRAIN_BACKEND)
    assert second.drain is not None
    assert START + seconds(30) == second.drain.deadline


@pytest.mark.parametrize(("moment", "drained"), [(29.0, True), (30.0, False)])
def test_what_slips_in_after_a_drain_is_spared_until_the_deadline(
    moment: float, drained: bool
) -> None:
    """Past it the driver may cut what has come since."""
    world = World(DRAINED_FOR_30)
    world.answers.extend([Succeeded(), NO])
    ending, _ = visit(world, driver=DRAINER)
    world.monotonic = moment

    visit(world, ending, driver=DRAINER)

    calls = world.calls(Operation.DEREGISTER_BACKEND)
    assert [True, drained] == [call.drained for call in calls]
    assert 1 == len(world.calls(Operation.DRAIN_BACKEND))


@pytest.mark.parametrize(
    ("answer", "reason"), [(NO, "DriverRefused"), (LOST, "DriverTimedOut")]
)
def test_failing_drain_is_told_and_tried_until_the_deadline(
    answer: Reply, reason: str
) -> None:
    """A driver that cannot drain does not keep the backend in for ever."""
    world = World(DRAINED_FOR_30)
    world.answers.extend([answer] * 2)

    ending, finish = visit(world, driver=DRAINER)

    assert reason == word(world.stored, conditions.DRAINED).reason
    assert Finish(again_after=RETRY_FIRST) == finish
    visit(world, ending, driver=DRAINER)
    assert 2 == len(world.calls(Operation.DRAIN_BACKEND))
    world.monotonic = 30.0
    visit(world, ending, driver=DRAINER)
    assert None is world.record


def test_failure_after_a_long_drain_is_tried_again_soon() -> None:
    """The polls of the drain were no failures."""
    world = World(DRAINED_FOR_30)
    world.answers.extend([*[still()] * 20, LOST])
    ending = None
    for _ in range(20):
        ending, _ = visit(world, ending, driver=DRAINER)
    world.monotonic = 30.0

    _, finish = visit(world, ending, driver=DRAINER)

    assert Finish(again_after=RETRY_FIRST) == finish


def test_unsettled_record_is_drained_first_and_then_confirmed_if_need_be() -> None:
    """The time of the drain counts for the calls that may be out."""
    spec = a_spec(drain_timeout=seconds(30))
    world = World(a_record(spec=spec, registered=True, ensuring="*", deleting=True))
    world.answers.append(still())
    ending, _ = visit(world, driver=DRAINER)
    world.monotonic = SETTLING

    visit(world, ending, driver=DRAINER)

    assert [True] == deregisters(world)
    assert None is world.record


@pytest.mark.parametrize("kind", [CallDriver, WriteStatus])
def test_conflicts_do_not_stop_a_drain(kind: type[Step]) -> None:
    """What was learnt is written on the next version."""
    world = World(DRAINED_FOR_30)
    world.answers.append(still())
    world.before = conflict_at(kind)

    _, finish = visit(world, driver=DRAINER)

    assert Reason.DRAINING == word(world.stored, conditions.DRAINED).reason
    assert Finish(again_after=seconds(1)) == finish


# --- backends that are gone -----------------------------------------------------------


def test_drain_ends_when_the_backend_is_gone() -> None:
    """Whatever is left: its address may be another's, with all who are sent there."""
    world = World(DRAINED_FOR_30)
    world.answers.append(still())
    ending, finish = visit(world, driver=DRAINER)
    assert finish.again_after is not None
    assert not deregisters(world)

    told = attrs.evolve(world.stored.status, backend_gone=True)
    world.record = attrs.evolve(world.stored, status=told)
    visit(world, ending, driver=DRAINER)

    (call,) = world.calls(Operation.DEREGISTER_BACKEND)
    assert not call.drained
    assert len(world.calls(Operation.DRAIN_BACKEND)) == 1
    assert world.record is None


# --- what the next owner of the address may know ----------------------------------------


def named(name: str, *, registered: bool = True, ensuring: str = "") -> BackendRecord:
    """Say who may end a record without telling; its lock says the usual Δ."""
    record = a_record(registered=registered, ensuring=ensuring, deleting=True)
    status = attrs.evolve(
        record.status, deregistrar=name, lock_settling=PLAIN.end_settling
    )
    return attrs.evolve(record, status=status)


def end(world: World, *, driver: LoadBalancerDriver = PLAIN) -> DeregistrationState:
    """End a record, in as many turns as it takes."""
    ending = DeregistrationState(0.0, incarnation="me")
    for _ in range(5):
        ending, finish = world.end(ending.begin_turn(driver))
        if ending.is_over:
            break
        world.monotonic += (finish.again_after or seconds(0)).total_seconds()
    assert ending.is_over
    return ending


def test_end_with_an_answer_to_each_call_is_clean() -> None:
    """Fail, and what was never sent, are answers; so is Running with a Succ after it."""
    world = World(named("me"))
    world.answers.extend([NO, UNSENT, StillRunning("wait")])

    assert end(world).is_clean
    assert 4 == len(world.calls(Operation.DEREGISTER_BACKEND))


def late_after(*answers: NoAnswer, driver: LoadBalancerDriver = PLAIN) -> LateCalls:
    """End a record; return what is out of the calls with these answers."""
    record = attrs.evolve(named("me"), spec=DRAINED_FOR_30.spec)
    world = World(record, monotonic=100.0)
    world.answers.extend(answers)
    ending = end(world, driver=driver)
    assert ending.is_clean
    assert ending.late is not None
    return ending.late


def lost(counts_from: float | None) -> NoAnswer:
    """Say of a call without an answer from when its time counts."""
    return attrs.evolve(LOST, counts_from=counts_from)


def test_end_with_a_call_that_may_land_is_clean_when_that_is_over() -> None:
    """A success that came later does not take it back; its own time does."""
    late = late_after(lost(95.0))

    assert LateCalls(95.0, SETTLING) == late
    assert 95.0 + SETTLING == late.over_at(SETTLING)


def test_call_of_which_nobody_knows_when_it_was_sent_counts_from_its_end() -> None:
    """It was sent before that."""
    assert LateCalls(100.0, SETTLING) == late_after(lost(None))


def test_call_that_ended_after_its_time_counts_from_its_end() -> None:
    """The machine was suspended, and may have sent it when it went on."""
    window = PLAIN.window(Operation.DEREGISTER_BACKEND).total_seconds()

    assert LateCalls(100.0 - window, SETTLING) == late_after(lost(10.0))


def test_of_several_calls_that_may_land_the_latest_and_longest_count() -> None:
    """A drain may live longer, and an older call was sent earlier."""
    timeouts = {"drainBackend": seconds(60)}
    drains = attrs.evolve(PLAIN, timeouts={**PLAIN.timeouts, **timeouts})

    late = late_after(lost(99.0), lost(98.0), driver=drains)

    assert LateCalls(99.0, SETTLING + 50) == late


def test_driver_that_is_slower_by_now_is_waited_for_as_long() -> None:
    """It was edited after the call; the longer time counts."""
    late = LateCalls(100.0, SETTLING)

    assert 100.0 + SETTLING == late.over_at(SETTLING - 5)
    assert 105.0 + SETTLING == late.over_at(SETTLING + 5)


def test_calls_of_a_run_before_under_our_name_count_from_its_end() -> None:
    """By which driver it timed them nobody knows: they are never over for us."""
    world = World(named("me"), monotonic=100.0)
    late = late_calls_before(world.now().monotonic)
    ending = DeregistrationState(0.0, incarnation="me", late=late)
    world.monotonic += 7.0
    world.answers.append(lost(106.0))

    ending, _finish = world.end(ending.begin_turn(PLAIN))
    assert ending.late is not None
    assert (100.0, 106.0) == (late.since_for(SETTLING), ending.late.since_for(SETTLING))
    assert math.inf == late.over_at(SETTLING) == ending.late.over_at(SETTLING)


def test_who_counts_by_a_shorter_time_begins_later() -> None:
    """The call was timed by a driver that was slower then."""
    late = LateCalls(100.0, SETTLING)

    assert 105.0 == late.since_for(SETTLING - 5)
    assert 100.0 == late.since_for(SETTLING + 5)


@pytest.mark.parametrize("name", ["", "*"])
def test_end_of_which_nobody_knows_who_called_is_not(name: str) -> None:
    """Another deregistrar may have, and writes nothing where none is named."""
    world = World(named(name))

    assert not end(world).is_clean
    assert [] == world.writes


def test_who_is_not_named_tells_before_it_calls() -> None:
    """The one that is named would say that no call is out, and not know of this one."""
    world = World(named("another"))

    ending = end(world)

    assert ["ReadRecord", "WriteStatus", "deregisterBackend"] == world.kinds[:3]
    assert "*" == world.writes[0].deregistrar
    assert not ending.is_clean


SLOWER = attrs.evolve(PLAIN, late_effect=seconds(60))
UNSAID = attrs.evolve(
    named("me"), status=attrs.evolve(named("me").status, lock_settling=seconds(0))
)


@pytest.mark.parametrize(
    ("record", "driver"),
    [
        pytest.param(named("me"), SLOWER, id="its bounds were raised"),
        pytest.param(
            named("me"),
            attrs.evolve(PLAIN, timeouts={Operation.DRAIN_BACKEND.value: seconds(60)}),
            id="it drains now",
        ),
        pytest.param(UNSAID, PLAIN, id="an earlier version took the lock"),
    ],
)
def test_calls_that_live_longer_than_the_lock_says_are_announced(
    record: BackendRecord, driver: LoadBalancerDriver
) -> None:
    """Once, and before a read that says that nobody has taken the lock over yet."""
    world = World(record)
    world.answers.append(LOST)

    end(world, driver=driver)

    first = ["ReadRecord", "CoverEnd", "ReadRecord"]
    assert first == world.kinds[:3]
    announced = [s.settling for s in world.steps if isinstance(s, CoverEnd)]
    assert [driver.end_settling] == announced


def test_calls_that_live_longer_each_time_are_announced_each_time() -> None:
    """The driver's bounds are raised again between two calls."""
    world = World(named("me"))
    world.answers += [LOST, LOST]
    ending = DeregistrationState(0.0, incarnation="me")

    for late in (60, 600, 10):
        driver = attrs.evolve(PLAIN, late_effect=seconds(late))
        ending, _ = world.end(ending.begin_turn(driver))

    announced = [s.settling for s in world.steps if isinstance(s, CoverEnd)]
    assert [seconds(75), seconds(615)] == announced
    assert 3 == len(world.calls(Operation.DEREGISTER_BACKEND))


def test_who_is_named_and_finds_a_star_is_not_alone() -> None:
    """Somebody else has begun since it read the record."""
    world = World(named("me"))

    def another(stage: World, step: Step) -> None:
        """Write it when the first call is out."""
        if isinstance(step, CallDriver):
            status = stage.stored.status
            stage.put(status=attrs.evolve(status, deregistrar="*"))

    world.before = another

    assert not end(world).is_clean


def test_record_that_went_by_another_hand_is_not_clean() -> None:
    """Whoever let it go may have called."""
    world = World(named("me"))

    def another(stage: World, step: Step) -> None:
        """Take the finalizer off first."""
        if isinstance(step, ReleaseRecord):
            stage.record = None

    world.before = another

    assert not end(world).is_clean


def test_record_that_was_never_registered_leaves_its_address_clean() -> None:
    """Nobody calls for a record without an address, whoever is named."""
    record = a_record(spec=a_spec(address=""), deleting=True)

    assert end(World(record)).is_clean


def test_record_that_was_never_registered_was_not_called_for_before_us() -> None:
    """Nor by a run in whose place we go on."""
    record = a_record(spec=a_spec(address=""), deleting=True)
    world = World(record)
    ending = DeregistrationState(
        0.0, "me", late=late_calls_before(world.now().monotonic)
    )

    ending, _finish = world.end(ending.begin_turn(PLAIN))

    assert ending.is_clean
    assert ending.late is None


def test_record_that_was_abandoned_is_not_clean() -> None:
    """A person ordered to let go; an ensure may be out."""
    ordered = {names.ANNOTATION_ABANDON: "scrapped"}
    record = a_record(registered=True, deleting=True, annotations=ordered)

    assert not end(World(record)).is_clean


def test_member_that_is_named_after_its_record_has_no_next_owner() -> None:
    """Nothing is written for it."""
    world = World(named("another"))

    end(world, driver=a_driver(member_key=MemberKey.RECORD))

    assert [] == world.writes


# --- single answers -------------------------------------------------------------------


WRITTEN = DrainProgress(START, START + seconds(40), 3)
HALF_DRAINED = attrs.evolve(
    DRAINED_FOR_30, status=attrs.evolve(DRAINED_FOR_30.status, drain=WRITTEN)
)
FRESH = DeregistrationState(first_seen=0.0, driver=DRAINER)


def a_call(operation: Operation, record: BackendRecord = SETTLED) -> CallDriver:
    """Make a call about a record that has just been read."""
    return CallDriver(operation, DRAINER, Permission(record, 0.0), record.address)


def test_drain_that_is_written_goes_on() -> None:
    """Whoever began it: with its own times, and what is left of them."""
    seen = learn(FRESH, ReadRecord(), Observed(Permission(HALF_DRAINED, 20.0)), at(20))

    assert Phase.FLOWING == phase_of(FRESH, SETTLED)
    assert Phase.ENDING == phase_of(FRESH, HALF_DRAINED)
    assert seconds(20) == drain_time_left(FRESH, HALF_DRAINED, at(20))
    assert WRITTEN == drain_progress(FRESH, HALF_DRAINED, WRITTEN.deadline)
    assert 40.0 == seen.drain_until
    assert attrs.evolve(WRITTEN, connections=None) == seen.drain


def test_superseded_permission_is_read_with_its_record() -> None:
    """It is the newer one."""
    permission = Permission(HALF_DRAINED, 20.0)

    seen = learn(FRESH, a_call(Operation.DRAIN_BACKEND), Superseded(permission), at(20))

    assert permission == seen.permission


def test_turn_begins_without_the_report_of_the_last_one() -> None:
    """What it said is void."""
    old = attrs.evolve(FRESH, report=Report(word(SETTLED, conditions.REGISTERED)))

    assert old.begin_turn(DRAINER).report is None


def test_first_success_ends_the_streak_of_failures() -> None:
    """And is told with the moment of the deletion where that can be counted from."""
    failed = NO_FAILURES.with_answer(Operation.DEREGISTER_BACKEND, NO, at(0))
    ending = attrs.evolve(FRESH, streak=failed)
    call = a_call(Operation.DEREGISTER_BACKEND)

    known = learn(ending, call, Succeeded(), at(5))
    elsewhere = learn(ending, call, Succeeded(), attrs.evolve(at(5), boot=""))

    assert NO_FAILURES == known.streak
    assert known.report is not None
    assert known.report.deletion_seen_at is not None
    assert elsewhere.report is not None
    assert elsewhere.report.deletion_seen_at is None


def test_failure_is_told_of_its_generation() -> None:
    """The deletion has made it a new one."""
    failed = learn(FRESH, a_call(Operation.DEREGISTER_BACKEND), NO, at(5))

    assert failed.report is not None
    assert SETTLED.meta.generation == failed.report.condition.observed_generation


def test_connections_that_are_left_are_remembered() -> None:
    """As the driver last said."""
    call = a_call(Operation.DRAIN_BACKEND, DRAINED_FOR_30)

    assert 3 == learn(FRESH, call, still(3), at(5)).connections


def test_missing_driver_is_not_told_over_an_answer() -> None:
    """What is waited for was told with it; nothing is to be confirmed without a driver."""
    waiting = attrs.evolve(FRESH, driver=MISSING, pause=seconds(5))

    seen = learn(waiting, ReadRecord(), Observed(Permission(DOUBTED, 0.0)), at(1))

    assert seen.report is None
    assert is_final(waiting, DOUBTED, at(1))


@pytest.mark.parametrize(
    ("incarnation", "step", "clean"),
    [
        ("me", ReleaseRecord(Deregistered(SETTLED)), False),
        ("", ReleaseRecord(Deregistered(SETTLED)), False),
        ("", ReleaseRecord(NeverRegistered(SETTLED)), True),
        ("me", Finish(), False),
    ],
)
def test_only_who_is_named_knows_that_no_other_call_is_out(
    incarnation: str, step: Step, *, clean: bool
) -> None:
    """A process without a name is named by nobody."""
    ending = attrs.evolve(FRESH, incarnation=incarnation)

    assert clean is learn(ending, step, Released(), at(1)).is_clean
