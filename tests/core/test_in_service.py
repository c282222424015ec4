"""What a load balancer says of its members, and what is told of it."""

from datetime import timedelta

import attrs
import pytest

from lbcf.core.lifecycle.in_service import (
    GRACE,
    Told,
    in_service,
    is_new,
    said_of,
    with_in_service,
    words_of,
)
from lbcf.core.lifecycle.serving import count_in_service
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.values import MemberKey
from lbcf.core.reasons import Reason
from tests.builders import START, a_record


RECORD = a_record(registered=True)
ADDRESS = "10.0.0.1:8080"


@pytest.mark.parametrize(
    ("listed", "member_key", "word"),
    [
        pytest.param((ADDRESS, "uid-web-1", "DOWN"), MemberKey.RECORD, "DOWN", id="id"),
        pytest.param((ADDRESS, "", "DOWN"), MemberKey.RECORD, "DOWN", id="address"),
        pytest.param((ADDRESS, "else", "DOWN"), MemberKey.RECORD, None, id="another's"),
        pytest.param((ADDRESS, "else", "DOWN"), MemberKey.ADDRESS, "DOWN", id="by key"),
        pytest.param((ADDRESS, "uid-web-1", ""), MemberKey.RECORD, "", id="in service"),
        pytest.param(("10.0.0.2:80", "", "DOWN"), MemberKey.RECORD, None, id="absent"),
    ],
)
def test_word_is_that_of_the_records_own_member(
    listed: Told, member_key: MemberKey, word: str | None
) -> None:
    """Found by what its driver tells members apart by; of who is absent nothing is said."""
    assert word == words_of([RECORD], [listed], member_key).get(RECORD.meta.uid)


@pytest.mark.parametrize(
    ("word", "status", "reason"),
    [
        ("MAINT", False, Reason.MEMBER_DOWN),
        ("", True, Reason.IN_SERVICE),
        (None, None, Reason.NOT_LISTED),
    ],
)
def test_condition_has_the_load_balancers_own_word(
    word: str | None, status: bool | None, reason: Reason
) -> None:
    """And says of which load balancer."""
    told = in_service(RECORD, word)

    assert (status, reason) == (told.status, told.reason)
    assert (word or RECORD.spec.load_balancer) in told.message
    assert RECORD.spec.load_balancer in told.message


def test_condition_stands_before_those_that_tell_how_far_a_record_is() -> None:
    """The last one is what `kubectl get br` shows the reason of."""
    down = with_in_service(RECORD, in_service(RECORD, "DOWN"), START)
    up = with_in_service(down, in_service(down, ""), START)

    for record in (down, up):
        kinds = [one.type for one in record.status.conditions]
        assert [conditions.IN_SERVICE, conditions.REGISTERED] == kinds
    said = said_of(up)
    assert said is not None
    assert said.status is True


def test_new_member_may_wait_for_its_first_checks() -> None:
    """For half a minute from its registration."""
    found = RECORD.status.conditions
    at = tuple(attrs.evolve(one, since=START) for one in found)
    record = attrs.evolve(RECORD, status=attrs.evolve(RECORD.status, conditions=at))

    assert is_new(record, START)
    assert is_new(record, START + GRACE - timedelta(seconds=1))
    assert not is_new(record, START + GRACE)
    # Its process' clock was set back since.
    assert not is_new(record, START - timedelta(minutes=1))


@pytest.mark.parametrize(("word", "count"), [("DOWN", 0), ("", 1), (None, 1)])
def test_member_that_nobody_lists_is_not_counted_as_down(
    word: str | None, count: int
) -> None:
    """It may be behind another load balancer of its group, which lists none."""
    told = with_in_service(RECORD, in_service(RECORD, word), START)

    assert count == count_in_service([told])


def test_condition_stands_before_all_others() -> None:
    """However many there are, in the order that they had."""
    drained = Condition(conditions.DRAINED, False, Reason.DRAINING)
    found = (*RECORD.status.conditions, drained)
    record = attrs.evolve(RECORD, status=attrs.evolve(RECORD.status, conditions=found))

    told = with_in_service(record, in_service(record, ""), START).status.conditions

    assert [conditions.IN_SERVICE, conditions.REGISTERED, conditions.DRAINED] == [
        one.type for one in told
    ]
