"""generateBackendAddr: the question for a backend's address, with the whole objects.

Before it: `perform`, with a record whose driver finds addresses. The objects are read
when the question is asked: only what decides is kept in memory, and a driver may look at
anything of its namespace. Nodes are nobody's: drivers of kube-system, which the cluster's
operator runs, get them whole, as in LBCF; others get what an address is made of.
"""

from datetime import datetime
from typing import TypeVar

import msgspec

from lbcf.core.model.names import SYSTEM_NAMESPACE
from lbcf.core.model.node_backends import NodeRef, ServiceRef
from lbcf.core.model.resources import BackendRecord, PodRef
from lbcf.core.model.values import ObjectKey, Port
from lbcf.kube.kinds import NODES, PODS, SERVICES, HasMeta, Resource
from lbcf.kube.reader import KubeReader
from lbcf.wire import driver_requests as requests
from lbcf.wire.driver_answers import WholeObject
from lbcf.wire.raw_object import node_address_fields


T = TypeVar("T", bound=HasMeta)


async def ask_for_address(
    client: KubeReader, record: BackendRecord, retry_id: str, not_after: datetime
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
    )


async def _about(
    client: KubeReader, record: BackendRecord
) -> requests.GenerateBackendAddrRequest:
    """Say what the address is to be of."""
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
    """Read an object as the API server has it."""
    raw = await client.get_raw(kind, key)
    return msgspec.json.decode(raw, type=dict[str, object])


def _port(port: Port) -> requests.PortSelector:
    """Write a port as drivers take it."""
    return requests.PortSelector(port=port.number, protocol=port.protocol.value)
