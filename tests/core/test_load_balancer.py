"""Whole lives of load balancers: which steps in which order, which waits, which words."""

from collections import deque
from collections.abc import Callable
from datetime import timedelta

import attrs
import pytest

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lbcf.core.lifecycle import load_balancer, load_balancer_status
from lbcf.core.lifecycle.call_backoff import (
    NO_BACKOFF,
    NO_CREATES,
    CallBackoff,
    UnconfirmedCreates,
)
from lbcf.core.lifecycle.load_balancer import LoadBalancerState
from lbcf.core.lifecycle.load_balancer_steps import (
    AbandonOrder,
    Blocked,
    CallFailed,
    CallForLoadBalancer,
    Counted,
    Created,
    CreationUnclear,
    Deleted,
    DriverSucceeded,
    Ensured,
    InUse,
    LoadBalancerGone,
    Locked,
    LockMembers,
    NeverCreated,
    Outcome,
    ReadLoadBalancer,
    ReleaseLoadBalancer,
    Reply,
    Step,
    WriteOutcome,
)
from lbcf.core.lifecycle.steps import (
    CallFailure,
    CallRefused,
    Conflicted,
    Finish,
    NoAnswer,
    Released,
    StillRunning,
)
from lbcf.core.lifecycle.turn import DRIVER_RECHECK
from lbcf.core.model import conditions, names
from lbcf.core.model.binds import Bind
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import Ingress, MemberKey, ObjectKey
from lbcf.core.reasons import Explanation, Reason
from tests.builders import ALWAYS, SETTLING, START, a_load_balancer, at, seconds
from tests.core.balancer_world import (
    CREATE,
    DELETE,
    DRIVER,
    ENSURE,
    NEW,
    VALIDATE,
    World,
    a_bind,
    an_object,
)


LOST = NoAnswer(Reason.DRIVER_TIMED_OUT, "no answer in 10 s", may_land=True)
UNSENT = NoAnswer(Reason.DRIVER_UNREACHABLE, "connection refused", may_land=False)
NO = CallRefused("quota exceeded")
BUSY = StillRunning("at it", seconds(3))
MISSING = Explanation(
    Reason.DRIVER_NOT_FOUND, "LoadBalancerDriver shop/proxy does not exist"
)
TIMEOUT = {"timeout": "30"}
LEAVING = attrs.evolve(
    DRIVER, meta=attrs.evolve(DRIVER.meta, labels={names.LABEL_DRAINING: "true"})
)
BY_ADDRESS = attrs.evolve(DRIVER, member_key=MemberKey.ADDRESS)


Make = Callable[[], World]


def an_object_world() -> World:
    """A LoadBalancer that nobody has looked at yet."""
    return World(an_object())


def an_entry_world() -> World:
    """A Bind with one load balancer, as it is written down at first."""
    return World(a_bind())


both = pytest.mark.parametrize("make", [an_object_world, an_entry_world])


def ready(world: World) -> World:
    """Let it be created and ensured."""
    while world.turn().again_after == timedelta(0):
        pass
    world.steps.clear()
    return world


def named(steps: list[Step]) -> list[str]:
    """Say steps in short words."""
    return [short(step) for step in steps]


def short(step: Step) -> str:
    """Say one step in a word: the call, what is written, the proof."""
    match step:
        case CallForLoadBalancer():
            return step.operation.value
        case WriteOutcome():
            return type(step.outcome).__name__
        case ReleaseLoadBalancer():
            return type(step.proof).__name__
        case _:
            return type(step).__name__


def outcomes(world: World) -> list[object]:
    """Find all that was written."""
    return [s.outcome for s in world.steps if isinstance(s, WriteOutcome)]


def test_object_is_held_created_and_ensured_in_one_turn() -> None:
    """The status says that it may exist before anybody makes it."""
    world = World(NEW)

    assert Finish() == world.turn()
    assert [
        "HoldLoadBalancer",
        "validateLoadBalancer",
        "Begun",
        "createLoadBalancer",
        "Created",
        "ensureLoadBalancer",
        "Ensured",
    ] == named(world.steps)


def test_entry_ends_its_turn_after_each_success() -> None:
    """The Bind has others; each of them goes one step at a time."""
    world = an_entry_world()

    assert Finish(timedelta(0)) == world.turn()
    assert ["validateLoadBalancer", "Begun", "createLoadBalancer", "Created"] == named(
        world.steps
    )
    world.steps.clear()
    assert Finish(timedelta(0)) == world.turn()
    assert ["ensureLoadBalancer", "Ensured"] == named(world.steps)
    assert Finish() == world.turn()


@both
def test_nothing_is_done_for_one_that_is_as_it_should_be(make: Make) -> None:
    """Also by a process that has just begun."""
    world = ready(make())
    world.restart()

    assert Finish() == world.turn()
    assert [] == world.steps


