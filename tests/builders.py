"""Values of the core with only what a test is about said; the rest is an everyday one.

The everyday: namespace `shop`, group `web` of pods with label app=web, port 8080, load
balancer `front` of driver `proxy`, which takes addresses as they are and names members
after their records. Moments are seconds after `START`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import attrs

from lbcf.core.lifecycle.steps import LockHeld
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model import conditions
from lbcf.core.model.cluster import Attachment, Pod, ReadinessGate, Snapshot
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import FINALIZER_RECORD
from lbcf.core.model.nodes import NodeScene
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    Backend,
    BackendGroup,
    BackendRecord,
    LoadBalancer,
    LoadBalancerDriver,
    Meta,
    PodRef,
    PodSelection,
    RecordSpec,
    RecordStatus,
    Selection,
)
from lbcf.core.model.selectors import Selector
from lbcf.core.model.values import (
    NO_DRAIN,
    AddressSource,
    BootTime,
    DeregisterPolicy,
    DeregisterWebhook,
    DrainPolicy,
    EnsurePolicy,
    MemberKey,
    ObjectKey,
    Port,
    Repeat,
    ReplaceOrder,
    Uid,
)
from lbcf.core.reasons import Explanation, Reason


NAMESPACE = "shop"
START = datetime(2026, 1, 1, tzinfo=UTC)
BOOT = "boot"
"""Of the machine whose clocks are read."""
WEB = Port(8080)
ALWAYS = EnsurePolicy(Repeat.ALWAYS, timedelta(minutes=1))
BY_LABEL = PodSelection((WEB,), selector=Selector({"app": "web"}))


def seconds(count: float) -> timedelta:
    """Say a length of time."""
    return timedelta(seconds=count)


def held_by(
    name: str = "other",
    again_after: timedelta = timedelta(seconds=5),
    *,
    namespace: str = NAMESPACE,
    gone_at: BootTime | None = None,
) -> LockHeld:
    """Say that a record has the lock on an address."""
    lock = ObjectKey("kube-system", "addr-0")
    uid = Uid(f"uid-{name}")
    return LockHeld(lock, ObjectKey(namespace, name), uid, again_after, gone_at)


def at(after: float, *, jitter: float = 0.0) -> Now:
    """Make the moment that is so many seconds after the start, on both clocks."""
    return Now(START + seconds(after), after, jitter, BOOT)


def a_key(name: str, namespace: str = NAMESPACE) -> ObjectKey:
    """Make a key."""
    return ObjectKey(namespace, name)


def a_meta(
    name: str,
    *,
    namespace: str = NAMESPACE,
    uid: str | None = None,
    version: int = 1,
    generation: int = 1,
    deleting: bool = False,
    finalizers: tuple[str, ...] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Meta:
    """Make metadata; the uid follows from the name where none is given."""
    return Meta(
        key=ObjectKey(namespace, name),
        uid=Uid(f"uid-{name}" if uid is None else uid),
        resource_version=str(version),
        generation=generation,
        deleting_since=START if deleting else None,
        finalizers=finalizers,
        labels=labels or {},
        annotations=annotations or {},
    )


def a_pod(
    name: str = "web-1",
    *,
    address: str = "10.0.0.1",
    ready: bool = True,
    phase: str = "Running",
    deleting: bool = False,
    uid: str | None = None,
    version: int = 1,
    namespace: str = NAMESPACE,
    labels: Mapping[str, str] | None = None,
    gate: ReadinessGate | None = None,
) -> Pod:
    """Make a pod, ready to serve."""
    meta = a_meta(
        name,
        namespace=namespace,
        uid=uid,
        version=version,
        deleting=deleting,
        labels={"app": "web"} if labels is None else labels,
    )
    return Pod(meta, address, ready, phase, gate=gate)


def a_driver(
    name: str = "proxy",
    *,
    member_key: MemberKey = MemberKey.RECORD,
    address_source: AddressSource = AddressSource.BACKEND,
    drains: bool = False,
    version: int = 1,
    generation: int = 1,
    namespace: str = NAMESPACE,
) -> LoadBalancerDriver:
    """Make a driver: time-outs of 10 s, late by 10 s at most, so it settles in 25 s."""
    timeouts = {Operation.DRAIN_BACKEND.value: seconds(10)} if drains else {}
    return LoadBalancerDriver(
        a_meta(name, version=version, generation=generation, namespace=namespace),
        url="http://driver.test",
        timeouts=timeouts,
        member_key=member_key,
        address_source=address_source,
    )


SETTLING = 25.0
"""Seconds after which no call of `a_driver` without an answer has an effect any more."""


def a_load_balancer(
    name: str = "front",
    *,
    driver: str = "proxy",
    info: Mapping[str, str] | None = None,
    attributes: Mapping[str, str] | None = None,
    scope: tuple[str, ...] = (),
    drain: DrainPolicy | None = None,
    created: bool = True,
    deleting: bool = False,
    version: int = 1,
    generation: int = 1,
    namespace: str = NAMESPACE,
) -> LoadBalancer:
    """Make a load balancer that its driver has created."""
    return LoadBalancer(
        a_meta(
            name,
            version=version,
            generation=generation,
            deleting=deleting,
            namespace=namespace,
        ),
        driver=driver,
        spec={"id": name},
        attributes=attributes or {},
        scope=scope,
        drain=drain,
        info=(info or {"id": name}) if created else None,
    )


def a_group(
    name: str = "web",
    *,
    load_balancers: tuple[str, ...] = ("front",),
    selection: Selection = BY_LABEL,
    policy: DeregisterPolicy = DeregisterPolicy.IF_NOT_READY,
    parameters: Mapping[str, str] | None = None,
    ensure_policy: EnsurePolicy | None = None,
    drain: DrainPolicy | None = None,
    max_unready_percent: int | None = None,
    max_unavailable: int = 0,
    order: ReplaceOrder = ReplaceOrder.REGISTER_FIRST,
    webhook: DeregisterWebhook | None = None,
    uid: str | None = None,
    version: int = 1,
    generation: int = 1,
) -> BackendGroup:
    """Make a group."""
    return BackendGroup(
        a_meta(name, uid=uid, version=version, generation=generation),
        load_balancers,
        selection,
        parameters=parameters or {},
        deregister_policy=policy,
        ensure_policy=ensure_policy or EnsurePolicy(),
        drain=drain,
        max_unready_percent=max_unready_percent,
        max_unavailable=max_unavailable,
        replace_order=order,
        webhook=webhook,
    )


def a_backend(name: str = "web-1", *, port: Port = WEB) -> PodRef:
    """Make the backend that a pod of `a_pod` is."""
    return PodRef(name, Uid(f"uid-{name}"), port)


def a_spec(
    *,
    address: str = "10.0.0.1:8080",
    load_balancer: str = "front",
    backend: Backend | None = None,
    ensure_policy: EnsurePolicy | None = None,
    drain_timeout: timedelta | None = None,
    parameters: Mapping[str, str] | None = None,
) -> RecordSpec:
    """Make a record's spec; an empty address is one that is yet to be found."""
    return RecordSpec(
        load_balancer,
        "proxy",
        {"id": load_balancer},
        backend or a_backend(),
        parameters=parameters or {},
        ensure_policy=ensure_policy or EnsurePolicy(),
        address=address,
        drain=NO_DRAIN if drain_timeout is None else DrainPolicy(timeout=drain_timeout),
    )


