"""Conditions in the Kubernetes sense: what they are and how they change.

`lastTransitionTime` moves only when the status does (Kubernetes API conventions).
"""

from datetime import datetime

import attrs

from lbcf.core.reasons import ConditionReason


REGISTERED = "Registered"
DRAINED = "Drained"
DEREGISTERED = "Deregistered"
CREATED = "Created"
ATTRIBUTES_SYNCED = "AttributesSynced"
DRIFTED = "Drifted"
REACHABLE = "Reachable"
RESTORED = "Restored"
ORPHANED = "Orphaned"
IN_SERVICE = "InService"
READY = "Ready"
REMOVALS_HELD = "RemovalsHeld"
DRAINED_BY_HAND = "DrainedByHand"
LOAD_BALANCER_READY = "LoadBalancerReady"
DRAIN_GATED = "DrainGated"
SERVING = "Serving"
DRAINS_CUT = "DrainsCut"
ACCEPTED = "Accepted"
HEALTHY = "Healthy"

_MESSAGE_LIMIT = 1024


@attrs.frozen
class Condition:
    """One condition of an object.

    Attributes:
        type: what it is about, such as `Registered`.
        status: True, False, or None where it is not known.
        reason: a CamelCase word that people and alerts look for.
        message: the sentence for people.
        observed_generation: the spec that it speaks of.
        since: when the status last changed.
    """

    type: str
    status: bool | None
    reason: ConditionReason
    message: str = ""
    observed_generation: int = 0
    since: datetime | None = None

    def says_the_same(self, other: "Condition | None") -> bool:
        """Return whether writing this over `other` would change nothing but the time."""
        return other is not None and attrs.evolve(other, since=self.since) == _cut(self)


def _cut(condition: Condition) -> Condition:
    return attrs.evolve(condition, message=condition.message[:_MESSAGE_LIMIT])


def find(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """Return the condition of a type, None where it was never set."""
    for condition in conditions:  # asked 100 times for each record: no generator
        if condition.type == kind:
            return condition
    return None


def is_begun(conditions: tuple[Condition, ...]) -> bool:
    """Return whether createLoadBalancer may have been called."""
    # Created is Unknown from before the first call until it is True. Conditions of LBCF in
    # Go have no generation and leave it open.
    created = find(conditions, CREATED)
    if created is None:
        return False
    return created.status is not False or not created.observed_generation


def with_condition(
    conditions: tuple[Condition, ...], new: Condition, now: datetime
) -> tuple[Condition, ...]:
    """Set one condition among the others, keeping their order.

    Its time is that of the last change of its status, but for Restored, which tells of
    the last reset: a new one may begin and end between two writes.
    """
    old = find(conditions, new.type)
    is_same = old is not None and old.status == new.status and new.type != RESTORED
    since = old.since if old is not None and is_same else now
    placed = attrs.evolve(_cut(new), since=since or now)
    if old is None:
        return (*conditions, placed)
    return tuple(placed if c.type == new.type else c for c in conditions)
