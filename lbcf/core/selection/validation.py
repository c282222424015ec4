"""Parameters of a group are shown to the driver (validateBackend) before a plan brings them in.

Until the driver agrees, it is as if the group had not been changed: what is registered
keeps its parameters.
"""

from collections.abc import Callable, Iterable, Mapping

import attrs

from lbcf.core.model.node_backends import NodeSelection, ServiceSelection
from lbcf.core.model.resources import BackendGroup, BackendRecord, PodSelection
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.plan import Create, Hold, Plan, Removal, Update


@attrs.frozen
class ParameterQuestion:
    """What a driver is asked about a group's backends at one of its load balancers.

    Attributes:
        backend_type: Pod, Service, Static or Node, as the wire names them.
        before: the parameters that backends of the group have there, None where there
            are none.
    """

    backend_type: str
    parameters: Mapping[str, str]
    before: Mapping[str, str] | None = None


def backend_type_of(group: BackendGroup) -> str:
    """Return the type of a group's backends, as the driver protocol names it."""
    match group.selection:
        case PodSelection():
            return "Pod"
        case ServiceSelection():
            return "Service"
        case NodeSelection():
            return "Node"
        case _:
            return "Static"


def changed_by(plan: Plan) -> frozenset[str]:
    """Return the names of the load balancers that a plan adds to or changes."""
    created = (create.desired.spec.load_balancer for create in plan.creates)
    updated = (update.spec.load_balancer for update in plan.updates)
    return frozenset([*created, *updated])


def question_about(
    group: BackendGroup, records: Iterable[BackendRecord]
) -> ParameterQuestion | None:
    """Return the question about a group at one load balancer; None: nothing to ask.

    Parameters that backends have there already are not asked about again.

    Args:
        group: whose backends.
        records: that it owns there.
    """
    known = [r.spec.parameters for r in records if not r.is_deleting]
    if group.parameters in known:
        return None
    before = known[0] if known else None
    return ParameterQuestion(backend_type_of(group), group.parameters, before)


@attrs.frozen
class UnvalidatedParameters:
    """Why a driver has not agreed to a group's parameters at a load balancer.

    Attributes:
        before: the parameters that backends of the group have there, to which it has;
            None where there are none.
    """

    doubt: Explanation
    before: Mapping[str, str] | None = None


def hold_unvalidated(
    plan: Plan,
    unvalidated: Mapping[str, UnvalidatedParameters],
    is_there: Callable[[BackendRecord], bool],
) -> Plan:
    """Return the plan without parameters that the driver has not agreed to.

    New backends get the parameters that others have there, so that a rollout under a
    refused change goes on; where there are none, no backend is added. Backends that have
    ended are removed.

    Args:
        plan: of the group.
        unvalidated: by name of load balancer, why not.
        is_there: tells whether what a record is about still exists; if so, it is the
            spec that no longer selects it.
    """
    if not unvalidated:
        return plan
    actions: list[Update | Removal | Hold] = [
        _updated(u, unvalidated.get(u.spec.load_balancer)) for u in plan.updates
    ]
    actions += [
        _removed(r, unvalidated.get(r.record.spec.load_balancer), is_there)
        for r in plan.removals
    ]
    creates = (_created(c, unvalidated.get(_place_of(c))) for c in plan.creates)
    return attrs.evolve(
        plan,
        creates=tuple(create for create in creates if create is not None),
        updates=tuple(action for action in actions if isinstance(action, Update)),
        removals=tuple(action for action in actions if isinstance(action, Removal)),
        holds=(
            *plan.holds,
            *(action for action in actions if isinstance(action, Hold)),
        ),
    )


def _place_of(create: Create) -> str:
    return create.desired.spec.load_balancer


def _created(
    create: Create, unvalidated: UnvalidatedParameters | None
) -> Create | None:
    if unvalidated is None:
        return create
    if unvalidated.before is None:
        return None
    spec = attrs.evolve(create.desired.spec, parameters=unvalidated.before)
    return attrs.evolve(create, desired=attrs.evolve(create.desired, spec=spec))


def _updated(
    update: Update, unvalidated: UnvalidatedParameters | None
) -> Update | Hold:
    if unvalidated is None:
        return update
    record, doubt = update.record, unvalidated.doubt
    spec = attrs.evolve(update.spec, parameters=record.spec.parameters)
    if spec == record.spec:
        return Hold(record, doubt.reason, doubt.message)
    return attrs.evolve(update, spec=spec)


def _removed(
    removal: Removal,
    unvalidated: UnvalidatedParameters | None,
    is_there: Callable[[BackendRecord], bool],
) -> Removal | Hold:
    by_spec = removal.reason == Reason.UNSELECTED or (
        removal.reason in {Reason.POD_GONE, Reason.NODE_GONE}
        and is_there(removal.record)
    )
    if unvalidated is None or not by_spec:
        return removal
    return Hold(removal.record, unvalidated.doubt.reason, unvalidated.doubt.message)
