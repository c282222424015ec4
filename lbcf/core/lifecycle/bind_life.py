"""The life of one load balancer of a Bind: what its driver is asked next, and learnt.

Before it: `lbcf.core.model.binds.recorded` has put it into the status. After it:
`lbcf.controller.binds` asks the driver and writes down what is said here of the answer.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

import attrs

from lbcf.core.lifecycle import locking
from lbcf.core.lifecycle.steps import CallRefused, NoAnswer, StillRunning
from lbcf.core.model import conditions
from lbcf.core.model.binds import Bind, EntryStatus
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.reasons import Reason


_NO_ANSWER_OF_A_DRIVER = frozenset(
    {
        Reason.DRIVER_BAD_ANSWER,
        Reason.DRIVER_ANSWER_TOO_LARGE,
        Reason.DRIVER_BAD_STATUS,
        Reason.DRIVER_REDIRECTED,
    }
)
_REASONS = {
    Operation.CREATE_LOAD_BALANCER: (Reason.CREATING, Reason.CREATE_FAILED),
    Operation.ENSURE_LOAD_BALANCER: (Reason.ENSURING, Reason.ENSURE_FAILED),
    Operation.DELETE_LOAD_BALANCER: (Reason.DELETING, Reason.DELETE_FAILED),
}

_LONGEST_REST = timedelta(hours=1, minutes=1)
"""A driver may wish for an hour; the rest is for chance, and for what clocks differ by."""

Change = Callable[[EntryStatus], EntryStatus | None]
"""What was learnt of one load balancer; None as the answer: it is gone."""
Trouble = CallRefused | StillRunning | NoAnswer


def next_operation(
    bind: Bind, status: EntryStatus, *, in_use: bool
) -> Operation | None:
    """Say what its driver is to be asked next, None: nothing now."""
    if bind.is_leaving(status):
        waits = in_use or not status.may_exist
        return None if waits else Operation.DELETE_LOAD_BALANCER
    if status.info is None:
        return Operation.CREATE_LOAD_BALANCER
    entry = bind.entry(status.name)
    wanted = entry.attributes if entry else {}
    # LBCF in Go leaves attributes out where there are none.
    same = wanted == (status.synced or {}) and (
        status.synced is not None or status.is_ready
    )
    return None if same and status.is_ready else Operation.ENSURE_LOAD_BALANCER


def rest_of(status: EntryStatus, now: datetime) -> timedelta:
    """Say how long its driver is not to be asked.

    A moment further away than any pause is one of a clock that was ahead: nobody waits
    for it, and asking writes down another one.
    """
    if status.retry_after is None:
        return timedelta(0)
    rest = max(status.retry_after - now, timedelta(0))
    return rest if rest <= _LONGEST_REST else timedelta(0)


def begun(status: EntryStatus, *, now: datetime) -> EntryStatus:
    """Note that its driver is about to create it for the first time."""
    message = "the driver is asked to create it; it may be there already"
    return _told(
        status, Condition(conditions.CREATED, None, Reason.CREATING, message), now
    )


def unclear(status: EntryStatus, *, now: datetime) -> EntryStatus:
    """Note that a createLoadBalancer without an answer may still take effect."""
    message = (
        "taken out; createLoadBalancer may still take effect, and deleteLoadBalancer "
        "follows when it no longer can"
    )
    new = Condition(conditions.READY, False, Reason.CREATION_UNCLEAR, message)
    return _told(status, new, now)


def created(
    status: EntryStatus, *, identity: Mapping[str, str], key: str, now: datetime
) -> EntryStatus:
    """Note that the driver created it: from now on records may copy its identity."""
    keys = locking.with_key(status.lock_keys, key)
    status = attrs.evolve(status, info=dict(identity), lock_keys=keys, retry_after=None)
    status = _told(status, Condition(conditions.CREATED, True, Reason.CREATED, ""), now)
    message = "the driver has not given it its attributes yet"
    return _told(
        status, Condition(conditions.READY, False, Reason.ENSURING, message), now
    )


def ensured(
    status: EntryStatus, *, attributes: Mapping[str, str], key: str, now: datetime
) -> EntryStatus:
    """Note that the driver gave it its attributes."""
    keys = locking.with_key(status.lock_keys, key)
    status = attrs.evolve(
        status, synced=dict(attributes), lock_keys=keys, retry_after=None
    )
    return _told(status, Condition(conditions.READY, True, Reason.READY, ""), now)


def gone(_status: EntryStatus) -> None:
    """Note that it is gone."""


def waiting(status: EntryStatus, *, now: datetime) -> EntryStatus:
    """Note that records still need what was taken out."""
    message = "taken out; its BackendRecords end first"
    return _told(
        status, Condition(conditions.READY, False, Reason.IN_USE, message), now
    )


def without_driver(
    status: EntryStatus, *, reason: Reason, message: str, now: datetime
) -> EntryStatus:
    """Note that nobody can be asked."""
    kind = conditions.READY if status.info is not None else conditions.CREATED
    standing = _standing(status, kind)
    return _told(status, Condition(kind, standing, reason, message), now)


def _standing(status: EntryStatus, kind: str) -> bool | None:
    """Say what a condition is that tells of trouble; None: nobody knows."""
    return None if kind == conditions.CREATED and status.may_exist else False


def troubled(
    status: EntryStatus,
    *,
    operation: Operation,
    trouble: Trouble,
    message: str,
    pause: timedelta,
    generation: int,
    now: datetime,
) -> EntryStatus:
    """Note that the driver did not succeed, and when it is asked again.

    A driver that has answered createLoadBalancer says that it is not created, as LBCF
    shows it; the generation is the mark that it was asked, and may have begun.
    """
    is_creation = operation is Operation.CREATE_LOAD_BALANCER
    kind = conditions.CREATED if is_creation else conditions.READY
    may_exist = is_creation and status.may_exist
    standing = False if not isinstance(trouble, NoAnswer) else _standing(status, kind)
    status = attrs.evolve(status, retry_after=now + pause)
    new = Condition(
        kind,
        standing,
        _reason(operation, trouble),
        message,
        generation if may_exist else 0,
    )
    return _told(status, new, now)


def _reason(operation: Operation, trouble: Trouble) -> Reason:
    """Name what went wrong as LBCF does."""
    running, failed = _REASONS[operation]
    match trouble:
        case StillRunning():
            return running
        case CallRefused():
            return failed
        case NoAnswer(reason=reason):
            is_answer = reason in _NO_ANSWER_OF_A_DRIVER
            return Reason.INVALID_RESPONSE if is_answer else Reason.WEBHOOK_ERROR


def _told(status: EntryStatus, condition: Condition, now: datetime) -> EntryStatus:
    """Set one condition."""
    found = conditions.with_condition(status.conditions, condition, now)
    return attrs.evolve(status, conditions=found)


def with_condition(
    status: EntryStatus, *, condition: Condition, now: datetime
) -> EntryStatus:
    """Note what was found out beside its life."""
    return _told(status, condition, now)


def changed(
    statuses: Iterable[EntryStatus], changes: Mapping[str, Change]
) -> tuple[EntryStatus, ...]:
    """Put what was learnt into the statuses; who is gone is left out."""
    found = (
        changes[status.name](status) if status.name in changes else status
        for status in statuses
    )
    return tuple(status for status in found if status is not None)


def with_epoch(status: EntryStatus, *, epoch: str) -> EntryStatus:
    """Note the epoch in which all records are in, or written down as lost."""
    return attrs.evolve(status, epoch=epoch)
