"""Who has marked a record that ends says when none of its ensures is out any more."""

from typing import Any

import attrs
import pytest

from lbcf.core.lifecycle.registration import (
    RegistrationState,
    UncertainCall,
    rest_to_sign_off,
)
from lbcf.core.lifecycle.steps import (
    Finish,
    NoAnswer,
    Reply,
    Step,
    StillRunning,
    Succeeded,
    WriteStatus,
)
from lbcf.core.model.resources import SIGNED_OFF, BackendRecord
from lbcf.core.reasons import Reason
from tests.builders import ALWAYS, SETTLING, a_driver, a_record, a_spec, at, seconds
from tests.core.world import World


ME = "me"
ENDING = a_record(ensuring=ME, deleting=True)
OUT_UNTIL = 30.0
LOST = NoAnswer(Reason.DRIVER_TIMED_OUT, "no answer in 10 s", may_land=True)


def known(*, me: str = ME, **memory: Any) -> RegistrationState:
    """Make what a registrar remembers."""
    return attrs.evolve(RegistrationState(me, first_seen=0.0), **memory)


def visit(world: World, state: RegistrationState) -> tuple[RegistrationState, Finish]:
    """Pay a record a visit, without a permission from before."""
    return world.register(state.begin_turn(a_driver(), ""))


@pytest.mark.parametrize("me", [ME, f"{ME}/heir"])
def test_what_ends_is_signed_off_by_whom_it_is_marked(me: str) -> None:
    """By itself, and by one that began in its place."""
    world = World(ENDING)

    state, finish = visit(world, known(me=me))

    assert ["ReadRecord", "WriteStatus"] == world.kinds
    assert SIGNED_OFF == world.stored.status.ensuring
    assert world.stored.is_settled
    assert state.is_over
    assert Finish() == finish


def test_own_create_is_signed_off_without_a_mark() -> None:
    """The claim is as good as one."""
    world = World(a_record(deleting=True))

    visit(world, known(claimed=1))

    assert SIGNED_OFF == world.stored.status.ensuring


def test_own_create_that_is_settled_needs_no_word() -> None:
    """The deregistrar expects no ensure of it anyhow."""
    record = a_record(registered=True, deleting=True)

    assert rest_to_sign_off(known(claimed=1), record, at(0.0)) is None


@pytest.mark.parametrize(
    "memory",
    [
        {"uncertain_call": UncertainCall(1, OUT_UNTIL)},
        {"uncertain_call": UncertainCall(1, 20.0), "stale_until": OUT_UNTIL},
        {"running_until": OUT_UNTIL},
        {"uncertain_call": UncertainCall(1, 20.0), "running_until": OUT_UNTIL},
    ],
    ids=["without an answer", "an older one", "running", "both"],
)
def test_signing_off_waits_for_ensures_that_may_be_out(
    memory: dict[str, Any],
) -> None:
    """Until then the deregistrar has to expect them (w53, w63)."""
    world = World(ENDING, monotonic=10.0)

    state, finish = visit(world, known(**memory))
    assert ME == world.stored.status.ensuring
    assert Finish(seconds(20)) == finish

    world.monotonic += 20
    visit(world, state)
    assert SIGNED_OFF == world.stored.status.ensuring


@pytest.mark.parametrize(
    "record",
    [
        a_record(ensuring=ME),
        a_record(ensuring="*", deleting=True),
        a_record(ensuring="you", deleting=True),
        a_record(ensuring="you/me", deleting=True),
        a_record(deleting=True),
        a_record(registered=True, deleting=True),
        a_record(ensuring=ME, deleting=True, spec=a_spec(ensure_policy=ALWAYS)),
        a_record(ensuring=ME, deleting=True, spec=a_spec(address="")),
        a_record(ensuring=SIGNED_OFF, deleting=True),
    ],
    ids=[
        "live",
        "anybody's",
        "another's",
        "another line's",
        "nobody's",
        "settled",
        "policy Always",
        "without an address",
        "signed off",
    ],
)
def test_nothing_else_is_signed_off(record: BackendRecord) -> None:
    """Others may have ensures out, or there is nothing to say (w54)."""
    assert rest_to_sign_off(known(), record, at(0.0)) is None


def test_policy_always_is_never_signed_off() -> None:
    """Others ensure such a record without a mark."""
    spec = a_spec(ensure_policy=ALWAYS)

    assert not a_record(ensuring=SIGNED_OFF, deleting=True, spec=spec).is_settled


@pytest.mark.parametrize(
    ("answers", "out_until"),
    [
        ([StillRunning("busy")], SETTLING),
        ([StillRunning("busy"), Succeeded()], 0),
        ([LOST], SETTLING),
    ],
    ids=["running", "running to the end", "without an answer"],
)
def test_state_tells_until_when_an_ensure_is_out(
    answers: list[Reply], out_until: float
) -> None:
    """Δ from an answer that leaves one out; a success ends one that was running."""
    world = World(a_record())
    world.answers.extend(answers)

    state = known(claimed=1)
    for _ in answers:
        state, _ = visit(world, state)

    assert out_until == state.out_until


def test_record_that_ends_during_an_ensure_is_signed_off_in_the_same_turn() -> None:
    """Its success cannot be written: the read after that shows the end."""

    def end(world: World, step: Step) -> None:
        if isinstance(step, WriteStatus) and not world.stored.is_deleting:
            world.record = a_record(deleting=True, version=9)

    world = World(a_record(), before=end)

    visit(world, known(claimed=1))

    assert SIGNED_OFF == world.stored.status.ensuring
