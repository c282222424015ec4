"""Whether a load balancer's members can be watched: its condition Listed.

Before it: `lbcf.controller.member_resync` has asked for the members. After it: the condition says
why they could not be listed, or that the epochs they were listed with do not stay. Until
then resets of the load balancer go unseen.
"""

from datetime import timedelta

from lbcf.core.lifecycle.epochs import Epochs
from lbcf.core.lifecycle.steps import CallRefused, NoAnswer, StillRunning
from lbcf.core.lifecycle.turn import describe_failure
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer, LoadBalancerDriver
from lbcf.core.reasons import Reason


IN_A_ROW = 3
"""Readings that must have failed before anybody is told."""
RETOLD = timedelta(minutes=1)
"""How soon another sentence of the same reason is told."""

_UNSEEN = "; that it loses its members goes unseen as long as this lasts"


def unlisted(
    load_balancer: LoadBalancer,
    driver: LoadBalancerDriver,
    trouble: CallRefused | StillRunning | NoAnswer,
) -> Condition:
    """Say that a driver does not list the members."""
    why = describe_failure(trouble, driver, Operation.LIST_BACKENDS)
    return _said(load_balancer, False, why.reason, why.message + _UNSEEN)


def listed(load_balancer: LoadBalancer, epochs: Epochs, now: float) -> Condition | None:
    """Say of a load balancer whose members were listed how it is; None: as ever."""
    if changes := epochs.changes(now):
        message = (
            f"listBackends has shown another epoch {changes} times in a row, the last "
            f"one {epochs.epoch}: the load balancer loses its members again and again, "
            "or several processes of the driver answer with an epoch each; members are "
            "put back every few minutes only until that ends"
        )
        return _said(load_balancer, False, Reason.EPOCH_CHANGING, message)
    if conditions.find(load_balancer.conditions, conditions.LISTED) is None:
        return None
    return _said(load_balancer, True, Reason.LISTED, "its members are listed by period")


def _said(
    load_balancer: LoadBalancer, status: bool, reason: Reason, message: str
) -> Condition:
    """Make the condition."""
    generation = load_balancer.meta.generation
    return Condition(conditions.LISTED, status, reason, message, generation)
