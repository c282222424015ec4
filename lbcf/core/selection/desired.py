"""The records that a group should have: one per eligible backend, port and load balancer."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

import attrs

from lbcf.core.model import names
from lbcf.core.model.cluster import Attachment, Pod, Snapshot
from lbcf.core.model.node_backends import (
    NodeRef,
    NodeSelection,
    ServiceRef,
    ServiceSelection,
)
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    USUAL_SETTLING,
    Backend,
    BackendGroup,
    BackendRecord,
    PodRef,
    PodSelection,
    RecordSpec,
    StaticRef,
    StaticSelection,
)
from lbcf.core.model.values import (
    AddressSource,
    DrainPolicy,
    MemberKey,
    NamedPort,
    Port,
    Uid,
    host_port,
)
from lbcf.core.model.verdicts import Eligible, Verdict
from lbcf.core.selection.eligibility import judge_pod
from lbcf.core.selection.hand_drain import drained_group, with_hand_drains
from lbcf.core.selection.node_policy import judge_nodes
from lbcf.core.selection.webhook_policy import with_judgement


Identity = tuple[str, Backend]
"""Load balancer and backend: what a record is about, whoever wrote it."""


@attrs.frozen
class DesiredRecord:
    """A record that should exist.

    Attributes:
        address: where the backend listens, empty where only the driver knows. It is in
            `spec` only if it may be registered without a lock.
        readable: what stands in front of its name.
        settling: for how long its first ensure may take effect.
        drain_gate: what its pod says of how long its preStop waits; empty: it does not.
    """

    group: BackendGroup
    spec: RecordSpec
    address: str
    readable: tuple[str, int]
    settling: timedelta = USUAL_SETTLING
    drain_gate: str = ""

    @property
    def identity(self) -> Identity:
        """Return the load balancer and backend that it is about."""
        return (self.spec.load_balancer, self.spec.backend)

    def name(self, leaving: Iterable[str] = ()) -> str:
        """Return its name.

        Args:
            leaving: the uids of all records of this identity that are on their way
                out. None of them can have this name, for none was made beside itself.
        """
        backend, number = self.readable
        group = names.own_name(self.group.meta.key)
        parts = [
            group,
            self.group.meta.uid,
            self.spec.load_balancer,
            *backend_identity(self.spec.backend),
            self.address,
            # What else ends a record: its successor must not wait for its name.
            self.spec.host,
            self.spec.node_uid,
            self.spec.driver,
            *(f"{k}={v}" for k, v in sorted(self.spec.lb_info.items())),
            *sorted(leaving),
        ]
        return names.record_name(group, backend, number, parts)

    def labels(self) -> dict[str, str]:
        """Return the labels by which people and LBCF's tools find it."""
        group = names.own_name(self.group.meta.key)
        if self.group.is_bind:
            labels = {
                names.LABEL_BIND_DRIVER: self.spec.driver,
                names.LABEL_BIND_LOAD_BALANCER: self.spec.load_balancer,
                names.LABEL_BIND: group,
            }
        else:
            labels = {
                names.LABEL_DRIVER: self.spec.driver,
                names.LABEL_LOAD_BALANCER: self.spec.load_balancer,
                names.LABEL_GROUP: group,
            }
        match self.spec.backend:
            case PodRef(name=name, uid=uid):
                labels[names.LABEL_POD_UID] = uid
                pod = names.LABEL_BIND_POD if self.group.is_bind else names.LABEL_POD
                labels[pod] = name
            case StaticRef(address=address):
                labels[names.LABEL_STATIC] = address
            case ServiceRef(name=name, node=node):
                labels[names.LABEL_SERVICE] = name
                labels[names.LABEL_NODE] = node
            case NodeRef(name=name):
                labels[names.LABEL_NODE] = name
        return {key: names.label_value(value) for key, value in labels.items()}


def backend_identity(backend: Backend) -> tuple[str, ...]:
    """Return the parts of a backend that its name is hashed from."""
    match backend:
        case PodRef(name, uid, port):
            return ("pod", name, uid, str(port))
        case StaticRef(address):
            return ("static", address)
        case ServiceRef(name, port, node_port, node):
            return ("service", name, str(port), str(node_port), node)
        case NodeRef(name, port):
            return ("node", name, str(port))


def identity_of(record: BackendRecord) -> Identity:
    """Return the load balancer and backend that a record is about."""
    return (record.spec.load_balancer, record.spec.backend)


def drain_of(group: BackendGroup, attachment: Attachment) -> DrainPolicy:
    """Return the drain of a group's records: the group's, the load balancer's, or 30 s."""
    return group.drain or attachment.load_balancer.drain or DrainPolicy()


def desired_records(
    snapshot: Snapshot, verdicts: Mapping[str, Verdict]
) -> Iterator[DesiredRecord]:
    """Yield every record that should exist, for the load balancers that can be used."""
    for attachment in snapshot.attachments.values():
        for found in _backends(snapshot, verdicts):
            yield _desired(snapshot.group, attachment, found)


