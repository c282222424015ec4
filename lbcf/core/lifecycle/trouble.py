"""Which conditions are problems, of which an Event and a log line tell at once."""

from datetime import datetime

import attrs

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord, RecordStatus
from lbcf.core.reasons import Reason


_IN_ORDER = frozenset(
    {
        Reason.DRAINING,
        Reason.WAITING_TO_CONFIRM,
        Reason.ADDRESS_NOT_FREE_YET,
        Reason.DRIVER_RUNNING,
        Reason.LOAD_BALANCER_RESET,
        Reason.CREATING,
        Reason.ENSURING,
        Reason.IN_USE,
        Reason.DELETING,
    }
)
"""Reasons that a healthy record or load balancer has while it is not done."""


_CREATED_WELL = frozenset({"", Reason.CREATED, Reason.CREATION_UNCLEAR})
"""Reasons of Created that are no failure."""


def with_refusal(record: BackendRecord, said: str, now: datetime) -> RecordStatus:
    """Return the status of a record with the reason why its last status was refused.

    The condition keeps its status: that a write was refused does not change what is
    registered.
    """
    kind = conditions.DEREGISTERED if record.is_deleting else conditions.REGISTERED
    old = conditions.find(record.status.conditions, kind)
    refused = Condition(
        kind,
        False if old is None else old.status,
        Reason.STATUS_REFUSED,
        f"the API server refuses to store what is known of this record: {said}",
        record.meta.generation if old is None else old.observed_generation,
    )
    if refused.says_the_same(old):
        return record.status
    found = conditions.with_condition(record.status.conditions, refused, now)
    return attrs.evolve(record.status, conditions=found)


def is_trouble(condition: Condition) -> bool:
    """Return whether a condition is False for a reason that no healthy object has."""
    return condition.status is False and condition.reason not in _IN_ORDER


def is_failed_creation(created: Condition) -> bool:
    """Return whether the condition Created of a load balancer tells a failure.

    It is Unknown from the first call on, and True while the deletion is tried: the failure
    is in its reason. Those that LBCF in Go wrote have no generation.
    """
    is_ours = created.status is not True or bool(created.observed_generation)
    has_failed = created.reason not in _CREATED_WELL
    return is_ours and has_failed and is_trouble(attrs.evolve(created, status=False))


def _tells_trouble(condition: Condition) -> bool:
    if condition.type == conditions.CREATED:
        return is_failed_creation(condition)
    return is_trouble(condition)


def new_trouble(
    old: tuple[Condition, ...], new: tuple[Condition, ...], kinds: frozenset[str]
) -> Condition | None:
    """Return a condition that has just become a problem, None: there is none.

    Args:
        old: those of an object before a change.
        new: those after it.
        kinds: the types of conditions to look at.
    """
    for condition in new:
        if condition.type not in kinds or not _tells_trouble(condition):
            continue
        before = conditions.find(old, condition.type)
        if before is None or before.reason != condition.reason:
            return condition
    return None
