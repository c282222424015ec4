"""Conditions in JSON (metav1.Condition) and back."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from sys import intern

import msgspec

from lbcf.core.model.conditions import Condition
from lbcf.core.reasons import read_reason


_STATUSES = {"True": True, "False": False}


class WireCondition(msgspec.Struct, rename="camel"):
    """One entry of status.conditions; LBCF in Go wrote some fields empty or not at all."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: datetime | None = None


def parse_conditions(found: Sequence[WireCondition] | None) -> tuple[Condition, ...]:
    """Read the conditions of an object."""
    return tuple(
        Condition(
            type=intern(c.type),
            status=_STATUSES.get(c.status),
            reason=read_reason(c.reason),
            message=c.message,
            observed_generation=c.observed_generation,
            since=c.last_transition_time,
        )
        for c in found or ()
    )


def render_conditions(conditions: Iterable[Condition]) -> list[dict[str, object]]:
    """Write the conditions of an object."""
    return [
        {
            "type": c.type,
            "status": "Unknown" if c.status is None else str(c.status),
            "reason": c.reason,
            "message": c.message,
            "observedGeneration": c.observed_generation,
            "lastTransitionTime": render_time(c.since) if c.since else None,
        }
        for c in conditions
    ]


def render_time(moment: datetime) -> str:
    """Write a moment as metav1.Time: RFC 3339, UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def render_time_after(moment: datetime) -> str:
    """Write a moment that is waited for: the first whole second that is not before it."""
    return render_time(moment + timedelta(seconds=1, microseconds=-1))
