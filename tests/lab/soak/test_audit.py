"""The auditor finds what is leaked and what is missing, and excuses nothing else."""

import attrs
import pytest

from tests.lab.demo.proxy import Member, Snapshot
from tests.lab.faults.history import Sight
from tests.lab.soak.audit import leaked, removed


HOST = "127.0.77.2:8080"
RECORD = Sight(0.0, "u1", "web-1", HOST, registered=True)
NEW = attrs.evolve(RECORD, registered=False)
ENDING = attrs.evolve(RECORD, deleting=True)
MEMBER = Member("lbcf-u1", HOST, "no check", 0)
NONE: dict[str, Sight] = {}
ONE = {"u1": RECORD}


def snapshot(*members: Member) -> Snapshot:
    """What HAProxy has."""
    return Snapshot("7", members)


def test_member_of_a_record_is_fine() -> None:
    """It is in, and it is to be in."""
    seen = snapshot(MEMBER)

    assert ({}, {}) == (leaked(ONE, seen, ONE), removed(ONE, seen, ONE))


def test_member_without_a_record_is_leaked() -> None:
    """Neither the list before nor the one after knows its record."""
    assert {"u1": HOST} == leaked(NONE, snapshot(MEMBER), NONE)


@pytest.mark.parametrize(("before", "after"), [(NONE, ONE), (ONE, NONE)])
def test_record_that_comes_or_goes_meanwhile_explains_its_member(
    before: dict[str, Sight], after: dict[str, Sight]
) -> None:
    """One list that knows it is enough."""
    assert {} == leaked(before, snapshot(MEMBER), after)


def test_strangers_are_not_ours_to_judge() -> None:
    """A server that somebody else has put there is no leak."""
    assert {} == leaked(NONE, snapshot(attrs.evolve(MEMBER, name="foreign")), NONE)


@pytest.mark.parametrize("status", ["DRAIN", "MAINT"])
def test_registered_record_whose_member_does_not_serve_was_wronged(status: str) -> None:
    """Drained or disabled counts as removed."""
    assert {"u1": HOST} == removed(ONE, snapshot(), ONE)
    assert {"u1": HOST} == removed(
        ONE, snapshot(attrs.evolve(MEMBER, status=status)), ONE
    )


@pytest.mark.parametrize("other", [NEW, ENDING, None])
def test_record_that_is_not_to_be_in_throughout_is_not_missed(
    other: Sight | None,
) -> None:
    """Not registered yet, ending, or not there, in one of the lists."""
    there = NONE if other is None else {"u1": other}

    assert {} == removed(there, snapshot(), ONE)
    assert {} == removed(ONE, snapshot(), there)
