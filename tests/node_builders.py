"""Nodes, Services and what groups mean by them, with only what a test is about said.

The everyday: nodes n1, n2, ... at 192.0.2.1, 192.0.2.2, ..., Service `web` with port 80
on node port 30080.
"""

from collections.abc import Mapping

from lbcf.controller.endpoint_slices import slice_store
from lbcf.core.model.node_backends import (
    NodeSelection,
    ServiceRef,
    ServiceSelection,
)
from lbcf.core.model.nodes import (
    SERVICE_LABEL,
    EndpointSlice,
    LocalState,
    Node,
    NodePortService,
    NodeScene,
    NodeStatusAddress,
    ServicePort,
)
from lbcf.core.model.resources import BackendGroup, BackendRecord, Selection
from lbcf.core.model.selectors import Selector
from lbcf.core.model.values import Port, Uid
from lbcf.kube.list_watch import Put
from lbcf.kube.store import Store
from tests.builders import NAMESPACE, a_group, a_key, a_meta, a_record, a_spec, seconds


HTTP = Port(80)
NODE_PORT = 30080
OF_SERVICE = ServiceSelection("web", HTTP)
OF_NODES = NodeSelection((HTTP,))


def a_node(
    number: int = 1,
    *,
    addresses: tuple[NodeStatusAddress, ...] | None = None,
    taints: frozenset[str] = frozenset(),
    deleting: bool = False,
    version: int = 1,
    labels: Mapping[str, str] | None = None,
) -> Node:
    """Make a node that stays."""
    name = f"n{number}"
    meta = a_meta(
        name, namespace="", version=version, deleting=deleting, labels=labels or {}
    )
    known = (NodeStatusAddress("InternalIP", f"192.0.2.{number}"),)
    return Node(meta, known if addresses is None else addresses, taints)


def a_service(
    *,
    local: bool = False,
    node_port: int = NODE_PORT,
    kind: str = "NodePort",
    deleting: bool = False,
    version: int = 1,
) -> NodePortService:
    """Make a Service with a lone port."""
    meta = a_meta("web", version=version, deleting=deleting)
    return NodePortService(
        meta, kind, (ServicePort("", HTTP, node_port),), is_local=local
    )


def a_scene(
    *nodes: Node,
    local: Mapping[str, LocalState] | None = None,
    unreadable: Mapping[str, str] | None = None,
) -> NodeScene:
    """Make a scene of nodes with the everyday node port."""
    return NodeScene(
        {node.name: node for node in nodes},
        unreadable or {},
        node_port=NODE_PORT,
        local=local,
    )


def a_node_group(
    name: str = "web",
    *,
    selection: Selection = OF_SERVICE,
    max_unready_percent: int | None = None,
    version: int = 2,
) -> BackendGroup:
    """Make a group of the everyday Service's node port."""
    return a_group(
        name,
        selection=selection,
        max_unready_percent=max_unready_percent,
        version=version,
    )


def labelled(label: str) -> NodeSelection:
    """Mean the nodes with a label of that key."""
    return NodeSelection((HTTP,), Selector({label: "yes"}))


def a_node_record(
    number: int = 1,
    *,
    registered: bool = True,
    deleting: bool = False,
    node_port: int = NODE_PORT,
    version: int = 1,
) -> BackendRecord:
    """Make the record of the everyday Service on a node."""
    node = f"n{number}"
    backend = ServiceRef("web", HTTP, node_port, node)
    address = f"192.0.2.{number}:{node_port}"
    spec = a_spec(address=address, backend=backend, drain_timeout=seconds(30))
    return a_record(
        f"web-{node}",
        spec=spec,
        registered=registered,
        deleting=deleting,
        version=version,
    )


def slices_of(**states: LocalState) -> Store[EndpointSlice]:
    """Make a store that has read what these nodes have of the everyday Service."""
    slices = slice_store(NAMESPACE)
    meta = a_meta("web-x", uid=Uid("u-x"), labels={SERVICE_LABEL: "web"})
    slices.apply(Put(EndpointSlice(meta, frozenset({""}), states)))
    return slices


SERVICE_KEY = a_key("web")
