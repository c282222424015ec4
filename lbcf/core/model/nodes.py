"""Nodes, Services and EndpointSlices: what decides whether a node is a backend."""

from collections.abc import Iterable, Mapping
from enum import IntEnum

import attrs

from lbcf.core.model.node_backends import AddressType, IpFamily
from lbcf.core.model.resources import Meta
from lbcf.core.model.services import Exposure
from lbcf.core.model.values import Port
from lbcf.core.reasons import Explanation


EXCLUDE_LABEL = "node.kubernetes.io/exclude-from-external-load-balancers"
"""Takes a node out of load balancers, whatever its value (KEP-1143)."""
SERVICE_LABEL = "kubernetes.io/service-name"
"""Says on each EndpointSlice whose it is (discovery.k8s.io/v1)."""
LEAVING_TAINTS = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
    }
)
"""Set by an autoscaler on a node that it is about to delete; the last one is what
Karpenter before 1.0 sets."""


@attrs.frozen
class NodeStatusAddress:
    """One of `status.addresses`, in the kubelet's order: its first family goes first."""

    type: str
    address: str

    @property
    def family(self) -> IpFamily:
        """Return the family of an IP address."""
        return IpFamily.IPV6 if ":" in self.address else IpFamily.IPV4


@attrs.frozen
class Node:
    """The few fields of a node that make it a backend or not.

    Whether it is Ready, or cordoned, is not among them: neither says anything about the
    traffic that passes through it (KEP-3458).

    Attributes:
        leaving: those of its taints by which an autoscaler announces its end.
    """

    meta: Meta
    addresses: tuple[NodeStatusAddress, ...] = ()
    leaving: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Return its name."""
        return self.meta.key.name

    @property
    def is_excluded(self) -> bool:
        """Return whether its label keeps it out of load balancers."""
        return EXCLUDE_LABEL in self.meta.labels

    def address(self, kind: AddressType, family: IpFamily | None) -> str:
        """Return its first address of a type and a family; empty where there is none."""
        found = (a for a in self.addresses if a.type == kind)
        if family is not None and kind is not AddressType.HOSTNAME:
            found = (a for a in found if a.family is family)
        return next((a.address for a in found), "")


@attrs.frozen
class ServicePort:
    """A port of a Service.

    Attributes:
        name: by which EndpointSlices refer to it; empty for a lone one.
        node_port: 0 where it has none.
    """

    name: str
    port: Port
    node_port: int = 0


@attrs.frozen
class NodePortService:
    """What of a Service decides where its node ports answer.

    Attributes:
        type: ClusterIP, NodePort, LoadBalancer or ExternalName.
        is_local: nodes are to serve by their own pods alone: externalTrafficPolicy is
            Local, or is announced to become so. kube-proxy acts upon the field at once,
            so that nodes without pods must have left before.
        family: of its node ports' addresses, the first of them; None where unsaid.
        exposure: how it is to be balanced, where its type is LoadBalancer.
    """

    meta: Meta
    type: str
    ports: tuple[ServicePort, ...] = ()
    is_local: bool = False
    family: IpFamily | None = None
    exposure: Exposure | None = None

    def find_port(self, port: Port) -> ServicePort | None:
        """Return one of its ports."""
        return next((p for p in self.ports if p.port == port), None)


class LocalState(IntEnum):
    """The best state of the endpoints on one node; a higher one is better."""

    ENDING = 1
    """They are terminating and serve no more."""
    UNREADY = 2
    """Some live on, but none is ready."""
    SERVING = 3
    """They are terminating and still serve: kube-proxy sends to them where no ready
    one is left on the node (KEP-1669)."""
    READY = 4
    """One is ready."""


@attrs.frozen
class EndpointSlice:
    """The endpoints of a Service, or some of them, by node.

    Attributes:
        ports: names of the ports that they serve.
        nodes: the best state on each node.
    """

    meta: Meta
    ports: frozenset[str] = frozenset()
    nodes: Mapping[str, LocalState] = attrs.Factory(dict)


def local_states(slices: Iterable[EndpointSlice], port: str) -> dict[str, LocalState]:
    """Return the best state of a port's endpoints on each node, over all slices."""
    found: dict[str, LocalState] = {}
    for one in slices:
        if port in one.ports:
            for node, state in one.nodes.items():
                found[node] = max(state, found.get(node, state))
    return found


@attrs.frozen
class NodeScene:
    """All that decides about the nodes of one group.

    Attributes:
        nodes: by name, those that are selected and are to be looked at.
        unreadable: names of nodes that cannot be understood, with what is wrong.
        address_type: under which address a node is registered.
        family: of that address; None: any.
        node_port: of the Service; 0 for groups of nodes.
        local: what a Service with externalTrafficPolicy Local has on each node; None
            where that is no matter.
        closed: why none may be registered; None: some may.
    """

    nodes: Mapping[str, Node]
    unreadable: Mapping[str, str] = attrs.Factory(dict)
    address_type: AddressType = AddressType.INTERNAL_IP
    family: IpFamily | None = None
    node_port: int = 0
    local: Mapping[str, LocalState] | None = None
    closed: Explanation | None = None

    def address(self, node: Node) -> str:
        """Return the address that a node is registered under; empty: it has none."""
        return node.address(self.address_type, self.family)