def judge_all(snapshot: Snapshot) -> dict[str, Verdict]:
    """Judge every pod of a snapshot once, by uid; or every node, by name."""
    return with_hand_drains(snapshot, _judge_by_state(snapshot))


def _judge_by_state(snapshot: Snapshot) -> dict[str, Verdict]:
    if snapshot.scene is not None:
        return judge_nodes(snapshot.scene, snapshot.records, snapshot.attachments)
    policy = snapshot.group.deregister_policy
    verdicts = {pod.meta.uid: judge_pod(pod, policy) for pod in snapshot.pods}
    ruled = with_judgement(verdicts, snapshot.webhook_decision)
    return {str(uid): verdict for uid, verdict in ruled.items()}


@attrs.frozen
class _EligibleBackend:
    """An eligible backend.

    Attributes:
        address: where it listens.
        readable: what stands in front of its record's name.
        host: by which it says where it is, and under which uid if it is a node.
        drain_gate: what a pod says of how long its preStop waits.
    """

    backend: Backend
    address: str
    readable: tuple[str, int]
    host: str = ""
    node_uid: Uid = Uid("")
    drain_gate: str = ""


def _backends(
    snapshot: Snapshot, verdicts: Mapping[str, Verdict]
) -> Iterator[_EligibleBackend]:
    match snapshot.group.selection:
        case PodSelection() as selection:
            yield from _pod_backends(snapshot, selection, verdicts)
        case StaticSelection() if drained_group(snapshot.group) is not None:
            return
        case StaticSelection(addresses=addresses):
            for address in addresses:
                host, _, number = address.rpartition(":")
                digits = int(number) if number.isdigit() else 0
                readable = (host or address, digits)
                yield _EligibleBackend(StaticRef(address), address, readable)
        case ServiceSelection() | NodeSelection() as selection:
            yield from _node_backends(snapshot, selection, verdicts)


def _pod_backends(
    snapshot: Snapshot, selection: PodSelection, verdicts: Mapping[str, Verdict]
) -> Iterator[_EligibleBackend]:
    for pod in snapshot.pods:
        if not isinstance(verdicts[pod.meta.uid], Eligible):
            continue
        name, host = pod.meta.key.name, pod.address
        gate = pod.meta.annotations.get(names.ANNOTATION_DRAIN_GATE, "")
        for port in _numbered(pod, selection.ports):
            backend = PodRef(name, pod.meta.uid, port)
            address, readable = host_port(host, port), (name, port.number)
            yield _EligibleBackend(backend, address, readable, host, drain_gate=gate)


def _numbered(pod: Pod, ports: Iterable[Port | NamedPort]) -> Iterator[Port]:
    """Return the ports of a pod, each once, whether by number or by name."""
    found: dict[Port, None] = {}
    for port in ports:
        if isinstance(port, Port):
            found[port] = None
        elif number := pod.ports.get(port):
            found[Port(number, port.protocol)] = None
    yield from found


def _node_backends(
    snapshot: Snapshot,
    selection: ServiceSelection | NodeSelection,
    verdicts: Mapping[str, Verdict],
) -> Iterator[_EligibleBackend]:
    scene = snapshot.scene
    for name, node in scene.nodes.items() if scene is not None else ():
        if scene is None or not isinstance(verdicts[name], Eligible):
            continue
        host = scene.address(node)
        for backend, port in _ports_of(name, selection, scene.node_port):
            address, readable = host_port(host, port), (name, port.number)
            yield _EligibleBackend(backend, address, readable, host, node.meta.uid)


def _ports_of(
    node: str, selection: ServiceSelection | NodeSelection, node_port: int
) -> Iterator[tuple[Backend, Port]]:
    if isinstance(selection, NodeSelection):
        yield from ((NodeRef(node, port), port) for port in selection.ports)
        return
    backend = ServiceRef(selection.name, selection.port, node_port, node)
    yield backend, Port(node_port, selection.port.protocol)


def _desired(
    group: BackendGroup, attachment: Attachment, found: _EligibleBackend
) -> DesiredRecord:
    load_balancer, driver = attachment.load_balancer, attachment.driver
    known = found.address if driver.address_source is AddressSource.BACKEND else ""
    spec = RecordSpec(
        load_balancer=names.own_name(load_balancer.meta.key),
        driver=load_balancer.driver,
        lb_info=load_balancer.info or {},
        lb_attributes=load_balancer.attributes,
        parameters=group.parameters,
        ensure_policy=group.ensure_policy,
        backend=found.backend,
        address=known if driver.member_key is MemberKey.RECORD else "",
        drain=drain_of(group, attachment),
        host=found.host,
        node_uid=found.node_uid,
    )
    settling = driver.settling(Operation.ENSURE_BACKEND)
    return DesiredRecord(group, spec, known, found.readable, settling, found.drain_gate)
