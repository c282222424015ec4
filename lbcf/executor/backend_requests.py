"""Requests to drivers about backends, and what their answers mean to the core.

generateBackendAddr takes whole objects, which are read when the question is asked: only
what decides is kept in memory, and a driver may look at anything of its namespace. Nodes
are nobody's: drivers of kube-system, which the cluster's operator runs, get them whole, as
in LBCF; others get what an address is made of.
"""

from datetime import datetime
from typing import TypeVar

import msgspec

from lbcf.core.lifecycle import steps
from lbcf.core.lifecycle.steps import CallDriver
from lbcf.core.model.names import SYSTEM_NAMESPACE
from lbcf.core.model.node_backends import NodeRef, ServiceRef
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, PodRef
from lbcf.core.model.values import MemberKey, ObjectKey, Port
from lbcf.kube.kinds import NODES, PODS, SERVICES, HasMeta, Resource
from lbcf.kube.reader import KubeReader
from lbcf.wire import driver_answers as answers
from lbcf.wire import driver_requests as requests
from lbcf.wire.driver_answers import RetriedAnswer, WholeObject
from lbcf.wire.raw_object import node_address_fields


_R = TypeVar("_R", bound="requests.BackendRequest[answers.BackendAnswer]")


def backend_request(
    step: CallDriver, retry_id: str, not_after: datetime
) -> requests.BackendRequest[answers.BackendAnswer]:
    """Write the request of an operation on a member.

    Raises:
        ValueError: the operation is not one on a member.
    """
    if step.operation is Operation.ENSURE_BACKEND:
        ensuring = _member(requests.EnsureBackendRequest, step, retry_id, not_after)
        where = step.permission.record.load_balancer_key.namespace
        return msgspec.structs.replace(ensuring, namespace=where)
    if step.operation is Operation.DEREGISTER_BACKEND:
        request = _member(requests.DeregisterBackendRequest, step, retry_id, not_after)
        return msgspec.structs.replace(request, drained=step.drained)
    if step.drain is None:
        raise ValueError(f"{step.operation} on a member without a drain's clock")
    drain = requests.Drain(
        started_at=step.drain.started_at, deadline=step.drain.deadline
    )
    draining = _member(requests.DrainBackendRequest, step, retry_id, not_after)
    return msgspec.structs.replace(draining, drain=drain)


def _member(kind: type[_R], step: CallDriver, retry_id: str, not_after: datetime) -> _R:
    """Write what every operation on a member says."""
    record = step.permission.record
    return kind(
        record_id=record.meta.uid,
        retry_id=retry_id,
        not_after=not_after,
        lb_info=dict(record.spec.lb_info),
        backend_addr=step.address,
        parameters=dict(record.spec.parameters),
        injected_info=dict(record.status.injected_info),
        member_key=step.driver.member_key,
    )


def reply_of(
    answer: RetriedAnswer,
) -> steps.Succeeded | steps.StillRunning | steps.CallRefused:
    """Read how an attempt ended."""
    delay = answer.min_retry_delay
    match answer.status:
        case answers.Status.SUCC:
            return _succeeded(answer)
        case answers.Status.RUNNING:
            connections = getattr(answer, "active_connections", None)
            return steps.StillRunning(answer.msg, delay, connections)
        case answers.Status.FAIL:
            return steps.CallRefused(answer.msg, delay)


def _succeeded(answer: RetriedAnswer) -> steps.Succeeded:
    match answer:
        case answers.BackendAnswer():
            serves = answer.in_service
            return steps.Succeeded(answer.injected_info, in_service=serves)
        case answers.GenerateBackendAddrAnswer():
            return steps.Succeeded(backend_addr=answer.backend_addr)
        case _:
            return steps.Succeeded()


T = TypeVar("T", bound=HasMeta)


async def ask_for_address(
    client: KubeReader,
    record: BackendRecord,
    retry_id: str,
    not_after: datetime,
    member_key: MemberKey,
) -> requests.GenerateBackendAddrRequest:
    """Put the question together.

    Raises:
        KubeError: what the record is about cannot be read.
        ValueError: the record is about an address that its user gave.
    """
    question = await _about(client, record)
    return msgspec.structs.replace(
        question,
        retry_id=retry_id,
        not_after=not_after,
        lb_info=dict(record.spec.lb_info),
        lb_attributes=dict(record.spec.lb_attributes),
        parameters=dict(record.spec.parameters),
        member_key=member_key,
    )


async def _about(
    client: KubeReader, record: BackendRecord
) -> requests.GenerateBackendAddrRequest:
    """Return what the address is to be of."""
    namespace, task = record.meta.key.namespace, record.meta.uid
    ask = requests.GenerateBackendAddrRequest
    match record.spec.backend:
        case PodRef(name=name, port=port):
            pod = await _whole(client, PODS, ObjectKey(namespace, name))
            backend = requests.PodBackend(pod=pod, port=_port(port))
            return ask(record_id=task, pod_backend=backend)
        case ServiceRef(name, port, _, node):
            found = await client.get(NODES, ObjectKey("", node))
            service = requests.ServiceBackend(
                service=await _whole(client, SERVICES, ObjectKey(namespace, name)),
                port=_port(port),
                node_name=node,
                node_addresses=[
                    requests.NodeAddress(type=a.type, address=a.address)
                    for a in found.addresses
                ],
            )
            return ask(record_id=task, service_backend=service)
        case NodeRef(name, port):
            node_object = await _whole(client, NODES, ObjectKey("", name))
            if record.driver_key.namespace != SYSTEM_NAMESPACE:
                node_object = node_address_fields(node_object)
            of_node = requests.NodeBackend(node=node_object, port=_port(port))
            return ask(record_id=task, node_backend=of_node)
        case _:
            raise ValueError(f"record {record.meta.key} has an address of its own")


async def _whole(client: KubeReader, kind: Resource[T], key: ObjectKey) -> WholeObject:
    raw = await client.get_raw(kind, key)
    return msgspec.json.decode(raw, type=dict[str, object])


def _port(port: Port) -> requests.PortSelector:
    return requests.PortSelector(port=port.number, protocol=port.protocol.value)