@both
def test_driver_is_asked_for_objections_to_a_change(make: Make) -> None:
    """It is told what there was before."""
    world = ready(make())
    world.edit(TIMEOUT)
    world.turn()

    assert ["validateLoadBalancer", "ensureLoadBalancer", "Ensured"] == named(
        world.steps
    )
    asked, ensured = (s for s in world.steps if isinstance(s, CallForLoadBalancer))
    assert {} == asked.before
    assert TIMEOUT == asked.balancer.attributes == ensured.balancer.attributes


def test_process_that_has_just_begun_says_what_a_change_is_from() -> None:
    """The status tells it what the driver took last."""
    world = World(an_object())
    world.edit(TIMEOUT)
    ready(world)
    world.restart()
    world.turn()
    world.edit({})
    world.turn()

    asked = world.steps[0]
    assert isinstance(asked, CallForLoadBalancer)
    assert (VALIDATE, TIMEOUT) == (asked.operation, asked.before)


@both
def test_objection_keeps_it_from_being_created(make: Make) -> None:
    """It never was: there is nothing to delete."""
    world = make()
    world.answers = deque([NO])
    finish = world.turn()

    assert ["validateLoadBalancer", "CallFailed"] == named(world.steps)
    assert finish.again_after is not None
    assert finish.again_after > timedelta(0)
    [failed] = outcomes(world)
    assert isinstance(failed, CallFailed)
    assert CREATE is failed.operation
    world.steps.clear()
    world.delete()
    world.turn()
    assert ["NeverCreated"] == named(world.steps)


def test_ingress_is_kept_until_its_driver_says_another() -> None:
    """An answer that says nothing of it leaves what was said; an empty one takes it away."""
    world = an_object_world()
    here, there = (Ingress("10.0.0.1"),), (Ingress("10.0.0.2"),)
    world.answers = deque(
        [DriverSucceeded(), DriverSucceeded(ingress=here), DriverSucceeded()]
    )
    world.turn()
    assert here == world.balancer.ingress
    world.turn()
    assert here == world.balancer.ingress

    for said in (there, ()):
        world.answers = deque([DriverSucceeded(), DriverSucceeded(ingress=said)])
        world.edit({"timeout": str(said)})
        world.turn()
        assert said == world.balancer.ingress


@both
def test_driver_is_left_alone_for_as_long_as_it_asked(make: Make) -> None:
    """Our own report is a change, too, and brings the key at once."""
    world = make()
    world.answers = deque([DriverSucceeded(), BUSY])
    assert Finish(seconds(3)) == world.turn()
    world.steps.clear()

    world.monotonic = 1.0
    assert Finish(seconds(2)) == world.turn()
    assert [] == world.steps
    world.monotonic = 3.0
    world.turn()
    assert "createLoadBalancer" == named(world.steps)[0]


def test_nothing_is_made_before_it_has_its_address() -> None:
    """One of a pool: its driver is not asked, and it says what it waits for."""
    world = an_object_world()
    world.stored = attrs.evolve(world.balancer, pool="edge")
    world.turn()
    assert (False, "AwaitingAddress") == condition(world, conditions.CREATED)
    assert "createLoadBalancer" not in named(world.steps)

    world.stored = attrs.evolve(world.balancer, address="192.0.2.1")
    world.turn()
    assert "createLoadBalancer" in named(world.steps)


def test_change_of_the_spec_ends_the_pause() -> None:
    """What was refused may be right now."""
    world = an_object_world()
    world.answers = deque([NO])
    world.turn()
    world.steps.clear()
    world.edit(TIMEOUT)
    world.turn()

    assert "validateLoadBalancer" == named(world.steps)[0]


def test_pauses_grow_while_answers_stay_the_same() -> None:
    """A driver that refuses for long is asked seldom."""
    world = an_object_world()
    pauses = []
    for _ in range(4):
        world.answers = deque([NO])
        again = world.turn().again_after
        assert again is not None
        pauses.append(again)
        world.monotonic += again.total_seconds()

    assert sorted(set(pauses)) == pauses


@both
def test_missing_driver_is_told_and_looked_for_again(make: Make) -> None:
    """Should the news of it be missed."""
    world = make()
    world.driver = MISSING

    assert Finish(DRIVER_RECHECK) == world.turn()
    assert [Blocked(CREATE, MISSING)] == outcomes(world)


def test_object_says_that_its_driver_is_missing_though_it_is_synced() -> None:
    """An entry of a Bind does not: nothing is due."""
    world = ready(an_object_world())
    world.driver = MISSING
    world.turn()
    assert [Blocked(ENSURE, MISSING)] == outcomes(world)

    world = ready(an_entry_world())
    world.driver = MISSING
    assert Finish() == world.turn()


def test_entry_waits_for_as_long_as_its_driver_asked_though_that_is_missing() -> None:
    """It is told then, and not before."""
    world = an_entry_world()
    assert isinstance(world.stored, Bind)
    resting = attrs.evolve(world.status, retry_after=at(60.0).wall)
    world.stored = attrs.evolve(world.stored, statuses=(resting,))
    world.driver = MISSING

    assert Finish(seconds(60)) == world.turn()
    assert [] == world.steps


