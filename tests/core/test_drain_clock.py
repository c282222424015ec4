"""When a drain's clock starts: with the first call that may have been heard."""

import pytest

from lbcf.core.lifecycle.deregistration import DeregistrationState
from lbcf.core.lifecycle.steps import (
    CallRefused,
    NoAnswer,
    Permission,
    Reply,
    StillRunning,
)
from lbcf.core.model import conditions
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import DrainProgress
from lbcf.core.reasons import Reason
from tests.builders import START, a_driver, a_record, a_spec, seconds
from tests.core.world import World


DRAINER = a_driver(drains=True)
RECORD = a_record(
    spec=a_spec(drain_timeout=seconds(30)), registered=True, deleting=True
)
UNSENT = NoAnswer(Reason.DRIVER_UNREACHABLE, "connection refused", may_land=False)
LOST = NoAnswer(Reason.DRIVER_TIMED_OUT, "no answer in 10 s", may_land=True)
BUSY = StillRunning("draining", connections=3)
HOUR = 3600.0


def visit(
    world: World, ending: DeregistrationState | None = None
) -> DeregistrationState:
    """Pay the record a visit; without a memory it is the first one."""
    ending = ending or DeregistrationState(first_seen=world.monotonic)
    return world.end(ending.begin_turn(DRAINER))[0]


@pytest.mark.parametrize("restarted", [True, False])
def test_driver_that_cannot_be_reached_starts_no_clock(restarted: bool) -> None:
    """However long it takes: new traffic is stopped first, then there is all the time.

    Else the deadline passes while traffic still comes in, and all of it is cut.
    """
    world = World(RECORD)
    world.answers.extend([UNSENT, BUSY])
    ending = visit(world)
    reason = conditions.find(world.stored.status.conditions, conditions.DRAINED)

    assert reason is not None
    assert ("DriverUnreachable", None) == (reason.reason, world.stored.status.drain)

    world.monotonic = 40.0
    visit(world, None if restarted else ending)

    began = START + seconds(40)
    assert DrainProgress(began, began + seconds(30), 3) == world.stored.status.drain
    assert [] == world.calls(Operation.DEREGISTER_BACKEND)


@pytest.mark.parametrize("answer", [LOST, BUSY, CallRefused("quota exceeded")])
def test_driver_that_may_have_heard_starts_the_clock(answer: Reply) -> None:
    """From then on there is a deadline, whatever the driver says."""
    world = World(RECORD)
    world.answers.append(answer)

    visit(world)

    drain = world.stored.status.drain
    assert drain is not None
    assert (START, START + seconds(30)) == (drain.started_at, drain.deadline)


@pytest.mark.parametrize("restarted", [True, False])
def test_clock_that_runs_is_not_stopped_by_an_unreachable_driver(
    restarted: bool,
) -> None:
    """The drain has begun: its deadline holds."""
    world = World(RECORD)
    world.answers.extend([BUSY, UNSENT])
    ending = visit(world)
    world.monotonic = 5.0
    ending = visit(world, None if restarted else ending)
    world.monotonic = 31.0

    visit(world, None if restarted else ending)

    assert [False] == [c.drained for c in world.calls(Operation.DEREGISTER_BACKEND)]


def test_clock_of_another_process_is_counted_though_nobody_can_be_reached() -> None:
    """From the first call on, by a clock that nobody sets; what is written says the rest."""
    world = World(RECORD)
    world.answers.extend([BUSY, UNSENT, UNSENT])
    visit(world)
    world.monotonic = 2.0
    visit(world)
    heir = DeregistrationState(first_seen=5.0)
    for after, ahead in ((5.0, 0.0), (31.0, -HOUR)):
        world.monotonic, world.ahead = after, ahead
        seen = Permission(world.stored, world.monotonic)
        heir, _ = world.end(heir.begin_turn(DRAINER, seen))

    assert [False] == [c.drained for c in world.calls(Operation.DEREGISTER_BACKEND)]


# --- clocks that are set, and that differ ---------------------------------------------


def end_of(world: World, ending: DeregistrationState) -> float:
    """Visit as often as wished for; return the second of the deregistration."""
    while True:
        world.answers.append(BUSY)
        ending, finish = world.end(ending.begin_turn(DRAINER))
        if world.calls(Operation.DEREGISTER_BACKEND):
            return world.monotonic
        assert finish.again_after is not None
        world.monotonic += finish.again_after.total_seconds()


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_clock_that_is_set_changes_no_drain(step: float) -> None:
    """Who has begun to count goes on by a clock that nobody sets."""
    world = World(RECORD)
    world.answers.append(BUSY)
    ending = visit(world)
    world.ahead = step

    assert pytest.approx(30.0) == end_of(world, ending)


@pytest.mark.parametrize(
    ("before", "after", "end"),
    [
        pytest.param(-HOUR, 0.0, 30.0, id="begun where it was an hour behind"),
        pytest.param(45.0, 0.0, 34.0, id="begun where it was 45 s ahead"),
        pytest.param(0.0, -HOUR, 34.0, id="goes on where it is an hour behind"),
        pytest.param(0.0, 2.0, 28.0, id="goes on where it is 2 s ahead"),
    ],
)
def test_restart_under_another_clock_takes_one_whole_drain_at_most(
    before: float, after: float, end: float
) -> None:
    """What is left is what is written, no more than all, and not from before the end began."""
    world = World(RECORD)
    world.ahead = before
    world.answers.append(BUSY)
    visit(world)
    world.ahead, world.monotonic = after, 4.0

    assert pytest.approx(end) == end_of(
        world, DeregistrationState(first_seen=world.monotonic)
    )


def test_driver_is_told_the_deadline_by_the_clock_as_it_is_now() -> None:
    """One that was set would let a driver cut, or wait, for an hour."""
    world = World(RECORD)
    world.answers.extend([BUSY, BUSY])
    ending = visit(world)
    world.ahead, world.monotonic = HOUR, 10.0
    visit(world, ending)

    first, second = world.calls(Operation.DRAIN_BACKEND)
    assert first.drain is not None
    assert second.drain is not None
    assert START + seconds(30) == first.drain.deadline
    assert START + seconds(HOUR + 30) == second.drain.deadline
    drain = world.stored.status.drain
    assert drain is not None
    assert START + seconds(30) == drain.deadline


def test_deadline_loses_no_part_of_a_second() -> None:
    """It is kept in whole seconds: the first that is not before it."""
    world = World(RECORD)
    world.answers.append(BUSY)
    world.monotonic = 0.9
    visit(world)

    drain = world.stored.status.drain
    assert drain is not None
    assert (START, START + seconds(31)) == (drain.started_at, drain.deadline)