def a_record(
    name: str = "web-1",
    *,
    spec: RecordSpec | None = None,
    status: RecordStatus | None = None,
    registered: bool = False,
    ensuring: str = "",
    deleting: bool = False,
    held: bool = True,
    uid: str | None = None,
    version: int = 1,
    generation: int = 1,
    annotations: Mapping[str, str] | None = None,
) -> BackendRecord:
    """Make a record of the group `web`.

    Args:
        name: its own; the uid follows from it where none is given.
        spec: everyday where not given.
        status: everyday where not given; what follows is added to it.
        registered: at its generation.
        ensuring: who may have an ensure out.
        deleting: deleted, which raises the generation by one.
        held: our finalizer is on it.
        uid: its own.
        version: resourceVersion.
        generation: of the spec, before a deletion.
        annotations: of our group.
    """
    spec = spec or a_spec()
    status = attrs.evolve(status or RecordStatus(), ensuring=ensuring)
    if registered:
        status = with_registered(status, spec.address, generation)
    return BackendRecord(
        a_meta(
            name,
            uid=uid,
            version=version,
            generation=generation + deleting,
            deleting=deleting,
            finalizers=(FINALIZER_RECORD,) if held else (),
            annotations=annotations,
        ),
        spec,
        status,
        group=a_key("web"),
        group_uid=Uid("uid-web"),
    )


def with_registered(
    status: RecordStatus, address: str, generation: int = 1
) -> RecordStatus:
    """Make a status say what a registrar writes at the end."""
    message = f"{status.address or address} is registered"
    condition = Condition(
        conditions.REGISTERED, True, Reason.REGISTERED, message, generation, START
    )
    placed = conditions.with_condition(status.conditions, condition, START)
    return attrs.evolve(status, address=status.address or address, conditions=placed)


def a_snapshot(
    *pods: Pod,
    group: BackendGroup | None = None,
    records: tuple[BackendRecord, ...] = (),
    driver: LoadBalancerDriver | None = None,
    load_balancers: tuple[LoadBalancer, ...] | None = None,
    undecided: Mapping[str, Explanation] | None = None,
    scene: NodeScene | None = None,
) -> Snapshot:
    """Make a snapshot in which all load balancers are of one driver."""
    found = (a_load_balancer(),) if load_balancers is None else load_balancers
    driver = driver or a_driver()
    return Snapshot(
        group=group or a_group(),
        attachments={lb.meta.key.name: Attachment(lb, driver) for lb in found},
        undecided=undecided or {},
        pods=pods,
        records=records,
        scene=scene,
    )
