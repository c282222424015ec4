"""A load balancer of a Bind as its life sees it, and how the Bind's status tells of that.

The conditions and reasons are those that LBCF in Go gave to `loadBalancerStatuses`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import attrs

from lbcf.core.lifecycle import locking
from lbcf.core.lifecycle.load_balancer_steps import (
    Begun,
    Blocked,
    CallFailed,
    Counted,
    Created,
    CreationUnclear,
    Ensured,
    InUse,
    Locked,
    Observation,
    Outcome,
)
from lbcf.core.lifecycle.steps import CallFailure, CallRefused, NoAnswer, StillRunning
from lbcf.core.model import conditions
from lbcf.core.model.binds import Bind, EntryStatus, as_load_balancer
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.reasons import Explanation, Reason


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


def observe_entry(
    bind: Bind,
    status: EntryStatus,
    driver: LoadBalancerDriver | Explanation,
    *,
    now: datetime,
) -> Observation:
    """Put together what the life of one load balancer of a Bind depends on.

    Args:
        bind: as it was read.
        status: of its load balancer.
        driver: of that, or why there is none.
        now: wall clock.
    """
    balancer = as_load_balancer(bind, status)
    entry = bind.entry(status.name)
    wanted = entry.attributes if entry else {}
    # LBCF in Go leaves attributes out where there are none.
    is_applied = wanted == (status.synced or {})
    return Observation(
        balancer,
        driver,
        attributes=wanted,
        applied=balancer.attributes,
        is_synced=is_applied and status.is_ready and status.info is not None,
        may_exist=status.may_exist,
        rest=rest_of(status, now),
        abandoned=bind.meta.abandoned if bind.is_deleting else "",
        is_entry=True,
    )


def rest_of(status: EntryStatus, now: datetime) -> timedelta:
    """Return how long its driver is not to be asked.

    A moment further away than any pause is one of a clock that was ahead: nobody waits
    for it, and asking writes down another one.
    """
    if status.retry_after is None:
        return timedelta(0)
    rest = max(status.retry_after - now, timedelta(0))
    return rest if rest <= _LONGEST_REST else timedelta(0)


def with_outcome(
    status: EntryStatus,
    outcome: Outcome,
    now: datetime,
    generation: int = 0,
    shared: Sequence[str] = (),
) -> EntryStatus:
    """Put what was learnt into the status of a load balancer of a Bind.

    Args:
        status: as it is.
        outcome: what was learnt.
        now: when that was.
        generation: of the Bind; where a driver answers that it has not created one that
            it was asked for, this is the mark that it may have begun.
        shared: lock keys of all that are the same load balancer to its driver.
    """
    match outcome:
        case Created(identity=identity, lock_key=key):
            keys = locking.with_key(status.lock_keys, key, shared)
            status = attrs.evolve(
                status, info=dict(identity), lock_keys=keys, retry_after=None
            )
            status = _with(
                status, Condition(conditions.CREATED, True, Reason.CREATED), now
            )
            return _with(status, _ENSURED_NEXT, now)
        case Ensured(attributes=attributes):
            status = attrs.evolve(status, synced=dict(attributes), retry_after=None)
            return _with(status, Condition(conditions.READY, True, Reason.READY), now)
        case CallFailed():
            status = attrs.evolve(status, retry_after=now + outcome.pause)
            return _with(status, _failed(status, outcome, generation), now)
        case Locked(key):
            keys = locking.with_key(status.lock_keys, key, shared)
            return attrs.evolve(status, lock_keys=keys)
        case Counted():
            return status  # there is no place for it
        case Begun() | InUse() | CreationUnclear() | Blocked():
            return _with(status, _waiting(status, outcome), now)


_ENSURED_NEXT = Condition(
    conditions.READY,
    False,
    Reason.ENSURING,
    "the driver has not given it its attributes yet",
)


def _waiting(
    status: EntryStatus, outcome: Begun | InUse | CreationUnclear | Blocked
) -> Condition:
    """Return the condition that reports what is waited for."""
    match outcome:
        case Begun():
            message = "the driver is asked to create it; it may be there already"
            return Condition(conditions.CREATED, None, Reason.CREATING, message)
        case InUse():
            message = "taken out; its BackendRecords end first"
            return Condition(conditions.READY, False, Reason.IN_USE, message)
        case CreationUnclear():
            message = (
                "taken out; createLoadBalancer may still take effect, and "
                "deleteLoadBalancer follows when it no longer can"
            )
            return Condition(conditions.READY, False, Reason.CREATION_UNCLEAR, message)
        case Blocked(why=why):
            is_created = status.info is not None
            kind = conditions.READY if is_created else conditions.CREATED
            return Condition(kind, _standing(status, kind), why.reason, why.message)


def _standing(status: EntryStatus, kind: str) -> bool | None:
    """Return the status of a condition that tells of trouble; None: nobody knows."""
    return None if kind == conditions.CREATED and status.may_exist else False


def _failed(status: EntryStatus, failed: CallFailed, generation: int) -> Condition:
    """Return the condition that reports a call without success.

    Of one that has answered createLoadBalancer Created is False, as LBCF shows it.
    """
    is_creation = failed.operation is Operation.CREATE_LOAD_BALANCER
    kind = conditions.CREATED if is_creation else conditions.READY
    no_answer = isinstance(failed.trouble, NoAnswer)
    return Condition(
        kind,
        _standing(status, kind) if no_answer else False,
        _reason(failed.operation, failed.trouble),
        failed.why.message,
        generation if is_creation and status.may_exist else 0,
    )


def _reason(operation: Operation, trouble: CallFailure) -> Reason:
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


def _with(status: EntryStatus, condition: Condition, now: datetime) -> EntryStatus:
    """Set one condition."""
    found = conditions.with_condition(status.conditions, condition, now)
    return attrs.evolve(status, conditions=found)


def without_entry(_status: EntryStatus) -> None:
    """Take a load balancer out that is gone."""


def with_news(
    status: EntryStatus,
    *,
    news: Iterable[Condition],
    epoch: str | None,
    now: datetime,
) -> EntryStatus:
    """Note what was found out beside its life.

    Args:
        status: as it is.
        news: conditions.
        epoch: in which all records are in, or written down as lost, as the driver says
            it; None: it is the same as before.
        now: when that was.
    """
    for condition in news:
        status = _with(status, condition, now)
    return status if epoch is None else attrs.evolve(status, epoch=epoch)


def changed(
    statuses: Iterable[EntryStatus], changes: Mapping[str, Change]
) -> tuple[EntryStatus, ...]:
    """Put what was learnt into the statuses; who is gone is left out."""
    found = (
        changes[status.name](status) if status.name in changes else status
        for status in statuses
    )
    return tuple(status for status in found if status is not None)
