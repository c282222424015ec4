"""No turn runs hot: whatever a fair world answers, each comes to its end, and soon."""

from collections import deque

import attrs

from hypothesis import given
from hypothesis import strategies as st

from lbcf.core.lifecycle.deregistration import DeregistrationState
from lbcf.core.lifecycle.registration import RegistrationState, with_due
from lbcf.core.lifecycle.steps import (
    CallDriver,
    CallRefused,
    LockTaken,
    NoAnswer,
    Reply,
    Step,
    StillRunning,
    Succeeded,
)
from lbcf.core.model.resources import BackendRecord, LoadBalancerDriver, RecordStatus
from lbcf.core.model.values import AddressSource, BootTime, MemberKey
from lbcf.core.reasons import Explanation, Reason
from tests.builders import ALWAYS, BOOT, a_driver, a_record, a_spec, held_by, seconds
from tests.core.world import World


WISHES = st.none() | st.integers(0, 600).map(seconds)
ANSWERS = st.one_of(
    st.builds(
        Succeeded, st.none() | st.just({"id": "7"}), st.sampled_from(("v:1", ""))
    ),
    st.builds(StillRunning, st.just("busy"), WISHES, st.none() | st.integers(0, 3)),
    st.builds(CallRefused, st.sampled_from(("no", "x" * 2000)), WISHES),
    st.builds(NoAnswer, st.just("DriverTimedOut"), st.just("late"), st.booleans()),
)
LOCKS = st.one_of(
    st.just(LockTaken()),
    st.builds(
        held_by,
        again_after=WISHES.filter(bool),
        gone_at=st.none() | st.just(BootTime(BOOT, 0.0)),
    ),
)
DRIVERS = st.one_of(
    st.builds(
        a_driver,
        member_key=st.sampled_from(MemberKey),
        address_source=st.sampled_from(AddressSource),
        drains=st.booleans(),
    ),
    st.just(Explanation(Reason.DRIVER_NOT_FOUND, "create it")),
)


@st.composite
def records(draw: st.DrawFn) -> BackendRecord:
    """Draw a record at any point of its life."""
    where = draw(st.sampled_from(("", "spec", "status")))
    spec = a_spec(
        address="10.0.0.1:80" if where == "spec" else "",
        ensure_policy=draw(st.sampled_from((None, ALWAYS))),
        drain_timeout=draw(st.sampled_from((None, seconds(0), seconds(30)))),
    )
    return a_record(
        spec=spec,
        status=RecordStatus(address="10.0.0.1:80" if where == "status" else ""),
        registered=bool(where) and draw(st.booleans()),
        ensuring=draw(st.sampled_from(("", "me", "other", "*"))),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw a world with a finite amount of trouble."""
    world = World(draw(records()), monotonic=draw(st.sampled_from((100.0, 500.0))))
    world.answers = deque(draw(st.lists(ANSWERS, max_size=6)))
    world.locks = deque(draw(st.lists(LOCKS, max_size=3)))
    troubles = deque(draw(st.lists(st.sampled_from((None, "put", "wait")), max_size=4)))

    def interfere(w: World, _step: Step) -> None:
        trouble = troubles.popleft() if troubles else None
        if trouble == "wait":
            w.monotonic += 3
        if trouble is not None:
            w.put()

    world.before = interfere
    return world


def judge(step: Step, world: World, *, deleting: bool) -> None:
    """Hold a step against the rule that no call goes out without a permission."""
    if isinstance(step, CallDriver):
        assert step.permission.at <= world.monotonic
        assert deleting is step.permission.record.is_deleting
        assert step.address in {step.permission.record.address, ""}


@given(worlds(), DRIVERS, st.sampled_from(("", "10.0.0.1:80")), st.booleans())
def test_registrar_s_turns_end(
    world: World, driver: LoadBalancerDriver | Explanation, address: str, reset: bool
) -> None:
    """Six visits in a row, each with what the last one left behind."""
    known = RegistrationState("me", 100.0, reset="it was reset" if reset else "")
    for _ in range(6):
        known = with_due(attrs.evolve(known, driver=driver), world.stored, world.now())
        known, _ = world.register(known.begin_turn(driver, address))
    for step in world.steps:
        judge(step, world, deleting=False)


@given(worlds(), DRIVERS)
def test_deregistrar_s_turns_end(
    world: World, driver: LoadBalancerDriver | Explanation
) -> None:
    """Six visits in a row, until the record is gone."""
    world.delete()
    ending = DeregistrationState(first_seen=90.0)
    for _ in range(6):
        ending, finish = world.end(ending.begin_turn(driver))
        assert ending.is_over is (world.record is None)
        assert ending.is_over is (finish.again_after is None)
    for step in world.steps:
        judge(step, world, deleting=True)


@given(records(), DRIVERS, ANSWERS, st.sampled_from(("", "10.0.0.1:80")))
def test_same_answer_for_ever_is_not_written_for_ever(
    record: BackendRecord,
    driver: LoadBalancerDriver | Explanation,
    answer: Reply,
    address: str,
) -> None:
    """After a few visits there is nothing left to say, however long it goes on."""
    for deleting in (False, True):
        world = World(record, monotonic=100.0)
        world.answers = deque([answer] * 1000)
        if deleting:
            world.delete()
        known, ending = (
            RegistrationState("me", 100.0),
            DeregistrationState(first_seen=100.0),
        )
        for _ in range(12):
            if world.record is None:
                break
            if deleting:
                ending, _ = world.end(ending.begin_turn(driver))
            else:
                due = with_due(
                    attrs.evolve(known, driver=driver), world.record, world.now()
                )
                known, _ = world.register(due.begin_turn(driver, address))
        assert len(world.writes) <= 6
