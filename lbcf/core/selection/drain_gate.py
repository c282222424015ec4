"""Says of a group's pods that wait for their drain whether they wait for long enough.

The pods' annotations, which their admission policy writes (docs/gates.md), say for how long
each waits, and which of its containers do not. The records have the first of them, too.
"""

from collections.abc import Iterable

from lbcf.core.model import conditions
from lbcf.core.model.cluster import Pod
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import ANNOTATION_OWN_PRE_STOP
from lbcf.core.model.resources import BackendRecord, PodRef
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.wording import some_of


def gate_condition(
    records: Iterable[BackendRecord],
    pods: Iterable[Pod],
    *,
    is_told: bool,
    generation: int,
) -> Condition | None:
    """Return the condition DrainGated of a group; None: none of its pods wait.

    Args:
        records: of the group.
        pods: that it selects.
        is_told: the group has the condition already.
        generation: of the group.
    """
    gated = [r for r in records if r.is_gated and not r.is_deleting]
    trouble = _too_short(gated) or _own_hooks(pods)
    if trouble is not None:
        status: bool | None = False
    elif gated:
        message = "pods that ask for it get SIGTERM when they are drained"
        status, trouble = True, Explanation(Reason.GATED, message)
    elif is_told:
        message = "no pod of the group asks for it"
        status, trouble = None, Explanation(Reason.NOT_GATED, message)
    else:
        return None
    kind = conditions.DRAIN_GATED
    return Condition(kind, status, trouble.reason, trouble.message, generation)


def _too_short(gated: Iterable[BackendRecord]) -> Explanation | None:
    short = {
        record.spec.backend.name: (wait, record.spec.drain.longest)
        for record in gated
        if isinstance(record.spec.backend, PodRef)
        and (wait := record.gate_wait) is not None
        and wait < record.spec.drain.longest
    }
    if not short:
        return None
    wait, drain = max(short.values(), key=lambda both: both[1] - both[0])
    missing = (drain - wait).total_seconds()
    return Explanation(
        Reason.GRACE_TOO_SHORT,
        f"the drain takes up to {drain.total_seconds():g} s, and pods wait for "
        f"{wait.total_seconds():g} s, which is their grace period less what the app needs "
        f"to end: raise terminationGracePeriodSeconds by {missing:g} s; "
        f"pods: {some_of(sorted(short))}",
    )


def _own_hooks(pods: Iterable[Pod]) -> Explanation | None:
    said = {
        pod.meta.key.name: own
        for pod in pods
        if (own := pod.meta.annotations.get(ANNOTATION_OWN_PRE_STOP))
    }
    if not said:
        return None
    containers = sorted({name for own in said.values() for name in own.split(",")})
    return Explanation(
        Reason.OWN_PRE_STOP,
        f"containers with a preStop hook of their own do not wait: {some_of(containers)}; "
        f"pods: {some_of(sorted(said))}",
    )