@both
def test_driver_has_to_serve_the_namespace_until_the_end(make: Make) -> None:
    """What there is can always end."""
    world = make()
    home = attrs.evolve(DRIVER.meta, key=ObjectKey("kube-system", "proxy"))
    world.driver = attrs.evolve(DRIVER, meta=home, scope=())
    world.turn()
    [blocked] = outcomes(world)
    assert isinstance(blocked, Blocked)
    assert "DriverOutOfScope" == blocked.why.reason

    world.driver = DRIVER
    world = ready(world)
    world.driver = attrs.evolve(DRIVER, meta=home, scope=())
    world.delete()
    world.turn()
    assert ["ListRecords", "deleteLoadBalancer", "Deleted"] == named(world.steps)


@both
def test_what_is_there_is_ensured_though_its_driver_goes(make: Make) -> None:
    """The driver waits for it."""
    world = ready(make())
    world.driver = LEAVING
    world.edit(TIMEOUT)
    world.turn()

    assert "ensureLoadBalancer" in named(world.steps)


@pytest.mark.parametrize(
    ("driver", "written"),
    [(LEAVING, ["Blocked"]), (attrs.evolve(DRIVER, meta=NEW.meta), [])],
    ids=["draining", "not held yet"],
)
def test_nothing_new_begins_at_a_driver_that_may_go(
    driver: LoadBalancerDriver, written: list[str]
) -> None:
    """It would be gone before it is needed."""
    world = World(NEW)
    world.driver = driver

    assert Finish(DRIVER_RECHECK) == world.turn()
    assert written == named(world.steps)


@both
def test_records_end_first(make: Make) -> None:
    """With the load balancer their traffic would go."""
    world = ready(make())
    world.users = 2
    world.delete()

    assert Finish(DRIVER_RECHECK) == world.turn()
    assert [InUse(2)] == outcomes(world)
    world.users = 0
    world.steps.clear()
    world.turn()
    assert ["ListRecords", "deleteLoadBalancer", "Deleted"] == named(world.steps)


@both
def test_records_are_listed_before_it_goes(make: Make) -> None:
    """The view of them may lag, and with it they would lose their traffic (w82, w83)."""
    world = ready(make())
    world.unseen = 1
    world.delete()

    assert Finish(DRIVER_RECHECK) == world.turn()
    assert ["ListRecords", "InUse"] == named(world.steps)
    world.unseen = 0
    world.steps.clear()
    world.turn()
    assert ["ListRecords", "deleteLoadBalancer", "Deleted"] == named(world.steps)


@both
def test_records_are_listed_until_there_is_none(make: Make) -> None:
    """Of those that are created later none is registered: one list of none is enough."""
    world = ready(make())
    world.unread = (ObjectKey("elsewhere", "odd"), world.balancer.meta.key)
    world.delete()
    assert Finish(DRIVER_RECHECK) == world.turn()
    [blocked] = outcomes(world)
    assert isinstance(blocked, Blocked)
    assert str(world.balancer.meta.key) in blocked.why.message
    world.unread = ()
    world.steps.clear()
    world.answers = deque([BUSY, BUSY])

    while not world.is_over:
        world.turn()
        world.monotonic += 3.0
    assert 1 == named(world.steps).count("ListRecords")


def test_record_that_cannot_be_understood_may_need_it() -> None:
    """Somebody has to look at it."""
    world = ready(an_object_world())
    world.unreadable = ObjectKey("shop", "odd")
    world.delete()

    assert Finish(DRIVER_RECHECK) == world.turn()
    [blocked] = outcomes(world)
    assert isinstance(blocked, Blocked)
    assert ("RecordUnreadable", DELETE) == (blocked.why.reason, blocked.operation)


@both
@pytest.mark.parametrize("answer", [LOST, BUSY])
def test_creation_without_an_end_is_waited_for(make: Make, answer: CallFailure) -> None:
    """A create that lands after the delete would make one that nobody remembers."""
    world = make()
    world.answers = deque([DriverSucceeded(), answer])
    world.turn()
    world.monotonic = 5.0
    world.delete()

    assert Finish(seconds(SETTLING - 5.0)) == world.turn()
    assert CreationUnclear() == outcomes(world)[-1]
    world.monotonic = SETTLING
    world.turn()
    assert ["deleteLoadBalancer", "Deleted"] == named(world.steps)[-2:]


@both
@pytest.mark.parametrize("answer", [UNSENT, NO])
def test_creation_that_had_no_effect_is_not_waited_for(
    make: Make, answer: CallFailure
) -> None:
    """The driver may have begun: it is deleted all the same."""
    world = make()
    world.answers = deque([DriverSucceeded(), answer])
    world.turn()
    world.delete()
    world.turn()

    assert ["deleteLoadBalancer", "Deleted"] == named(world.steps)[-2:]


@both
def test_process_that_knows_nothing_waits_for_creates_of_earlier_ones(
    make: Make,
) -> None:
    """From its first look on, since none of its own is made any more."""
    world = make()
    world.answers = deque([DriverSucceeded(), UNSENT])
    world.turn()
    world.restart()
    world.delete()

    assert Finish(seconds(SETTLING)) == world.turn()
    world.monotonic = 10.0
    assert Finish(seconds(SETTLING - 10.0)) == world.turn()


