"""A LoadBalancer object as its life sees it, and how its status tells of that.

`Created` is False until createLoadBalancer is about to be called, Unknown until that has
succeeded, then True, whatever else is told with it: from it alone a later process knows
whether there may be something to delete.
"""

from collections.abc import Sequence
from datetime import datetime

import attrs

from lbcf.core.lifecycle import locking
from lbcf.core.lifecycle.load_balancer_steps import (
    Begun,
    Blocked,
    CallFailed,
    Counted,
    Created,
    CreationUnclear,
    Ensured,
    InUse,
    Locked,
    Observation,
    Outcome,
    Told,
)
from lbcf.core.model import conditions, names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import Ingress
from lbcf.core.reasons import Explanation, Reason


_NOT_CREATED: dict[bool, bool | None] = {True: None, False: False}
"""What Created says of one that is not known to be created; None: nobody knows."""


def observe_load_balancer(
    balancer: LoadBalancer,
    driver: LoadBalancerDriver | Explanation,
    *,
    members: int = 0,
) -> Observation:
    """Put together what the life of a LoadBalancer depends on.

    Args:
        balancer: as it was read.
        driver: of it, or why there is none.
        members: records that are registered on it.
    """
    synced = conditions.find(balancer.conditions, conditions.ATTRIBUTES_SYNCED)
    is_synced = (
        synced is not None
        and synced.status is True
        and synced.observed_generation == balancer.meta.generation
    )
    return Observation(
        balancer,
        driver,
        attributes=balancer.attributes,
        applied=balancer.attributes if is_synced else None,
        is_synced=is_synced,
        may_exist=balancer.may_exist,
        is_held=names.FINALIZER_LOAD_BALANCER in balancer.meta.finalizers,
        abandoned=balancer.meta.abandoned,
        members=members,
    )


def with_outcome(
    balancer: LoadBalancer,
    outcome: Outcome,
    now: datetime,
    shared: Sequence[str] = (),
) -> LoadBalancer:
    """Put what was learnt into the status of a LoadBalancer.

    Args:
        balancer: as it is.
        outcome: what was learnt.
        now: when that was.
        shared: lock keys of all that are the same load balancer to its driver.
    """
    match outcome:
        case Locked(key):
            keys = locking.with_key(balancer.lock_keys, key, shared)
            return attrs.evolve(balancer, lock_keys=keys)
        case Counted(backends):
            return attrs.evolve(balancer, backends=backends)
        case Created(identity, key, ingress):
            keys = locking.with_key(balancer.lock_keys, key, shared)
            balancer = attrs.evolve(balancer, info=dict(identity), lock_keys=keys)
            return _with(_reached(balancer, ingress), outcome, now)
        case Ensured(ingress=ingress):
            return _with(_reached(balancer, ingress), outcome, now)
        case _:
            return _with(balancer, outcome, now)


def _reached(
    balancer: LoadBalancer, ingress: tuple[Ingress, ...] | None
) -> LoadBalancer:
    """Take in where clients reach it, where that is said."""
    return balancer if ingress is None else attrs.evolve(balancer, ingress=ingress)


def _with(balancer: LoadBalancer, outcome: Told, now: datetime) -> LoadBalancer:
    generation = balancer.meta.generation
    new = attrs.evolve(_told(balancer, outcome), observed_generation=generation)
    found = conditions.with_condition(balancer.conditions, new, now)
    return attrs.evolve(
        balancer, conditions=tuple(_of_present(c, generation) for c in found)
    )


def _of_present(condition: Condition, generation: int) -> Condition:
    """Let Created speak of the present spec: what was created cannot be changed."""
    if condition.type != conditions.CREATED or condition.status is not True:
        return condition
    return attrs.evolve(condition, observed_generation=generation)


def _told(balancer: LoadBalancer, outcome: Told) -> Condition:
    """Return the condition that reports an outcome."""
    match outcome:
        case Begun():
            message = "the driver is asked to create it; it may be there already"
            return Condition(conditions.CREATED, None, Reason.CREATING, message)
        case Created():
            return Condition(conditions.CREATED, True, Reason.CREATED)
        case Ensured():
            return Condition(
                conditions.ATTRIBUTES_SYNCED, True, Reason.ATTRIBUTES_SYNCED
            )
        case InUse(users):
            message = f"being deleted; waits for {users} BackendRecords to end"
            return _trouble(
                balancer, Operation.DELETE_LOAD_BALANCER, Reason.IN_USE, message
            )
        case CreationUnclear():
            message = (
                "being deleted; createLoadBalancer may still take effect, and "
                "deleteLoadBalancer follows when it no longer can"
            )
            operation = Operation.DELETE_LOAD_BALANCER
            return _trouble(balancer, operation, Reason.CREATION_UNCLEAR, message)
        case CallFailed(operation=operation, why=why):
            return _trouble(balancer, operation, why.reason, why.message)
        case Blocked(operation=operation, why=why):
            return _trouble(balancer, operation, why.reason, why.message)


def _trouble(
    balancer: LoadBalancer, operation: Operation, reason: Reason, message: str
) -> Condition:
    """Return the condition for what keeps it from being created, ensured or deleted."""
    if operation is Operation.ENSURE_LOAD_BALANCER:
        return Condition(conditions.ATTRIBUTES_SYNCED, False, reason, message)
    status = True if balancer.info is not None else _NOT_CREATED[balancer.may_exist]
    return Condition(conditions.CREATED, status, reason, message)
