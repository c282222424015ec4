"""What is to be done about a Service, and what its status says.

`lbcf.core.model.services` says what a Service is derived into. Here that is compared with
what there is, and what has become of it is told in the words of a Service.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from lbcf.core.model import conditions, names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendGroup, LoadBalancer, Meta
from lbcf.core.model.services import DerivedPort, LoadBalancerClass
from lbcf.core.model.values import Ingress, Port
from lbcf.core.reasons import ConditionReason, Explanation, Reason
from lbcf.core.wording import some_of


Derived = LoadBalancer | BackendGroup


@attrs.frozen
class Change:
    """What one derived object is, and what it is to be."""

    found: Derived
    wanted: Derived


@attrs.frozen
class ServicePlan:
    """What makes the objects of a Service what they should be.

    Attributes:
        create: new ones.
        update: those that are to be otherwise.
        delete: those that are to go; a load balancer of another driver or lbSpec, or a group
            of another sort of backends, goes and is made anew when it is gone.
        troubles: why ports have none, or not yet.
    """

    create: tuple[Derived, ...] = ()
    update: tuple[Change, ...] = ()
    delete: tuple[Derived, ...] = ()
    troubles: tuple[Explanation, ...] = ()


def plan_service(
    meta: Meta,
    ports: Iterable[DerivedPort | Explanation],
    owned: Sequence[Derived],
    taken: Collection[str],
) -> ServicePlan:
    """Compare what a Service is derived into with what there is.

    Args:
        meta: of the Service.
        ports: what it is derived into.
        owned: load balancers and groups that are labelled with its name.
        taken: names of load balancers and groups of the namespace that are nobody's of it.
    """
    parts = list(ports)
    derived = [part for part in parts if isinstance(part, DerivedPort)]
    troubles = [part for part in parts if isinstance(part, Explanation)]
    there = {_identity(one): one for one in owned}
    wanted: list[Derived] = []
    for part in derived:
        name = part.balancer.meta.key.name
        if name in taken:
            troubles.append(_taken(name))
        else:
            wanted += [part.balancer, part.group]
    create = [one for one in wanted if _identity(one) not in there]
    pairs = [(there[i], one) for one in wanted if (i := _identity(one)) in there]
    doomed = [found for found, one in pairs if _is_replaced(meta, found, one)]
    kept = {_identity(one) for one in wanted}
    doomed += [found for identity, found in there.items() if identity not in kept]
    leaving = [found for found, _ in pairs if found.meta.deleting_since is not None]
    troubles += [_leaving(found) for found in leaving]
    changes = [
        Change(found, one)
        for found, one in pairs
        if found not in doomed and found not in leaving and not _is_same(found, one)
    ]
    return ServicePlan(
        create=tuple(create),
        update=tuple(changes),
        delete=tuple(one for one in doomed if one.meta.deleting_since is None),
        troubles=tuple(troubles),
    )


def _identity(one: Derived) -> tuple[type[Derived], str]:
    return type(one), one.meta.key.name


def is_of(meta: Meta, one: Derived) -> bool:
    """Return whether an object was derived from this very Service."""
    return one.meta.labels.get(names.LABEL_EXPOSES_UID) == meta.uid


def _is_replaced(meta: Meta, found: Derived, wanted: Derived) -> bool:
    """Return whether one has to go first: it is a namesake's, or cannot become the other."""
    if not is_of(meta, found):
        return True
    return _fixed(found) != _fixed(wanted) or _has_another_address(found, wanted)


def _has_another_address(found: Derived, wanted: Derived) -> bool:
    if not isinstance(found, LoadBalancer) or not isinstance(wanted, LoadBalancer):
        return False
    return found.address not in {"", wanted.address}


def _fixed(one: Derived) -> tuple[object, ...]:
    """Return what cannot be changed."""
    if isinstance(one, LoadBalancer):
        return (one.driver, one.spec, one.pool)
    return (type(one.selection),)