@both
def test_deletion_without_an_answer_is_outlasted(make: Make) -> None:
    """It would delete what is made again as the same load balancer."""
    world = ready(make())
    world.delete()
    world.answers = deque([LOST])
    world.turn()
    world.monotonic = 5.0

    assert Finish(seconds(SETTLING - 5.0)) == world.turn()
    assert "Deleted" not in named(world.steps)
    world.monotonic = SETTLING
    world.turn()
    assert ["deleteLoadBalancer", "Deleted"] == named(world.steps)[-2:]


@both
def test_deletion_that_was_never_sent_is_not_outlasted(make: Make) -> None:
    """Nothing of it can be late."""
    world = ready(make())
    world.delete()
    world.answers = deque([UNSENT])
    world.turn()
    world.monotonic = 5.0
    world.turn()

    assert ["deleteLoadBalancer", "Deleted"] == named(world.steps)[-2:]


@both
def test_person_may_let_go_of_it(make: Make) -> None:
    """Once no record needs it."""
    world = ready(make())
    world.driver = MISSING
    world.users = 1
    world.delete(abandoned="scrapped")
    world.turn()
    assert ["InUse"] == named(world.steps)
    world.users = 0
    world.steps.clear()
    world.turn()

    released = world.steps[-1]
    assert isinstance(released, ReleaseLoadBalancer)
    assert AbandonOrder("scrapped") == released.proof
    assert 1 == len(world.steps)


def test_entry_that_is_taken_out_needs_its_driver() -> None:
    """The order is to let go of a Bind that is deleted, not of parts of one that stays."""
    world = ready(an_entry_world())
    stored = world.stored
    assert isinstance(stored, Bind)
    marked = attrs.evolve(stored.meta, annotations={names.ANNOTATION_ABANDON: "yes"})
    world.stored = attrs.evolve(stored, meta=marked, entries=())
    world.turn()

    assert ["ListRecords", "deleteLoadBalancer", "Deleted"] == named(world.steps)


@both
def test_driver_that_does_not_delete_is_asked_again(make: Make) -> None:
    """The finalizer stays."""
    world = ready(make())
    world.delete()
    world.answers = deque([BUSY])

    assert Finish(seconds(3)) == world.turn()
    assert ["ListRecords", "deleteLoadBalancer", "CallFailed"] == named(world.steps)
    assert not world.is_over
    world.monotonic += 3.0
    world.turn()
    assert world.is_over


def test_object_without_our_finalizer_is_left_to_its_end() -> None:
    """Somebody took it off."""
    world = World(a_load_balancer(deleting=True))

    assert Finish() == world.turn()
    assert [] == world.steps


def test_identity_is_written_whatever_else_has_changed() -> None:
    """The end of what was just created needs it."""
    world = an_object_world()
    world.answers = deque([DriverSucceeded(), DriverSucceeded()])
    life = world.life.begin_turn(world.look(), world.now())
    for _ in range(3):  # validated, begun, created
        step = load_balancer.next_step(life, world.now())
        life = load_balancer.learn(life, step, world.perform(step), world.now())
    world.conflicts, world.life = 1, life
    steps = []
    while not isinstance(
        step := load_balancer.next_step(world.life, world.now()), Finish
    ):
        steps.append(short(step))
        reply = world.perform(step)
        world.life = load_balancer.learn(world.life, step, reply, world.now())

    assert ["Created", "ReadLoadBalancer", "Created"] == steps[:3]
    assert {"id": "front"} == world.balancer.info


def test_identity_of_another_object_is_not_ours() -> None:
    """One of its name has come into its place."""
    world = an_object_world()
    step = ReadLoadBalancer(world.balancer)
    life = attrs.evolve(
        world.life.begin_turn(world.look(), world.now()),
        outcome=Created({}, "url:1"),
        is_stale=True,
    )
    life = load_balancer.learn(life, step, LoadBalancerGone(), world.now())

    assert Finish(seconds(1)) == load_balancer.next_step(life, world.now())
    assert not life.is_released


@pytest.mark.parametrize("conflicts", [1, 2, 3])
def test_conflict_has_it_read_again(conflicts: int) -> None:
    """Once in a turn; the next one begins in a second, and nothing is lost by it."""
    world = World(NEW)
    world.conflicts = conflicts

    assert Finish(seconds(1) if conflicts > 1 else None) == world.turn()
    assert 1 == named(world.steps).count("ReadLoadBalancer")
    for _ in range(conflicts):
        world.turn()
    assert {"id": "front"} == world.balancer.info


def test_identity_that_conflicts_twice_waits_for_the_next_turn() -> None:
    """A turn does not run hot while somebody else writes."""
    world = an_object_world()
    created = Created({}, "url:1")
    life = attrs.evolve(
        world.life.begin_turn(world.look(), world.now()),
        outcome=created,
        was_reread=True,
    )
    step = load_balancer.next_step(life, world.now())
    assert WriteOutcome(world.balancer, created) == step

    life = load_balancer.learn(life, step, Conflicted(), world.now())

    assert Finish(seconds(1)) == load_balancer.next_step(life, world.now())


