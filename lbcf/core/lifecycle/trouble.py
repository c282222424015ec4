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
        Reason.DRIVER_RUNNING,
        Reason.LOAD_BALANCER_RESET,
        Reason.CREATING,
        Reason.ENSURING,
        Reason.IN_USE,
        Reason.DELETING,
    }
)
"""Reasons that a healthy record or load balancer has while it is not done."""


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


def new_trouble(
    old: BackendRecord | None, new: BackendRecord | None, kinds: frozenset[str]
) -> Condition | None:
    """Return a condition that has just become a problem, None: there is none.

    Args:
        old: before the change; None is a start, at which nothing is news.
        new: after it.
        kinds: the types of conditions to look at.
    """
    if old is None or new is None:
        return None
    for condition in new.status.conditions:
        if condition.type not in kinds or not is_trouble(condition):
            continue
        before = conditions.find(old.status.conditions, condition.type)
        if before is None or before.reason != condition.reason:
            return condition
    return None
