"""May this pod be a backend now? A chain of checks, of which the first verdict counts.

Eligible pods are registered, ineligible ones deregistered; an undecided pod stays as it
is, in or out.
"""

from collections.abc import Callable

from lbcf.core.model.cluster import Pod
from lbcf.core.model.values import DeregisterPolicy
from lbcf.core.model.verdicts import Eligible, Ineligible, Undecided, Verdict
from lbcf.core.reasons import Reason


PodCheck = Callable[[Pod, DeregisterPolicy], Verdict | None]


def _is_terminating(pod: Pod, _policy: DeregisterPolicy) -> Verdict | None:
    """A pod that is being deleted leaves, whatever the policy."""
    if not pod.is_terminating:
        return None
    return Ineligible(
        Reason.POD_TERMINATING, f"pod {pod.meta.key.name} is being deleted"
    )


def _is_finished(pod: Pod, _policy: DeregisterPolicy) -> Verdict | None:
    """A pod in phase Succeeded or Failed leaves, whatever the policy."""
    if not pod.has_finished:
        return None
    return Ineligible(
        Reason.POD_FINISHED, f"pod {pod.meta.key.name} has ended: {pod.phase}"
    )


def _has_no_address(pod: Pod, _policy: DeregisterPolicy) -> Verdict | None:
    """Ready without an address: nothing to register, and no reason to deregister."""
    if pod.address:
        return None
    return Undecided(
        Reason.POD_HAS_NO_ADDRESS, f"pod {pod.meta.key.name} has no address yet"
    )


def _is_unready(pod: Pod, policy: DeregisterPolicy) -> Verdict | None:
    """An unready pod is not registered; the policy decides whether it is deregistered.

    Under IfTerminating readiness is not asked for: a pod is in as long as it runs.
    """
    if pod.is_ready or policy is DeregisterPolicy.IF_TERMINATING:
        return None
    message = f"pod {pod.meta.key.name} is not ready"
    if policy is DeregisterPolicy.IF_NOT_READY:
        return Ineligible(Reason.POD_NOT_READY, message, by_readiness=True)
    return Undecided(
        Reason.POD_NOT_READY, f"{message}; deregisterPolicy {policy} keeps it"
    )


POD_CHECKS: tuple[PodCheck, ...] = (
    _is_terminating,
    _is_finished,
    _is_unready,
    _has_no_address,
)


def judge_pod(pod: Pod, policy: DeregisterPolicy) -> Verdict:
    """Judge one selected pod."""
    verdicts = (check(pod, policy) for check in POD_CHECKS)
    return next((v for v in verdicts if v is not None), Eligible())