def test_obstacle_that_could_not_be_written_is_not_told_of_a_later_version() -> None:
    """It may be gone by then."""
    world = World(an_object(), driver=MISSING)
    world.conflicts = 1

    world.turn()

    assert ["Blocked", "ReadLoadBalancer"] == named(world.steps)


@both
def test_attributes_that_change_under_an_ensure_are_ensured_too(make: Make) -> None:
    """What its driver took is not written down for what it is to have by now."""
    world = ready(make())
    world.edit(TIMEOUT)
    life = world.life.begin_turn(world.look(), world.now())
    while not isinstance(
        step := load_balancer.next_step(life, world.now()), WriteOutcome
    ):
        life = load_balancer.learn(life, step, world.perform(step), world.now())
    world.edit({"timeout": "60"})
    life = load_balancer.learn(life, step, Conflicted(), world.now())
    asked = []
    while not isinstance(step := load_balancer.next_step(life, world.now()), Finish):
        if isinstance(step, CallForLoadBalancer):
            asked.append((short(step), step.before, step.balancer.attributes))
        life = load_balancer.learn(life, step, world.perform(step), world.now())

    now = {"timeout": "60"}
    assert [
        ("validateLoadBalancer", TIMEOUT, now),
        ("ensureLoadBalancer", None, now),
    ] == asked
    assert world.look().is_synced


def test_count_that_conflicts_is_not_written_at_once_again() -> None:
    """What is read may be as far behind as before."""
    world = ready(an_object_world())
    world.members, world.conflicts = 2, 1
    assert Finish(seconds(5)) == world.turn()
    assert [Counted(2)] == outcomes(world)

    world.monotonic = 5.0
    world.turn()
    assert [Counted(2), Counted(2)] == outcomes(world)


def test_backends_are_counted_seldom() -> None:
    """Another controller may count otherwise, and each would write."""
    world = ready(an_object_world())
    world.members, world.monotonic = 2, 100.0
    assert Finish() == world.turn()
    assert [Counted(2)] == outcomes(world)

    world.members, world.monotonic = 3, 102.0
    assert Finish(seconds(3)) == world.turn()
    world.monotonic = 105.0
    world.turn()
    assert [Counted(2), Counted(3)] == outcomes(world)


@pytest.mark.parametrize("driver", [DRIVER, BY_ADDRESS])
def test_key_changes_once_the_members_are_locked_under_it(
    driver: LoadBalancerDriver,
) -> None:
    """Where addresses are locked at all."""
    world = ready(an_object_world())
    world.driver = driver
    world.answers = deque([DriverSucceeded(), DriverSucceeded(lock_key="shared")])
    world.edit(TIMEOUT)
    world.turn()

    locks = ["LockMembers"] if driver is BY_ADDRESS else []
    assert [*locks, "Locked", "Ensured"] == named(world.steps)[2:]
    assert "key:shared" == world.balancer.lock_keys[0]


def test_key_waits_for_locks_that_nobody_could_take() -> None:
    """Else another record could have the address."""
    world = ready(an_object_world())
    world.driver, world.locks_answered = BY_ADDRESS, False
    world.answers = deque([DriverSucceeded(), DriverSucceeded(lock_key="shared")])
    world.edit(TIMEOUT)

    assert Finish(seconds(1)) == world.turn()
    assert LockMembers(world.balancer, "key:shared") == world.steps[-1]
    world.locks_answered = True
    world.answers = deque([DriverSucceeded(), DriverSucceeded(lock_key="shared")])
    world.turn()
    assert Locked("key:shared") in outcomes(world)


def test_entry_writes_its_key_with_what_it_learnt() -> None:
    """In the one write that says that it was created."""
    world = an_entry_world()
    world.answers = deque([DriverSucceeded(), DriverSucceeded(lock_key="shared")])
    world.turn()

    assert ("key:shared",) == world.status.lock_keys


@pytest.mark.parametrize("driver", [DRIVER, BY_ADDRESS])
def test_entry_locks_its_members_under_the_key_that_an_ensure_tells_of(
    driver: LoadBalancerDriver,
) -> None:
    """They may have been registered since it was created, under another key."""
    world = an_entry_world()
    world.driver = driver
    world.answers = deque([*[DriverSucceeded()] * 2, DriverSucceeded(lock_key="new")])
    while world.turn().again_after == timedelta(0):
        pass

    locks = ["LockMembers"] if driver is BY_ADDRESS else []
    assert ["ensureLoadBalancer", *locks, "Locked", "Ensured"] == named(world.steps)[4:]
    assert "key:new" == world.status.lock_keys[0]


