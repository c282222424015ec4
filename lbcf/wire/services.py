"""LoadBalancerClasses in JSON, and what Services are derived into, their marks and statuses.

Services themselves are read with all else of Kubernetes' own, in `lbcf.wire.kube`.
"""

from collections.abc import Iterable

import msgspec

from lbcf.core.model import names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.node_backends import ServiceSelection
from lbcf.core.model.resources import BackendGroup, LoadBalancer, Meta, PodSelection
from lbcf.core.model.services import GivenAddress, LoadBalancerClass
from lbcf.core.model.values import (
    DrainPolicy,
    Ingress,
    NamedPort,
    ObjectKey,
    Port,
    Uid,
)
from lbcf.wire.fields import (
    WireDrain,
    WireIngress,
    parse_drain,
    parse_ingress,
    render_conditions,
    render_drain_fields,
    render_ingress,
    render_port,
    replaced,
)
from lbcf.wire.metadata import ObjectMeta, decode


class _ClassSpec(msgspec.Struct, rename="camel"):
    driver: str
    lb_spec: dict[str, str] | None = None
    attributes: dict[str, str] | None = None
    parameters: dict[str, str] | None = None
    ingress: list[WireIngress] | None = None
    ip_mode: str = "Proxy"
    default: bool = False
    ignored_options: list[str] | None = None
    drain: WireDrain | None = None
    addresses: list[str] | None = None


class _Given(msgspec.Struct, rename="camel"):
    address: str
    namespace: str
    service: str
    uid: str
    sharing: str = ""
    releasing: bool = False


class _ClassStatus(msgspec.Struct):
    addresses: list[_Given] | None = None


class _Class(msgspec.Struct):
    metadata: ObjectMeta
    spec: _ClassSpec
    status: _ClassStatus = msgspec.field(default_factory=_ClassStatus)


_CLASS = msgspec.json.Decoder(_Class)


def parse_class(raw: bytes) -> LoadBalancerClass:
    """Read a LoadBalancerClass.

    Raises:
        Malformed: it cannot be read.
    """
    found = decode(_CLASS, raw)
    spec = found.spec
    return LoadBalancerClass(
        meta=found.metadata.to_meta(),
        driver=spec.driver,
        spec=spec.lb_spec or {},
        attributes=spec.attributes or {},
        parameters=spec.parameters or {},
        ingress=parse_ingress(spec.ingress),
        ip_mode=spec.ip_mode,
        is_default=spec.default,
        ignored=frozenset(spec.ignored_options or ()),
        drain=None if spec.drain is None else parse_drain(spec.drain),
        addresses=tuple(spec.addresses or ()),
        given=tuple(map(_parse_given, found.status.addresses or ())),
    )


def _parse_given(found: _Given) -> GivenAddress:
    key = ObjectKey(found.namespace, found.service)
    uid = Uid(found.uid)
    return GivenAddress(found.address, key, uid, found.sharing, found.releasing)


def render_given(given: Iterable[GivenAddress]) -> dict[str, object]:
    """Patch which addresses a class has given; the list needs compare-and-swap."""
    addresses = [
        {
            "address": one.address,
            "namespace": one.service.namespace,
            "service": one.service.name,
            "uid": one.uid,
            **({"sharing": one.sharing} if one.sharing else {}),
            **({"releasing": True} if one.is_releasing else {}),
        }
        for one in given
    ]
    return {"status": {"addresses": addresses}}


def render_taken_up(meta: Meta, class_name: str) -> dict[str, object]:
    """Patch our mark and the finalizer on; the list needs compare-and-swap."""
    held = [f for f in meta.finalizers if f != names.FINALIZER_SERVICE]
    return {
        "metadata": {
            "finalizers": [*held, names.FINALIZER_SERVICE],
            "annotations": {names.ANNOTATION_CLASS: class_name},
        }
    }


def render_let_go(meta: Meta) -> dict[str, object]:
    """Patch our mark and the finalizer away; the list needs compare-and-swap."""
    left = [f for f in meta.finalizers if f != names.FINALIZER_SERVICE]
    annotations = {names.ANNOTATION_CLASS: None}
    return {"metadata": {"finalizers": left, "annotations": annotations}}


def render_service_status(
    ingress: Iterable[Ingress] | None, conditions: Iterable[Condition]
) -> dict[str, object]:
    """Patch where a Service is reached, None: as it is, and its conditions."""
    status: dict[str, object] = {"conditions": render_conditions(conditions)}
    if ingress is not None:
        status["loadBalancer"] = {"ingress": render_ingress(ingress) or None}
    return {"status": status}


def render_derived(
    wanted: LoadBalancer | BackendGroup, owner: Meta
) -> dict[str, object]:
    """Write a new object that is derived from a Service, which owns it."""
    reference = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": owner.key.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "name": wanted.meta.key.name,
        "labels": dict(wanted.meta.labels),
        "ownerReferences": [reference],
    }
    return {"metadata": metadata, "spec": _bare(_render(wanted))}


def render_rederived(
    found: LoadBalancer | BackendGroup, wanted: LoadBalancer | BackendGroup
) -> dict[str, object]:
    """Patch what may change of an object that is derived from a Service."""
    before, after = _changeable(found), _changeable(wanted)
    return {"spec": replaced(before, after)}


def _bare(body: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in body.items() if value is not None}


def _render(wanted: LoadBalancer | BackendGroup) -> dict[str, object]:
    """Write the whole spec."""
    if isinstance(wanted, LoadBalancer):
        fixed = {
            "lbDriver": wanted.driver,
            "lbSpec": dict(wanted.spec),
            "addressPool": wanted.pool or None,
        }
        # What is new gets its address by a later write: see lbcf.core.lifecycle.addresses.
        return {**fixed, **_changeable(wanted), "address": None}
    return _changeable(wanted)


def _changeable(one: LoadBalancer | BackendGroup) -> dict[str, object]:
    """Write what may change of a spec; None is left out, or taken out by a patch."""
    if isinstance(one, LoadBalancer):
        return {
            "attributes": dict(one.attributes) or None,
            "drain": None if one.drain is None else _render_drain(one.drain),
            "address": one.address or None,
        }
    selection = one.selection
    pods = service = None
    if isinstance(selection, PodSelection):
        chosen = selection.selector.labels if selection.selector else {}
        pods = {
            "ports": [_render_target(port) for port in selection.ports],
            "byLabel": {"selector": dict(chosen)},
        }
    elif isinstance(selection, ServiceSelection):
        service = {"name": selection.name, "port": render_port(selection.port)}
    return {
        "loadBalancers": list(one.load_balancers),
        "pods": pods,
        "service": service,
        "parameters": dict(one.parameters) or None,
        "deregisterPolicy": one.deregister_policy.value,
    }


def _render_drain(drain: DrainPolicy) -> dict[str, object]:
    return {"enabled": drain.enabled, **render_drain_fields(drain)}


def _render_target(port: Port | NamedPort) -> dict[str, object]:
    if isinstance(port, Port):
        return render_port(port)
    return {"name": port.name, "protocol": port.protocol.value}
