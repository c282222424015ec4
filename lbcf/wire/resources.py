"""Drivers, load balancers and groups in JSON and back (records: `lbcf.wire.records`)."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from lbcf.core.model.conditions import Condition
from lbcf.core.model.departures import Departure, Outcome
from lbcf.core.model.node_backends import (
    AddressType,
    IpFamily,
    NodeSelection,
    ServiceSelection,
)
from lbcf.core.model.resources import (
    GATE_TIMEOUT,
    BackendGroup,
    GroupStatus,
    LoadBalancer,
    LoadBalancerDriver,
    PodSelection,
    SecretKey,
    Security,
    Selection,
    StaticSelection,
)
from lbcf.core.model.values import (
    AddressSource,
    BatchShape,
    DeregisterPolicy,
    DeregisterWebhook,
    FailurePolicy,
    Gate,
    Ingress,
    Listed,
    MemberKey,
    ReplaceOrder,
)
from lbcf.core.reasons import read_reason
from lbcf.wire.errors import Malformed
from lbcf.wire.fields import (
    WireCondition,
    WireDrain,
    WireEnsurePolicy,
    WireExpression,
    WireIngress,
    WirePort,
    parse_conditions,
    parse_drain,
    parse_duration,
    parse_ensure_policy,
    parse_ingress,
    parse_pod_port,
    parse_port,
    parse_selector,
    render_conditions,
    render_ingress,
    render_time,
)
from lbcf.wire.metadata import ObjectMeta, decode


class WireService(msgspec.Struct, rename="camel"):
    """The node port of a Service on each selected node."""

    name: str
    port: WirePort
    node_selector: dict[str, str] | None = None


class WireNodes(msgspec.Struct, rename="camel"):
    """Ports of each selected node."""

    ports: list[WirePort]
    selector: dict[str, str] | None = None
    match_expressions: list[WireExpression] | None = None
    address_type: AddressType = AddressType.INTERNAL_IP
    ip_family: IpFamily | None = None


def parse_service_selection(found: WireService) -> ServiceSelection:
    """Read which node port on which nodes is meant.

    Raises:
        Malformed: the port is none.
    """
    return ServiceSelection(
        found.name, parse_port(found.port), found.node_selector or {}
    )


def parse_node_selection(found: WireNodes) -> NodeSelection:
    """Read which ports on which nodes are meant.

    Raises:
        Malformed: there are no ports, or a word that means nothing.
    """
    ports = tuple(dict.fromkeys(parse_port(port) for port in found.ports))
    if not ports:
        raise Malformed("spec.nodes has no ports")
    selector = parse_selector(found.selector, found.match_expressions)
    return NodeSelection(ports, selector, found.address_type, found.ip_family)


class _Batch(msgspec.Struct, rename="camel"):
    max_items: int
    max_delay_milliseconds: int = 100


class _Webhook(msgspec.Struct):
    name: str
    timeout: str = "10s"
    batch: _Batch | None = None


class _SecretRef(msgspec.Struct):
    name: str
    key: str = "token"


class _Tls(msgspec.Struct, rename="camel"):
    ca_bundle: bytes = b""
    server_name: str = ""
    client_certificate_secret_ref: _SecretRef | None = None


class _Auth(msgspec.Struct, rename="camel"):
    bearer_token_secret_ref: _SecretRef | None = None


class _DriverSpec(msgspec.Struct, rename="camel"):
    url: str
    accept_dry_run_call: bool = False
    webhooks: list[_Webhook] | None = None
    member_key: MemberKey = MemberKey.ADDRESS
    address_source: AddressSource = AddressSource.DRIVER
    late_effect_seconds: int = 10
    max_concurrent_calls: int = 32
    tls: _Tls | None = None
    auth: _Auth | None = None
    scope: list[str] | None = None


class _Conditions(msgspec.Struct):
    conditions: list[WireCondition] | None = None


class _Driver(msgspec.Struct):
    metadata: ObjectMeta
    spec: _DriverSpec
    status: _Conditions = msgspec.field(default_factory=_Conditions)


class _LoadBalancerSpec(msgspec.Struct, rename="camel"):
    lb_driver: str
    lb_spec: dict[str, str] | None = None
    attributes: dict[str, str] | None = None
    scope: list[str] | None = None
    ensure_policy: WireEnsurePolicy | None = None
    drain: WireDrain | None = None
    max_concurrent_calls: int | None = None
    gate: Gate = Gate.REQUIRED
    address_pool: str = ""
    address: str = ""


class _Orphan(msgspec.Struct, rename="camel"):
    backend_addr: str
    record_id: str = msgspec.field(name="recordID")


class _LoadBalancerStatus(msgspec.Struct, rename="camel"):
    lb_info: dict[str, str] | None = None
    conditions: list[WireCondition] | None = None
    epoch: str = ""
    backends: int = 0
    lock_keys: list[str] | None = None
    ingress: list[WireIngress] | None = None
    orphans: list[_Orphan] | None = None


class _LoadBalancer(msgspec.Struct):
    metadata: ObjectMeta
    spec: _LoadBalancerSpec
    status: _LoadBalancerStatus = msgspec.field(default_factory=_LoadBalancerStatus)


class _ByLabel(msgspec.Struct, rename="camel"):
    selector: dict[str, str] | None = None
    match_expressions: list[WireExpression] | None = None
    except_: list[str] | None = msgspec.field(name="except", default=None)


class _Pods(msgspec.Struct, rename="camel"):
    ports: list[WirePort] | None = None
    port: WirePort | None = None
    by_label: _ByLabel | None = None
    by_name: list[str] | None = None


class _Protection(msgspec.Struct, rename="camel"):
    max_unready_percent: int | None = None
    max_unavailable: int = 0
    order: ReplaceOrder = ReplaceOrder.REGISTER_FIRST


class _DeregisterWebhook(msgspec.Struct, rename="camel"):
    driver_name: str
    failure_policy: str = FailurePolicy.DO_NOTHING.value


class WireGroupSpec(msgspec.Struct, rename="camel"):
    """A group's spec; a Bind's has the same fields."""

    load_balancers: list[str] | None = None
    lb_name: str = ""
    pods: _Pods | None = None
    static: list[str] | None = None
    service: WireService | None = None
    nodes: WireNodes | None = None
    parameters: dict[str, str] | None = None
    deregister_policy: DeregisterPolicy = DeregisterPolicy.IF_NOT_READY
    deregister_webhook: _DeregisterWebhook | None = None
    ensure_policy: WireEnsurePolicy | None = None
    drain: WireDrain | None = None
    protection: _Protection | None = None
    gate: Gate = Gate.REQUIRED
    gate_timeout_seconds: int | None = None


class _Departure(msgspec.Struct, rename="camel"):
    backend: str
    load_balancer: str
    record: str
    time: datetime
    outcome: str
    reason: str = ""
    connections: int | None = None


class WireGroupStatus(msgspec.Struct, rename="camel"):
    """A group's status; a Bind's has the same fields."""

    backends: int = 0
    registered_backends: int = 0
    draining: int = 0
    in_service: int | None = None
    observed_generation: int = 0
    conditions: list[WireCondition] | None = None
    departed: list[_Departure] | None = None


class WireGroup(msgspec.Struct):
    """A BackendGroup."""

    metadata: ObjectMeta
    spec: WireGroupSpec
    status: WireGroupStatus = msgspec.field(default_factory=WireGroupStatus)


_DRIVER = msgspec.json.Decoder(_Driver)
_LOAD_BALANCER = msgspec.json.Decoder(_LoadBalancer)
_GROUP = msgspec.json.Decoder(WireGroup)
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}


def parse_driver(raw: bytes) -> LoadBalancerDriver:
    """Read a LoadBalancerDriver.

    Raises:
        Malformed: it cannot be read.
    """
    driver = decode(_DRIVER, raw)
    spec = driver.spec
    return LoadBalancerDriver(
        meta=driver.metadata.to_meta(),
        url=spec.url,
        timeouts={w.name: parse_duration(w.timeout) for w in spec.webhooks or ()},
        batches={
            w.name: BatchShape(
                w.batch.max_items,
                timedelta(milliseconds=w.batch.max_delay_milliseconds),
            )
            for w in spec.webhooks or ()
            if w.batch is not None
        },
        accept_dry_run=spec.accept_dry_run_call,
        member_key=spec.member_key,
        address_source=spec.address_source,
        late_effect=timedelta(seconds=spec.late_effect_seconds),
        max_concurrent_calls=spec.max_concurrent_calls,
        security=_parse_security(spec.tls or _Tls(), spec.auth or _Auth()),
        scope=None if spec.scope is None else tuple(spec.scope),
        conditions=parse_conditions(driver.status.conditions),
    )


def _parse_security(tls: _Tls, auth: _Auth) -> Security:
    """Read how a driver is called."""
    certificate, token = tls.client_certificate_secret_ref, auth.bearer_token_secret_ref
    return Security(
        ca_bundle=tls.ca_bundle,
        server_name=tls.server_name,
        client_certificate="" if certificate is None else certificate.name,
        token=None if token is None else SecretKey(token.name, token.key),
    )


def parse_load_balancer(raw: bytes) -> LoadBalancer:
    """Read a LoadBalancer; it has an identity only once it says that it was created.

    Raises:
        Malformed: it cannot be read.
    """
    found = decode(_LOAD_BALANCER, raw)
    spec, status = found.spec, found.status
    return LoadBalancer(
        meta=found.metadata.to_meta(),
        driver=spec.lb_driver,
        spec=spec.lb_spec or {},
        attributes=spec.attributes or {},
        scope=tuple(spec.scope or ()),
        ensure_policy=parse_ensure_policy(spec.ensure_policy),
        drain=None if spec.drain is None else parse_drain(spec.drain),
        max_concurrent_calls=spec.max_concurrent_calls,
        info=status.lb_info,
        epoch=status.epoch,
        backends=status.backends,
        lock_keys=tuple(status.lock_keys or ()),
        gate=spec.gate,
        conditions=parse_conditions(status.conditions),
        ingress=parse_ingress(status.ingress),
        pool=spec.address_pool,
        address=spec.address,
        orphans=tuple((o.backend_addr, o.record_id) for o in status.orphans or ()),
    )


def parse_group(raw: bytes) -> BackendGroup:
    """Read a BackendGroup, in the old and the new spelling, which add up.

    Raises:
        Malformed: it cannot be read.
    """
    return to_group(decode(_GROUP, raw))


def to_group(group: WireGroup) -> BackendGroup:
    """Turn what was decoded into the core's value.

    Raises:
        Malformed: it makes no sense.
    """
    spec, status = group.spec, group.status
    policy, protection = spec.deregister_policy, spec.protection or _Protection()
    lone = (spec.lb_name,) if spec.lb_name else ()
    return BackendGroup(
        meta=group.metadata.to_meta(),
        load_balancers=tuple(dict.fromkeys([*lone, *(spec.load_balancers or ())])),
        selection=_parse_selection(spec),
        parameters=spec.parameters or {},
        deregister_policy=policy,
        webhook=_parse_webhook(spec.deregister_webhook, policy),
        ensure_policy=parse_ensure_policy(spec.ensure_policy),
        drain=None if spec.drain is None else parse_drain(spec.drain),
        max_unready_percent=protection.max_unready_percent,
        max_unavailable=protection.max_unavailable,
        replace_order=protection.order,
        gate=spec.gate,
        gate_timeout=_parse_gate_timeout(spec.gate_timeout_seconds),
        status=GroupStatus(
            backends=status.backends,
            registered=status.registered_backends,
            draining=status.draining,
            in_service=status.in_service,
            observed_generation=status.observed_generation,
            conditions=parse_conditions(status.conditions),
            departed=tuple(map(_parse_departure, status.departed or ())),
        ),
    )


def _parse_departure(found: _Departure) -> Departure:
    """Read how a registration ended; words of a newer version say nothing."""
    return Departure(
        found.backend,
        found.load_balancer,
        found.record,
        found.time,
        _OUTCOMES.get(found.outcome, Outcome.UNKNOWN),
        read_reason(found.reason) if found.reason else None,
        found.connections,
    )


def _parse_gate_timeout(seconds: int | None) -> timedelta | None:
    """Read how long readiness gates wait; 0: for as long as it takes."""
    if seconds is None:
        return GATE_TIMEOUT
    return timedelta(seconds=seconds) if seconds else None


def _parse_webhook(
    found: _DeregisterWebhook | None, policy: DeregisterPolicy
) -> DeregisterWebhook | None:
    """Read whom to ask about unready pods; under other policies nobody is."""
    if policy is not DeregisterPolicy.WEBHOOK:
        return None
    if found is None:
        raise Malformed("deregisterPolicy Webhook needs spec.deregisterWebhook")
    try:
        failure_policy = FailurePolicy(found.failure_policy)
    except ValueError as error:
        raise Malformed(str(error)) from error
    return DeregisterWebhook(found.driver_name, failure_policy)


def _parse_selection(spec: WireGroupSpec) -> Selection:
    """Read which backends a group means."""
    if spec.pods is not None:
        return _parse_pods(spec.pods)
    if spec.static is not None:
        return StaticSelection(tuple(dict.fromkeys(spec.static)))
    if spec.service is not None:
        return parse_service_selection(spec.service)
    if spec.nodes is not None:
        return parse_node_selection(spec.nodes)
    raise Malformed("spec has none of pods, service, static, nodes")


def _parse_pods(pods: _Pods) -> PodSelection:
    """Read which pods a group means."""
    lone = [pods.port] if pods.port is not None else []
    found = [parse_pod_port(p) for p in [*lone, *(pods.ports or ())]]
    ports = tuple(dict.fromkeys(found))
    if not ports:
        raise Malformed("spec.pods has neither ports nor port")
    if pods.by_name is not None:
        return PodSelection(ports, names=frozenset(pods.by_name))
    if pods.by_label is None:
        raise Malformed("spec.pods has neither byLabel nor byName")
    by_label = pods.by_label
    selector = parse_selector(by_label.selector, by_label.match_expressions)
    excluded = frozenset(pods.by_label.except_ or ())
    return PodSelection(ports, selector=selector, excluded=excluded)


def render_driver_status(
    conditions: tuple[Condition, ...], generation: int
) -> dict[str, object]:
    """Patch a driver's conditions, which are about that generation of its spec."""
    return {
        "status": {
            "observedGeneration": generation,
            "conditions": render_conditions(conditions),
        }
    }