@both
@pytest.mark.parametrize("fails", [False, True])
def test_key_changes_with_the_url_of_its_driver_whatever_waits(
    make: Callable[[], World], *, fails: bool
) -> None:
    """Others with the same members may have it already, and lock them by it."""
    world = make()
    world.driver = BY_ADDRESS
    world = ready(world)
    if fails:
        world.edit(TIMEOUT)
        world.answers = deque([DriverSucceeded(), CallRefused("no")])
        world.turn()
    before = world.balancer.lock_keys
    world.driver = attrs.evolve(BY_ADDRESS, url="http://elsewhere.test")
    world.steps.clear()

    end = world.turn()

    assert ["LockMembers", "Locked"] == named(world.steps)
    assert before == world.balancer.lock_keys[1:]
    assert fails == (end.again_after is not None)


@both
def test_key_that_it_had_before_is_not_written_again(
    make: Callable[[], World],
) -> None:
    """The URL of its driver is changed back: the order of its locks stays."""
    world = make()
    world.driver = BY_ADDRESS
    world = ready(world)
    world.driver = attrs.evolve(BY_ADDRESS, url="http://elsewhere.test")
    world.turn()
    before = world.balancer.lock_keys
    world.driver = BY_ADDRESS
    world.steps.clear()

    world.turn()

    assert [] == named(world.steps)
    assert before == world.balancer.lock_keys


@both
def test_locks_that_nobody_could_take_are_tried_again_soon(
    make: Callable[[], World],
) -> None:
    """The key is not written before, and nothing else is done."""
    world = make()
    world.driver = BY_ADDRESS
    world = ready(world)
    before = world.balancer.lock_keys
    world.driver = attrs.evolve(BY_ADDRESS, url="http://elsewhere.test")
    world.locks_answered = False

    assert Finish(seconds(1)) == world.turn()

    assert ["LockMembers"] == named(world.steps)
    assert before == world.balancer.lock_keys


def test_entry_that_was_created_before_there_were_keys_gets_one() -> None:
    """One of LBCF in Go: its records' addresses can be locked then."""
    world = ready(an_entry_world())
    assert isinstance(world.stored, Bind)
    status = attrs.evolve(world.status, lock_keys=())
    world.stored = attrs.evolve(world.stored, statuses=(status,))

    world.turn()

    assert ["Locked"] == named(world.steps)
    assert 1 == len(world.status.lock_keys)


def test_object_that_was_created_before_there_were_keys_gets_one() -> None:
    """From the URL of its driver and its identity."""
    world = World(an_object(a_load_balancer()))

    world.turn()

    assert isinstance(outcomes(world)[0], Locked)
    assert 1 == len(world.balancer.lock_keys)


def test_object_is_ensured_by_period_where_asked() -> None:
    """Without a write as long as it goes well."""
    world = World(attrs.evolve(an_object(), ensure_policy=ALWAYS))

    assert Finish(ALWAYS.period) == world.turn()
    world.steps.clear()
    world.monotonic = 20.0
    assert Finish(ALWAYS.period - seconds(20)) == world.turn()
    world.monotonic = 60.0
    stored = world.stored
    assert Finish(ALWAYS.period) == world.turn()
    assert ["ensureLoadBalancer", "Ensured"] == named(world.steps)
    assert stored == world.stored


def test_failing_ensure_does_not_keep_backends_from_being_counted() -> None:
    """Whichever is due first brings it back."""
    world = ready(an_object_world())
    world.members = 1
    world.turn()
    world.members, world.monotonic = 2, 1.0
    world.answers = deque([StillRunning("", seconds(60))])
    world.edit(TIMEOUT)

    assert Finish(seconds(4)) == world.turn()


# --- words -------------------------------------------------------------------------


def condition(world: World, kind: str) -> tuple[bool | None, str]:
    """Find status and reason of a condition."""
    found = conditions.find(world.balancer.conditions, kind)
    assert found is not None
    return found.status, found.reason


def test_created_tells_later_processes_what_may_exist() -> None:
    """Unknown from before the first call on, whatever is told with it; then True."""
    world = an_object_world()
    world.answers = deque([NO])
    world.turn()
    assert (False, "DriverRefused") == condition(world, conditions.CREATED)
    world.monotonic = 10.0
    world.answers = deque([DriverSucceeded(), LOST])
    world.turn()
    assert (None, "DriverTimedOut") == condition(world, conditions.CREATED)
    world.delete()
    world.turn()
    assert (None, "CreationUnclear") == condition(world, conditions.CREATED)


def test_object_tells_how_it_is() -> None:
    """Created stays True while it is in use."""
    world = ready(an_object_world())
    assert (True, "Created") == condition(world, conditions.CREATED)
    assert (True, "AttributesSynced") == condition(world, conditions.ATTRIBUTES_SYNCED)

    world.edit(TIMEOUT)
    world.answers = deque([NO])
    world.turn()
    assert (False, "DriverRefused") == condition(world, conditions.ATTRIBUTES_SYNCED)
    world.users = 1
    world.delete()
    world.turn()
    assert (True, "InUse") == condition(world, conditions.CREATED)


