"""Services of type LoadBalancer, and what they are derived into: one pattern with Binds.

Each port of a Service is a LoadBalancer of its own and a BackendGroup of its pods, or of its
node ports, as the LoadBalancerClass says that it names. Their lives are those of all others:
nothing here is about records, drivers or pods.
"""

import re

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from lbcf.core.model import conditions, names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.node_backends import ServiceSelection
from lbcf.core.model.resources import (
    BackendGroup,
    LoadBalancer,
    Meta,
    PodSelection,
    Selection,
)
from lbcf.core.model.selectors import Selector
from lbcf.core.model.values import (
    DeregisterPolicy,
    DrainPolicy,
    Ingress,
    NamedPort,
    ObjectKey,
    Port,
    Protocol,
    Uid,
)
from lbcf.core.reasons import Explanation, Reason


ON_NODES: Final = "nodes"
"""The value of the annotation that takes node ports for backends."""

_HEALTH_CHECK: Final = "healthCheckNodePort"
"""An option that says something of nodes alone."""


@attrs.frozen
class GivenAddress:
    """An address of a class that a Service has.

    Attributes:
        service: whose it is.
        uid: of that very Service.
        sharing: under what it is shared: namespace and key; empty: it is not.
        is_releasing: its Service is to go, or was: nothing new gets it.
    """

    address: str
    service: ObjectKey
    uid: Uid
    sharing: str = ""
    is_releasing: bool = False


@attrs.frozen
class LoadBalancerClass:
    """What Services of type LoadBalancer that name it are given.

    In its maps `{namespace}`, `{service}`, `{port}` and the other names of `placeholders`
    stand for what a Service and its port have.

    Attributes:
        driver: of the load balancers.
        spec: what createLoadBalancer gets.
        attributes: given to ensureLoadBalancer, beside what the Service asks for.
        parameters: of the members.
        ingress: where clients reach its load balancers, for drivers that do not say.
        ip_mode: of the addresses in a Service's status: VIP or Proxy (KEP-1860).
        is_default: Services that name no class have this one.
        ignored: what Services ask for and its driver is not told of.
        drain: of its load balancers; None: as they have it by default.
        addresses: networks whose addresses are given to Services; empty: none are given.
        given: the addresses that Services have: the record of it.
    """

    meta: Meta
    driver: str
    spec: Mapping[str, str] = attrs.Factory(dict)
    attributes: Mapping[str, str] = attrs.Factory(dict)
    parameters: Mapping[str, str] = attrs.Factory(dict)
    ingress: tuple[Ingress, ...] = ()
    ip_mode: str = "Proxy"
    is_default: bool = False
    ignored: frozenset[str] = frozenset()
    drain: DrainPolicy | None = None
    addresses: tuple[str, ...] = ()
    given: tuple[GivenAddress, ...] = ()


@attrs.frozen
class ExposedPort:
    """A port of a Service.

    Attributes:
        number: at which clients reach it.
        protocol: as the Service says it, which may be one that nobody serves.
        target: the number of its pods' port, or its name.
        name: of the port itself; empty for a lone one.
        node_port: 0 where it has none.
    """

    number: int
    protocol: str
    target: int | str
    name: str = ""
    node_port: int = 0

    def __str__(self) -> str:
        """Write it as `80/TCP`."""
        return f"{self.number}/{self.protocol}"


@attrs.frozen
class Exposure:
    """What of a Service says how it is to be balanced, and how it is.

    Attributes:
        is_balanced: its type is LoadBalancer.
        class_name: its spec.loadBalancerClass, empty where it has none.
        selector: of its pods; empty: somebody else looks after its endpoints.
        options: what it asks for beyond the usual, as drivers are told it.
        takes_unready: whether pods serve whatever their readiness says.
        ingress: as its status has it.
    """

    is_balanced: bool
    class_name: str = ""
    selector: Mapping[str, str] = attrs.Factory(dict)
    ports: tuple[ExposedPort, ...] = ()
    options: Mapping[str, str] = attrs.Factory(dict)
    takes_unready: bool = False
    ingress: tuple[Ingress, ...] = ()
    conditions: tuple[Condition, ...] = ()


@attrs.frozen
class DerivedPort:
    """A port of a Service as a load balancer and the group of its backends."""

    port: ExposedPort
    balancer: LoadBalancer
    group: BackendGroup


def is_held(meta: Meta) -> bool:
    """Return whether a Service is ours to look after."""
    named = bool(meta.annotations.get(names.ANNOTATION_CLASS))
    return named and names.FINALIZER_SERVICE in meta.finalizers


def has_finalizer_of_ours(meta: Meta, exposure: Exposure | None) -> bool:
    """Return whether the finalizer of a Service is the one that we have put on.

    Where somebody has taken our mark off, what its status says of us shows it.
    """
    said = () if exposure is None else exposure.conditions
    is_told = conditions.find(said, conditions.LOAD_BALANCER_READY) is not None
    return is_held(meta) or (is_told and names.FINALIZER_SERVICE in meta.finalizers)


