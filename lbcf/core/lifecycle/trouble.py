"""Which changes of a record's conditions people should hear of at once."""

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
"""Reasons that belong to a healthy life, of a record or of a load balancer."""


def with_refusal(record: BackendRecord, said: str, now: datetime) -> RecordStatus:
    """Say in a record that its status could not be written, and change nothing else of it.

    Whether it is registered is not touched: that a write was refused says nothing of it.
    """
    kind = conditions.DEREGISTERED if record.is_deleting else conditions.REGISTERED
    old = conditions.find(record.status.conditions, kind)
    told = Condition(
        kind,
        False if old is None else old.status,
        Reason.STATUS_REFUSED,
        f"the API server refuses to store what is known of this record: {said}",
        record.meta.generation if old is None else old.observed_generation,
    )
    if told.says_the_same(old):
        return record.status
    found = conditions.with_condition(record.status.conditions, told, now)
    return attrs.evolve(record.status, conditions=found)


def is_trouble(condition: Condition) -> bool:
    """Return whether a condition says no, for a reason that no healthy life has."""
    return condition.status is False and condition.reason not in _IN_ORDER


def new_trouble(
    old: BackendRecord | None, new: BackendRecord | None, kinds: frozenset[str]
) -> Condition | None:
    """Find a condition that has just turned to trouble.

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