@pytest.mark.parametrize("answers", [[], [NO]], ids=["ensured", "refused"])
def test_created_is_as_true_of_a_changed_spec(answers: list[CallFailure]) -> None:
    """`kubectl wait --for=condition=Created` takes no word of an older generation."""
    world = ready(an_object_world())
    world.edit(TIMEOUT)
    world.answers = deque(answers)
    world.turn()

    assert isinstance(world.stored, LoadBalancer)
    told = {c.type: c.observed_generation for c in world.stored.conditions}
    assert told[conditions.ATTRIBUTES_SYNCED] > 1
    assert told[conditions.CREATED] == told[conditions.ATTRIBUTES_SYNCED]


def test_what_is_said_of_anything_but_the_creation_keeps_its_generation() -> None:
    """It was found of an older spec, and may not be so of this one."""
    old = Condition(conditions.REACHABLE, True, Reason.REACHABLE, "", 1)
    balancer = attrs.evolve(an_object(), conditions=(old,))
    newer = attrs.evolve(balancer.meta, generation=2)

    told = load_balancer_status.with_outcome(
        attrs.evolve(balancer, meta=newer), Ensured({}), at(1.0).wall
    )

    assert [1, 2] == [c.observed_generation for c in told.conditions]


@pytest.mark.parametrize("outcome", [Created({}, "key:a"), Locked("key:a")])
def test_object_is_locked_under_the_keys_of_all_that_are_the_same(
    outcome: Outcome,
) -> None:
    """They come along in their order, below the one that it has from now on."""
    balancer = attrs.evolve(an_object(), lock_keys=("key:1",))

    told = load_balancer_status.with_outcome(
        balancer, outcome, START, shared=("key:3", "key:2")
    )

    assert ("key:a", "key:3", "key:2", "key:1") == told.lock_keys


def test_what_was_said_is_not_written_again() -> None:
    """A turn without news changes nothing."""
    world = an_object_world()
    world.driver = MISSING
    world.turn()
    stored = world.stored
    world.turn()

    assert stored == world.stored


# --- properties --------------------------------------------------------------------


EVENTS = st.one_of(
    st.sampled_from(["turn", "turn", "turn", "restart", "delete", "abandon", "user"]),
    st.sampled_from(["no-users", "conflict", "missing", "found", "edit", "land"]),
    st.floats(0.1, 40.0),
    st.sampled_from([LOST, UNSENT, NO, BUSY, StillRunning(), DriverSucceeded()]),
)


@attrs.define
class Watched(World):
    """A world that looks at each step before it is made."""

    began: bool = False

    def perform(self, step: Step) -> Reply:
        """Check the rules, then answer."""
        if isinstance(step, CallForLoadBalancer):
            self._check_call(step)
        if isinstance(step, ReleaseLoadBalancer):
            self._check_release(step)
        return World.perform(self, step)

    def _check_call(self, step: CallForLoadBalancer) -> None:
        seen = self.look()
        if step.operation is DELETE:
            assert not self.users, "deleted while records need it"
            assert self.exists or not self.is_out, (
                "deleted while a create may take effect"
            )
            assert seen.is_deleting
        else:
            assert not seen.is_deleting, f"{step.operation} of one that is to go"
        if step.operation is CREATE:
            assert seen.may_exist, "created before the status says that it may exist"
        if step.operation is ENSURE:
            assert seen.balancer.info is not None

    def _check_release(self, step: ReleaseLoadBalancer) -> None:
        assert not self.users, "released while records need it"
        if isinstance(step.proof, AbandonOrder):
            assert step.proof.why
            return
        assert not self.exists, "released while its driver has it"
        assert not self.is_out, "released while a create may take effect"
        assert isinstance(step.proof, Deleted | NeverCreated)


def apply(world: World, event: object) -> None:
    """Let one thing happen."""
    match event:
        case float(passed):
            world.monotonic += passed
        case "turn":
            world.turn()
        case "restart":
            world.restart()
        case CallRefused() | StillRunning() | NoAnswer() | DriverSucceeded():
            world.answers.append(event)
        case "missing" | "found":
            world.driver = MISSING if event == "missing" else DRIVER
        case _:
            apply_elsewhere(world, event)


def apply_elsewhere(world: World, event: object) -> None:
    """Let one thing happen that others do, where they can."""
    is_deleting = world.look().is_deleting
    match event:
        case "delete" | "abandon" if not is_deleting:
            world.delete(abandoned="scrapped" if event == "abandon" else "")
        case "edit" if not is_deleting:
            world.edit({"timeout": str(world.monotonic)})
        case "user" if world.exists and not is_deleting:
            world.users += 1
        case "no-users":
            world.users = 0
        case "conflict":
            world.conflicts += 1
        case "land" if world.is_out:
            world.exists, world.may_land = True, 0.0


@settings(max_examples=400, deadline=None)
@given(st.booleans(), st.lists(EVENTS, max_size=40))
@example(False, [DriverSucceeded(), LOST, "turn", 1.7520298761412931])
def test_rules_hold_whatever_happens(is_entry: bool, events: list[object]) -> None:
    """And one that is to go goes, once its driver is there and answers."""
    world = Watched(a_bind() if is_entry else NEW)
    for event in events:
        if world.is_over:
            return
        apply(world, event)
    world.answers.clear()
    world.driver, world.users, world.conflicts = DRIVER, 0, 0
    apply(world, "delete")
    for _ in range(6):
        again = world.turn().again_after
        world.monotonic += 0.0 if again is None else again.total_seconds()
    assert world.is_over or not world.look().is_held


