"""Whether a pod can serve: what its conditions and readiness gates say (KEP-580).

A pod with our readiness gate is not Ready before it is registered. To register it only once
it is Ready would be a deadlock: it can serve once its containers are ready and all other
gates are True.
"""

from collections.abc import Collection, Mapping
from datetime import datetime

import attrs

from lbcf.core.model.cluster import ReadinessGate
from lbcf.core.model.names import READINESS_GATE


_READY = "Ready"
_CONTAINERS_READY = "ContainersReady"
_AWAITS_GATES = "ReadinessGatesNotReady"
"""The kubelet's reason for a Ready that gates alone keep False
(pkg/kubelet/status/generate.go)."""


@attrs.frozen
class PodCondition:
    """One condition of a pod.

    Attributes:
        since: lastTransitionTime, None where unsaid.
    """

    is_true: bool
    reason: str = ""
    since: datetime | None = None


_UNSAID = PodCondition(is_true=False)


def can_serve(conditions: Mapping[str, PodCondition], gates: Collection[str]) -> bool:
    """Return whether a pod may be registered as far as readiness goes.

    Args:
        conditions: of the pod, by type.
        gates: types that its spec.readinessGates name.
    """
    ready = conditions.get(_READY, _UNSAID)
    if ready.is_true or READINESS_GATE not in gates:
        return ready.is_true
    # An open gate is seen by the kubelet some time later. A Ready that the node controller
    # made False, of a node that is lost, keeps another reason.
    if _is_true(conditions, READINESS_GATE) and ready.reason != _AWAITS_GATES:
        return False
    others = (gate for gate in gates if gate != READINESS_GATE)
    return _is_true(conditions, _CONTAINERS_READY) and all(
        _is_true(conditions, gate) for gate in others
    )


def gate_of(
    conditions: Mapping[str, PodCondition], gates: Collection[str]
) -> ReadinessGate | None:
    """Return our readiness gate of a pod; None: its spec names none."""
    if READINESS_GATE not in gates:
        return None
    since = conditions.get(_CONTAINERS_READY, _UNSAID).since
    return ReadinessGate(_is_true(conditions, READINESS_GATE), since)


def _is_true(conditions: Mapping[str, PodCondition], kind: str) -> bool:
    return conditions.get(kind, _UNSAID).is_true
