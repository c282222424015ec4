"""Which changes of a record's conditions people should hear of at once."""

from datetime import datetime

import attrs

from lbcf.core.lifecycle.bind_life import DELETING, ENSURING, IN_USE
from lbcf.core.lifecycle.deregistration import CONFIRMING, DRAINING
from lbcf.core.lifecycle.registration import LOAD_BALANCER_RESET
from lbcf.core.lifecycle.turn import DRIVER_RUNNING
from lbcf.core.model import conditions
from lbcf.core.model.binds import CREATING
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord, RecordStatus


_IN_ORDER = frozenset(
    {
        *(DRAINING, CONFIRMING, DRIVER_RUNNING, LOAD_BALANCER_RESET),
        *(CREATING, ENSURING, IN_USE, DELETING),
    }
)
"""Reasons that belong to a healthy life, of a record or of a load balancer."""


STATUS_REFUSED = "StatusRefused"
"""The API server does not take what is to be said of a record."""


def with_refusal(record: BackendRecord, said: str, now: datetime) -> RecordStatus:
    """Say in a record that its status could not be written, and change nothing else of it.

    Whether it is registered is not touched: that a write was refused says nothing of it.
    """
    kind = conditions.DEREGISTERED if record.is_deleting else conditions.REGISTERED
    old = conditions.find(record.status.conditions, kind)
    told = Condition(
        kind,
        False if old is None else old.status,
        STATUS_REFUSED,
        f"the API server refuses to store what is known of this record: {said}",
        record.meta.generation if old is None else old.observed_generation,
    )
    if told.says_the_same(old):
        return record.status
    found = conditions.with_condition(record.status.conditions, told, now)
    return attrs.evolve(record.status, conditions=found)


def is_trouble(condition: Condition) -> bool:
    """Tell whether a condition says no, for a reason that no healthy life has."""
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
