"""Which registered members are missing, and what is told of it."""

import attrs
import pytest

from lbcf.core.lifecycle.listing import can_drift, drift_of, missing_members
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import Listed, MemberKey
from lbcf.core.reasons import Reason
from tests.builders import a_load_balancer, a_record


RECORD = a_record(registered=True)
ADDRESS = "10.0.0.1:8080"


@pytest.mark.parametrize(
    ("listed", "is_there"),
    [
        pytest.param([(ADDRESS, "uid-web-1")], True, id="by its record"),
        pytest.param([("else", "uid-web-1")], True, id="its record alone counts"),
        pytest.param([(ADDRESS, "")], True, id="by its address"),
        pytest.param([(ADDRESS, "other")], False, id="another record's member"),
        pytest.param([("10.0.0.2:80", "")], False, id="another address"),
        pytest.param([], False, id="nothing at all"),
    ],
)
def test_member_is_found_by_what_its_driver_says(
    listed: list[Listed], is_there: bool
) -> None:
    """The record's id goes first; the address counts where that is unknown."""
    missing = missing_members([RECORD], listed, MemberKey.RECORD)

    assert is_there is (missing == ())


def test_member_known_by_its_address_is_found_by_that() -> None:
    """The driver may have it from an earlier record, and its id still."""
    listed = [(ADDRESS, "uid-earlier")]

    assert () == missing_members([RECORD], listed, MemberKey.ADDRESS)


def test_id_does_not_count_where_members_are_known_by_address() -> None:
    """A member of the record at another address is not the one that is missed."""
    listed = [("10.0.0.2:80", "uid-web-1")]

    assert (RECORD,) == missing_members([RECORD], listed, MemberKey.ADDRESS)


@pytest.mark.parametrize(
    "record",
    [a_record(), a_record(registered=True, deleting=True)],
)
def test_member_that_need_not_be_there_cannot_be_missed(record: BackendRecord) -> None:
    """Before the registration, and from the deletion on."""
    assert can_drift(RECORD)
    assert not can_drift(record)


def test_message_names_the_first_few() -> None:
    """And says what brings them back."""
    records = tuple(a_record(f"web-{n}", registered=True) for n in range(5))

    told = drift_of(a_load_balancer(), records)

    assert told is not None
    assert (True, Reason.MEMBERS_MISSING) == (told.status, told.reason)
    assert "5 registered members" in told.message
    assert "of shop/web-0" in told.message
    assert "and 2 more; ensurePolicy Always puts them back" in told.message


def test_nothing_is_told_before_the_first_time() -> None:
    """A load balancer that never drifted costs no write."""
    drifted = Condition(conditions.DRIFTED, True, Reason.MEMBERS_MISSING)
    before = attrs.evolve(a_load_balancer(), conditions=(drifted,))

    assert None is drift_of(a_load_balancer(), ())
    told = drift_of(before, ())
    assert told is not None
    assert (False, Reason.IN_STEP) == (told.status, told.reason)
