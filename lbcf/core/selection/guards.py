"""Brakes on a plan: removals that nothing but readiness asks for may be held.

Before it: `lbcf.core.selection.plan`. After it: `lbcf.controller.apply`. A kubelet that cannot
see, or a probe that broke for all pods at once, must not empty a load balancer.
"""

import attrs

from lbcf.core.reasons import Reason
from lbcf.core.selection.plan import Hold, Plan


def hold_readiness_removals(plan: Plan, max_unready_percent: int | None) -> Plan:
    """Hold what only readiness asks to remove while too much of a group is unready.

    What is gone, terminating or no longer selected is never held.
    """
    if max_unready_percent is None or not plan.backends:
        return plan
    if plan.unready * 100 <= max_unready_percent * plan.backends:
        return plan
    message = (
        f"{plan.unready} of {plan.backends} backends are unready, more than "
        f"protection.maxUnreadyPercent: {max_unready_percent} allows"
    )
    held = tuple(
        Hold(r.record, Reason.TOO_MANY_UNREADY, f"{r.message}; kept because {message}")
        for r in plan.removals
        if r.by_readiness
    )
    removals = tuple(r for r in plan.removals if not r.by_readiness)
    return attrs.evolve(plan, removals=removals, holds=plan.holds + held)
