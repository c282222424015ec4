"""Says of a group whether anybody of it serves, as its load balancers tell.

A group of which somebody was always in service costs no write: the condition Serving is
set when nobody is for the first time.
"""

from collections.abc import Collection

from lbcf.core.lifecycle.in_service import is_down
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord, LoadBalancer
from lbcf.core.reasons import Explanation, Reason


def is_asked(load_balancer: LoadBalancer | None) -> bool:
    """Return whether a load balancer is known to list its members now."""
    if load_balancer is None:
        return False
    said = conditions.find(load_balancer.conditions, conditions.REACHABLE)
    return said is not None and said.status is True


def is_back(old: LoadBalancer | None, new: LoadBalancer | None) -> bool:
    """Return whether a load balancer lists its members again that had stopped to."""
    if old is None or not is_asked(new):
        return False
    said = conditions.find(old.conditions, conditions.REACHABLE)
    return said is not None and said.status is not True


def count_in_service(registered: Collection[BackendRecord]) -> int:
    """Count the members of which their load balancer has not said that they are down."""
    return sum(1 for record in registered if not is_down(record))


def serving_condition(
    selected: int,
    registered: int,
    in_service: int | None,
    *,
    is_told: bool,
    generation: int,
) -> Condition | None:
    """Return the condition Serving of a group; None: nothing ever was to be said.

    Args:
        selected: backends that are there to stay.
        registered: records that are in their load balancer.
        in_service: how many of these are sent new traffic; None: nobody knows.
        is_told: the group has the condition already.
        generation: of the group.
    """
    trouble = None
    if not selected:
        message = "the group selects nothing that is there to stay"
        trouble = Explanation(Reason.NOTHING_SELECTED, message)
    elif registered and in_service == 0:
        message = f"none of {registered} registered members is sent anything new"
        trouble = Explanation(Reason.ALL_MEMBERS_DOWN, message)
    if trouble is None:
        if not is_told:
            return None
        trouble = Explanation(Reason.SERVING, "nothing speaks against it")
        return Condition(
            conditions.SERVING, True, trouble.reason, trouble.message, generation
        )
    return Condition(
        conditions.SERVING, False, trouble.reason, trouble.message, generation
    )