def _is_same(found: Derived, wanted: Derived) -> bool:
    return _changeable(found) == _changeable(wanted)


def _changeable(one: Derived) -> tuple[object, ...]:
    if isinstance(one, LoadBalancer):
        return (one.attributes, one.drain, one.address)
    return (one.load_balancers, one.selection, one.parameters, one.deregister_policy)


def _taken(name: str) -> Explanation:
    message = (
        f"there is a LoadBalancer or BackendGroup {name} that is not this Service's; "
        "delete or rename it"
    )
    return Explanation(Reason.NAME_TAKEN, message)


def _leaving(found: Derived) -> Explanation:
    kind = type(found).__name__
    message = (
        f"{kind} {found.meta.key.name} is being deleted first, and then made anew; see "
        "its conditions"
    )
    return Explanation(Reason.LOAD_BALANCER_DELETING, message)


def ready_condition(
    troubles: Sequence[Explanation],
    ports: Iterable[DerivedPort],
    found: Mapping[str, LoadBalancer],
    ingress: Sequence[Ingress],
) -> Condition:
    """Say whether all ports of a Service are served.

    Args:
        troubles: why some are not.
        ports: those that have load balancers.
        found: the load balancers that there are.
        ingress: where clients reach it.
    """
    told: list[tuple[ConditionReason, str]] = [
        (one.reason, one.message) for one in troubles
    ]
    told += [
        why
        for port in ports
        if (why := _trouble(port, found.get(port.balancer.meta.key.name)))
    ]
    if told:
        message = some_of([message for _, message in told], separator="; ")
        reason, _ = told[0]
        return Condition(conditions.LOAD_BALANCER_READY, False, reason, message)
    if not ingress:
        message = (
            "its driver does not say where clients reach it; give its LoadBalancerClass "
            "an ingress"
        )
        return Condition(
            conditions.LOAD_BALANCER_READY, False, Reason.INGRESS_UNKNOWN, message
        )
    reached = some_of([str(one) for one in ingress])
    message = f"reached at {reached}"
    return Condition(conditions.LOAD_BALANCER_READY, True, Reason.READY, message)


def _trouble(
    port: DerivedPort, found: LoadBalancer | None
) -> tuple[ConditionReason, str] | None:
    """Return what is the matter with the load balancer of a port; None: it serves."""
    name = port.balancer.meta.key.name
    if found is None:
        return (
            Reason.CREATING,
            f"port {port.port}: LoadBalancer {name} is not there yet",
        )
    if found.meta.deleting_since is not None:
        return None  # told already
    for kind in (conditions.CREATED, conditions.ATTRIBUTES_SYNCED):
        said = conditions.find(found.conditions, kind)
        is_old = said is not None and said.observed_generation != found.meta.generation
        is_steady = kind == conditions.CREATED and found.info is not None
        if said is None or (is_old and not is_steady):
            text = f"port {port.port}: LoadBalancer {name} has not been looked at yet"
            return Reason.CREATING, text
        if said.status is not True:
            text = f"port {port.port}, LoadBalancer {name}: {said.message}"
            return said.reason, text
    return None


def reached_at(
    ports: Iterable[DerivedPort],
    found: Mapping[str, LoadBalancer],
    kind: LoadBalancerClass,
) -> tuple[Ingress, ...]:
    """Return where clients reach a Service: where its load balancers are, each once.

    The class says it for those whose driver does not.
    """
    places: dict[tuple[str, str], list[Port]] = {}
    for port in ports:
        balancer = found.get(port.balancer.meta.key.name)
        if balancer is None or balancer.info is None or balancer.meta.deleting_since:
            continue
        own = (Ingress(balancer.address),) if balancer.address else kind.ingress
        for one in balancer.ingress or own:
            places.setdefault((one.ip, one.hostname), []).extend(one.ports)
    return tuple(
        Ingress(
            ip,
            hostname,
            tuple(dict.fromkeys(listed)),
            kind.ip_mode if ip else "",
        )
        for (ip, hostname), listed in places.items()
    )
