"""Says of a group's pods whether they wait for long enough before SIGTERM.

The annotations of pods that wait for their drain, which their admission policy writes
(docs/gates.md), say for how long each waits, and which of its containers do not. The records
have the first of them, too. Other pods say it in a preStop hook that sleeps.
"""

from collections.abc import Iterable
from datetime import timedelta

from lbcf.core.model import conditions
from lbcf.core.model.cluster import Pod
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import ANNOTATION_DRAIN_GATE, ANNOTATION_OWN_PRE_STOP
from lbcf.core.model.resources import BackendRecord, PodRef
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.wording import some_of


TAKE_OVER = timedelta(seconds=8)
"""How long it takes at most until a deregistrar whose machine is off is replaced.

That is the duration of its Lease, which others see with their next look, and the start of
the work (docs/install.md, section 3).
"""


def gate_condition(
    records: Iterable[BackendRecord],
    pods: Iterable[Pod],
    *,
    is_told: bool,
    generation: int,
) -> Condition | None:
    """Return the condition DrainGated of a group; None: there is nothing to say.

    Args:
        records: of the group.
        pods: that it selects.
        is_told: the group has the condition already.
        generation: of the group.
    """
    gated = [r for r in records if r.is_gated and not r.is_deleting]
    selected = tuple(pods)
    trouble = _too_short(gated) or _own_hooks(selected) or _short_sleep(selected)
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
        and (wait := record.meta.gate_wait) is not None
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


def _short_sleep(pods: Iterable[Pod]) -> Explanation | None:
    short = {
        pod.meta.key.name: pod.pre_stop
        for pod in pods
        if pod.pre_stop is not None
        and pod.pre_stop < TAKE_OVER
        and not pod.is_terminating
        and ANNOTATION_DRAIN_GATE not in pod.meta.annotations
    }
    if not short:
        return None
    shortest = min(short.values()).total_seconds()
    return Explanation(
        Reason.PRE_STOP_TOO_SHORT,
        f"pods get SIGTERM {shortest:g} s after their deletion, and it may take "
        f"{TAKE_OVER.total_seconds():g} s until a deregistrar that is gone is replaced: let "
        "their preStop hook sleep for longer than that, or have them wait for their drain "
        f"(docs/gates.md); pods: {some_of(sorted(short))}",
    )