def render_group_status(status: GroupStatus) -> dict[str, object]:
    """Patch a group's whole status."""
    return {
        "status": {
            "backends": status.backends,
            "registeredBackends": status.registered,
            "draining": status.draining,
            "inService": status.in_service,
            "observedGeneration": status.observed_generation,
            "conditions": render_conditions(status.conditions),
            "departed": [*map(_render_departure, status.departed)] or None,
        },
    }


def _render_departure(departure: Departure) -> dict[str, object]:
    """Write how a registration ended; what is unknown is left out."""
    body: dict[str, object] = {
        "backend": departure.backend,
        "loadBalancer": departure.load_balancer,
        "record": departure.record,
        "time": render_time(departure.time),
        "outcome": departure.outcome,
        "reason": departure.reason,
        "connections": departure.connections,
    }
    return {key: value for key, value in body.items() if value is not None}


def render_load_balancer_status(
    load_balancer: LoadBalancer,
    conditions: tuple[Condition, ...],
    *,
    info: Mapping[str, str] | None = None,
    epoch: str | None = None,
    backends: int | None = None,
    lock_keys: Sequence[str] | None = None,
    ingress: Iterable[Ingress] | None = None,
    orphans: Iterable[Listed] | None = None,
) -> dict[str, object]:
    """Patch a load balancer's conditions, and what else is given."""
    status: dict[str, object] = {
        "conditions": render_conditions(conditions),
        "observedGeneration": load_balancer.meta.generation,
    }
    if info is not None:
        status["lbInfo"] = dict(info)
    if epoch is not None:
        status["epoch"] = epoch
    if backends is not None:
        status["backends"] = backends
    if lock_keys is not None:
        status["lockKeys"] = list(lock_keys)
    if ingress is not None:
        status["ingress"] = render_ingress(ingress)
    if orphans is not None:
        pairs = ({"backendAddr": addr, "recordID": uid} for addr, uid in orphans)
        status["orphans"] = list(pairs)
    return {"status": status}