def class_of(meta: Meta, exposure: Exposure, default: str) -> str:
    """Return the class of ours that a Service has; empty: it has none, or is to go.

    Args:
        meta: of the Service.
        exposure: of it.
        default: the class of Services that name none, empty where there is none. A Service
            that has got one keeps it.
    """
    if not exposure.is_balanced or meta.deleting_since is not None:
        return ""
    prefix, _, name = exposure.class_name.partition("/")
    if exposure.class_name:
        return name if prefix == names.API_GROUP else ""
    return meta.annotations.get(names.ANNOTATION_CLASS, "") or default


def derive(
    meta: Meta, exposure: Exposure, kind: LoadBalancerClass, address: str = ""
) -> Iterator[DerivedPort | Explanation]:
    """Derive the load balancer and the group of each port, or say why there is none.

    Args:
        meta: of the Service.
        exposure: of it.
        kind: its class.
        address: that it has been given; empty: none, or not yet.
    """
    on_nodes = meta.annotations.get(names.ANNOTATION_BACKENDS) == ON_NODES
    for port in exposure.ports:
        why = _objection(exposure, port, on_nodes=on_nodes)
        yield why or _derive(meta, exposure, kind, port, address, on_nodes=on_nodes)


def _objection(
    exposure: Exposure, port: ExposedPort, *, on_nodes: bool
) -> Explanation | None:
    """Return why a port cannot be balanced."""
    if port.protocol not in set(Protocol):
        message = f"port {port}: only TCP and UDP can be balanced; take it out"
        return Explanation(Reason.PROTOCOL_NOT_SERVED, message)
    if on_nodes and not port.node_port:
        message = (
            f"port {port} has no node port: leave allocateLoadBalancerNodePorts unset, or "
            f"take the annotation {names.ANNOTATION_BACKENDS} off"
        )
        return Explanation(Reason.NODE_PORT_MISSING, message)
    if not on_nodes and not exposure.selector:
        message = (
            "it selects no pods; give it a selector, or make a BackendGroup instead"
        )
        return Explanation(Reason.SELECTOR_MISSING, message)
    return None


def _derive(
    meta: Meta,
    exposure: Exposure,
    kind: LoadBalancerClass,
    port: ExposedPort,
    address: str,
    *,
    on_nodes: bool,
) -> DerivedPort:
    key = derived_key(meta.key, port)
    labels = {
        names.LABEL_EXPOSES: meta.key.name,
        names.LABEL_EXPOSES_UID: meta.uid,
    }
    own = Meta(key, Uid(""), "", labels=labels)
    said = placeholders(meta, port)
    told = {**said, "address": address} if address else said
    untold = kind.ignored if on_nodes else kind.ignored | {_HEALTH_CHECK}
    asked = {k: v for k, v in exposure.options.items() if k not in untold}
    balancer = LoadBalancer(
        own,
        driver=kind.driver,
        spec=filled(kind.spec, said),
        attributes=filled(kind.attributes, told) | asked,
        drain=kind.drain,
        pool=kind.meta.key.name if kind.addresses else "",
        address=address,
    )
    policy = DeregisterPolicy.IF_NOT_READY
    if exposure.takes_unready:
        policy = DeregisterPolicy.IF_TERMINATING
    group = BackendGroup(
        own,
        load_balancers=(key.name,),
        selection=_selection(meta, exposure, port, on_nodes=on_nodes),
        parameters=filled(kind.parameters, said),
        deregister_policy=policy,
    )
    return DerivedPort(port, balancer, group)


def _selection(
    meta: Meta, exposure: Exposure, port: ExposedPort, *, on_nodes: bool
) -> Selection:
    protocol = Protocol(port.protocol)
    if on_nodes:
        return ServiceSelection(meta.key.name, Port(port.number, protocol))
    target: Port | NamedPort = (
        Port(port.target, protocol)
        if isinstance(port.target, int)
        else NamedPort(port.target, protocol)
    )
    return PodSelection((target,), selector=Selector(exposure.selector))


def derived_key(service: ObjectKey, port: ExposedPort) -> ObjectKey:
    """Return the key of a port's load balancer, and of its group.

    Whatever a Service is called, theirs is a name in its own namespace: the front part is
    not that of shared load balancers.
    """
    name = f"svc-{service.name}-{port.number}-{port.protocol.lower()}"
    return ObjectKey(service.namespace, name)


def placeholders(meta: Meta, port: ExposedPort) -> Mapping[str, str]:
    """Return what stands for a Service and its port in the maps of a class."""
    return {
        "namespace": meta.key.namespace,
        "service": meta.key.name,
        "uid": meta.uid,
        "port": str(port.number),
        "protocol": port.protocol,
        "portName": port.name,
        "targetPort": str(port.target),
    }


_PLACEHOLDER = re.compile(r"\{([A-Za-z]+)\}")


def filled(texts: Mapping[str, str], said: Mapping[str, str]) -> dict[str, str]:
    """Fill placeholders in; what is none stays as it is."""
    return {
        key: _PLACEHOLDER.sub(lambda found: said.get(found[1], found[0]), text)
        for key, text in texts.items()
    }