@both
def test_memory_may_be_lost_between_any_two_steps(make: Make) -> None:
    """The status alone says where to go on."""
    for lost in range(12):
        world = make()
        life = LoadBalancerState().begin_turn(world.look(), world.now())
        for number in range(40):
            if number == lost:
                life = LoadBalancerState().begin_turn(world.look(), world.now())
            step = load_balancer.next_step(life, world.now())
            if isinstance(step, Finish):
                life = life.begin_turn(world.look(), world.now())
                continue
            life = load_balancer.learn(life, step, world.perform(step), world.now())
        assert world.look().is_synced


# --- single answers -------------------------------------------------------------------


def in_turn(world: World) -> LoadBalancerState:
    """Begin a turn."""
    return world.life.begin_turn(world.look(), world.now())


@pytest.mark.parametrize(
    ("make", "end"),
    [(an_object_world, Finish()), (an_entry_world, Finish(seconds(0)))],
)
def test_released_one_is_let_go(make: Make, end: Finish) -> None:
    """The Bind of an entry is looked at once more: it may wait for that.

    One that comes again under its name has records of its own, which nobody has listed.
    """
    world = ready(make())
    ended = attrs.evolve(in_turn(world), has_listed=True)

    life = load_balancer.learn(ended, Finish(), Released(), world.now())

    assert (True, False) == (life.is_released, life.has_listed)
    assert end == load_balancer.next_step(life, world.now())


@pytest.mark.parametrize(
    ("members", "counted_at", "again"),
    [(0, None, 1.0), (3, None, 0.0), (3, 0.0, 1.0)],
    ids=["counted", "not counted", "counted just now"],
)
def test_turn_that_could_not_lock_counts_all_the_same(
    members: int, counted_at: float | None, again: float
) -> None:
    """At once where the count is due, else in a moment."""
    world = ready(an_object_world())
    world.members = members
    life = attrs.evolve(in_turn(world), counted_at=counted_at)

    life = load_balancer.learn(
        life, LockMembers(world.balancer, "key"), Conflicted(), at(0)
    )

    assert Finish(seconds(again)) == life.end


@pytest.mark.parametrize("operation", [CREATE, ENSURE, DELETE])
def test_success_ends_the_waits_for_earlier_calls(operation: Operation) -> None:
    """Of each kind; the objection that was asked for before a create is void after it."""
    world = ready(an_object_world())
    life = attrs.evolve(in_turn(world), backoff=CallBackoff(1, 60.0), is_valid=True)
    call = CallForLoadBalancer(operation, world.balancer, DRIVER)
    life = attrs.evolve(life, creates=UnconfirmedCreates(60.0))

    life = load_balancer.learn(life, call, DriverSucceeded({"id": "7"}), at(0))

    assert NO_BACKOFF == life.backoff
    assert (operation is CREATE) is (NO_CREATES == life.creates)
    assert (operation is CREATE) is not life.is_valid


@pytest.mark.parametrize("before", [None, {}])
def test_only_a_first_create_is_known_to_be_alone(
    before: dict[str, str] | None,
) -> None:
    """Of one that is there already nothing is known by the objection that it had not."""
    world = ready(an_object_world())
    call = CallForLoadBalancer(VALIDATE, world.balancer, DRIVER, before)
    life = attrs.evolve(in_turn(world), creates=NO_CREATES)

    life = load_balancer.learn(life, call, DriverSucceeded(), at(5))

    assert (
        NO_CREATES if before is not None else UnconfirmedCreates(5.0)
    ) == life.creates


@pytest.mark.parametrize(
    ("operation", "again"), [(ENSURE, 0.0), (DELETE, 0.25)], ids=["ensure", "delete"]
)
def test_failure_of_an_ensure_keeps_nothing_from_being_counted(
    operation: Operation, again: float
) -> None:
    """What is deleted is counted no more."""
    world = ready(an_object_world())
    world.members = 3
    call = CallForLoadBalancer(operation, world.balancer, DRIVER)

    life = load_balancer.learn(in_turn(world), call, NO, at(0))

    assert Finish(seconds(again)) == life.end


@pytest.mark.parametrize("deleting", [False, True])
def test_turn_ends_for_as_long_as_its_driver_rests(*, deleting: bool) -> None:
    """And says when it goes on."""
    world = ready(an_object_world())
    if deleting:
        world.delete()
    else:
        world.edit(TIMEOUT)
    generation = world.balancer.meta.generation
    world.life = attrs.evolve(world.life, backoff=CallBackoff(generation, 60.0))

    assert Finish(seconds(60)) == world.turn()
    assert [] == world.steps


def test_last_member_is_counted_down() -> None:
    """None is a number, too."""
    world = ready(an_object_world())
    assert isinstance(world.stored, LoadBalancer)
    world.stored = attrs.evolve(world.stored, backends=3)

    world.turn()

    assert [Counted(0)] == outcomes(world)
