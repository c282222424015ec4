"""Which changes of conditions are told at once."""

import attrs
import pytest

from lbcf.core.lifecycle.trouble import new_trouble, with_refusal
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import RecordStatus
from lbcf.core.reasons import Reason
from tests.builders import START, a_record


KINDS = frozenset({"Registered", "Created"})
FAILED = Condition("Registered", False, Reason.DRIVER_REFUSED, "no")
UNCREATED = Condition("Created", None, Reason.DRIVER_REFUSED, "no quota", 1)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param((), id="nothing was said"),
        pytest.param(
            (attrs.evolve(FAILED, status=True, reason=Reason.REGISTERED),), id="good"
        ),
        pytest.param(
            (attrs.evolve(FAILED, reason=Reason.DRIVER_TIMED_OUT),), id="other"
        ),
    ],
)
def test_new_trouble_is_told(before: tuple[Condition, ...]) -> None:
    """Also when one trouble turns into another."""
    assert FAILED == new_trouble(before, (FAILED,), KINDS)


@pytest.mark.parametrize("status", [True, False, None])
def test_failed_creation_is_told_whatever_is_known_of_the_load_balancer(
    status: bool | None,
) -> None:
    """The failure is in the reason: True while it is to be deleted, Unknown before."""
    failed = attrs.evolve(UNCREATED, status=status)
    begun = attrs.evolve(UNCREATED, reason=Reason.CREATING)

    assert failed == new_trouble((begun,), (failed,), KINDS)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((FAILED,), (), id="it is not said any more"),
        pytest.param(
            (FAILED,), (attrs.evolve(FAILED, message="again"),), id="same reason"
        ),
        pytest.param((), (attrs.evolve(FAILED, type="Drained"),), id="other kind"),
        pytest.param((), (attrs.evolve(FAILED, status=None),), id="unknown"),
        pytest.param(
            (), (attrs.evolve(FAILED, reason=Reason.DRIVER_RUNNING),), id="in order"
        ),
        pytest.param(
            (),
            (attrs.evolve(FAILED, reason=Reason.ADDRESS_NOT_FREE_YET),),
            id="a pod came back at its address",
        ),
        pytest.param(
            (), (attrs.evolve(UNCREATED, reason=Reason.CREATING),), id="being created"
        ),
        pytest.param(
            (),
            (attrs.evolve(UNCREATED, status=True, observed_generation=0),),
            id="written by LBCF in Go",
        ),
    ],
)
def test_everything_else_is_no_news(
    before: tuple[Condition, ...], after: tuple[Condition, ...]
) -> None:
    """Events are for what somebody should look at."""
    assert None is new_trouble(before, after, KINDS)


@pytest.mark.parametrize("deleting", [False, True])
def test_refusal_keeps_what_its_condition_says(*, deleting: bool) -> None:
    """Status and generation; and it is written once."""
    kind = "Deregistered" if deleting else "Registered"
    record = a_record(deleting=deleting, generation=3)
    said = attrs.evolve(FAILED, type=kind, status=None, observed_generation=2)
    told = attrs.evolve(record, status=RecordStatus(conditions=(said,)))

    [new] = with_refusal(record, "too long", START).conditions
    [kept] = with_refusal(told, "too long", START).conditions

    assert (kind, False) == (new.type, new.status)
    assert record.meta.generation == new.observed_generation
    assert (kind, None, 2) == (kept.type, kept.status, kept.observed_generation)
    refused = attrs.evolve(told, status=RecordStatus(conditions=(kept,)))
    assert refused.status is with_refusal(refused, "too long", START)


def test_each_condition_may_be_the_news() -> None:
    """Also one behind another that is in order."""
    fine = Condition("Drained", True, Reason.REGISTERED)

    assert FAILED == new_trouble((), (fine, FAILED), KINDS)
