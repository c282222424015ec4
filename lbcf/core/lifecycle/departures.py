"""Says how a registration ended, by the last that was seen of its record.

The deregistrar, which knows, writes nothing when a record ends: the finalizer goes, and
the object with it. The watch tells the state before that, and this is what it allows to
say. A clock is the best evidence of a drain: what was deregistered before its deadline
was drained, since nothing else ends a drain early.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.departures import Departure, Outcome
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    BackendRecord,
    DrainProgress,
    LoadBalancerDriver,
    backend_name,
)
from lbcf.core.reasons import ConditionReason, Explanation, Reason


MOST = 20
"""Departures that a group remembers."""
KEPT = timedelta(days=1)
"""For how long."""

_ROUNDING = timedelta(seconds=2)
"""A deadline is written up to a second late, and a condition's time up to one early."""
_PROMPT = timedelta(seconds=15)
"""Who is gone so soon after its deadline was deregistered at it. Later nobody knows: its
drain may have ended in time, and the call that came next have waited for its place."""
_UNFINISHED = frozenset({Outcome.CUT, Outcome.BACKEND_GONE})
"""How a drain ends that connections may have been left of."""
_NO_CALL = frozenset({Reason.DRIVER_NOT_FOUND, Reason.DRIVER_UNREADABLE})
"""Reasons of Deregistered that are written during a drain as well."""


def departure_of(
    record: BackendRecord,
    driver: LoadBalancerDriver | None,
    reason: ConditionReason | None,
    gone_at: datetime,
) -> Departure:
    """Return what is to be remembered of a record that is gone.

    Args:
        record: as it was last seen.
        driver: its driver, None where there is none any more.
        reason: why it was deleted; None: not known.
        gone_at: when it was seen to be gone.
    """
    outcome = _outcome(record, driver, gone_at)
    drain = record.status.drain
    return Departure(
        backend_name(record.spec.backend),
        record.spec.load_balancer,
        record.meta.key.name,
        gone_at.replace(microsecond=0),
        outcome,
        reason,
        drain.connections if drain and outcome in _UNFINISHED else None,
    )


def _outcome(
    record: BackendRecord, driver: LoadBalancerDriver | None, gone_at: datetime
) -> Outcome:
    """Return how a registration ended."""
    if record.meta.abandoned:
        return Outcome.ABANDONED
    if not record.is_deleting:
        # Its end was overlooked, or somebody took the finalizer off first.
        return Outcome.UNKNOWN
    if not record.address:
        return Outcome.NEVER_REGISTERED
    if record.status.backend_gone:
        return Outcome.BACKEND_GONE
    if not record.spec.drain.enabled:
        return Outcome.NOT_DRAINED
    if record.status.drain is not None:
        return _end_of_wait(record, record.status.drain, gone_at)
    if driver is None:
        return Outcome.UNKNOWN
    # A drain is written down as soon as it has to wait: this one had not to.
    drains = driver.declares(Operation.DRAIN_BACKEND)
    return Outcome.DRAINED if drains else Outcome.NOT_DRAINED


def _end_of_wait(
    record: BackendRecord, drain: DrainProgress, gone_at: datetime
) -> Outcome:
    """Return how a drain ended that had to wait."""
    told = conditions.find(record.status.conditions, conditions.DEREGISTERED)
    ended = gone_at
    if told is not None and told.since is not None and told.reason not in _NO_CALL:
        # A deregistration that failed, or is to be confirmed, was sent after the drain.
        ended = told.since
    past = ended - drain.deadline
    if past < -_ROUNDING:
        return Outcome.DRAINED
    return Outcome.CUT if past <= _PROMPT else Outcome.UNKNOWN


def with_departures(
    told: Iterable[Departure], new: Iterable[Departure], now: datetime
) -> tuple[Departure, ...]:
    """Return what a group is to remember: newest first, each once, none over a day old.

    Args:
        told: what it remembers already.
        new: what has ended since, some of which may be told already.
        now: the moment.
    """
    both = recent(dict.fromkeys((*new, *told)), now)
    return tuple(sorted(both, key=lambda one: one.time, reverse=True)[:MOST])


def recent(told: Iterable[Departure], now: datetime) -> tuple[Departure, ...]:
    """Return the departures that are not over a day old, in their order."""
    return tuple(one for one in told if now - one.time <= KEPT)


def cut_condition(
    departed: Iterable[Departure], *, is_told: bool, generation: int
) -> Condition | None:
    """Return the condition DrainsCut of a group; None: there never was anything to say.

    Args:
        departed: what the group remembers, newest first.
        is_told: the group has the condition already.
        generation: of the group.
    """
    cut = [one for one in departed if one.outcome is Outcome.CUT]
    if cut:
        last = cut[0]
        left = "not told" if last.connections is None else last.connections
        message = (
            f"drains that were cut at their deadline: {len(cut)} of the departures in "
            f"status.departed; the last one: {last.backend} at {last.load_balancer}, "
            f"{last.time:%Y-%m-%d %H:%M:%S} UTC, connections left: {left}"
        )
        why = Explanation(Reason.CUT_AT_DEADLINE, message)
    elif is_told:
        message = "none of the departures in status.departed was cut"
        why = Explanation(Reason.DRAINED_IN_TIME, message)
    else:
        return None
    return Condition(
        conditions.DRAINS_CUT, bool(cut), why.reason, why.message, generation
    )
