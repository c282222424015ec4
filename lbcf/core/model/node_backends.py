"""Backends that are nodes: what a group means by them, and what a record says of one.

Parts of `lbcf.core.model.resources`. A Service's NodePort is served by every node, or with
externalTrafficPolicy Local by those that run one of its pods; a port of a node is served
by whatever listens there.
"""

from collections.abc import Mapping
from enum import StrEnum

import attrs

from lbcf.core.model.selectors import Selector
from lbcf.core.model.values import Port


class AddressType(StrEnum):
    """Which of a node's addresses is meant (NodeAddress in the Kubernetes API)."""

    INTERNAL_IP = "InternalIP"
    EXTERNAL_IP = "ExternalIP"
    HOSTNAME = "Hostname"


class IpFamily(StrEnum):
    """The version of the Internet protocol of an address."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"


@attrs.frozen
class ServiceSelection:
    """The NodePort of a Service on each selected node.

    Attributes:
        name: of the Service, in the group's namespace.
        port: of the Service; its node port is looked up.
        node_labels: that a node must have.
    """

    name: str
    port: Port
    node_labels: Mapping[str, str] = attrs.Factory(dict)

    @property
    def selector(self) -> Selector:
        """Return which nodes are meant."""
        return Selector(self.node_labels)


@attrs.frozen
class NodeSelection:
    """Ports of nodes.

    Attributes:
        ports: each of them becomes a backend of each node.
        selector: which nodes.
        address_type: under which of its addresses a node is registered.
        family: of that address; None: the first address of the type, whatever it is.
    """

    ports: tuple[Port, ...]
    selector: Selector = attrs.Factory(Selector)
    address_type: AddressType = AddressType.INTERNAL_IP
    family: IpFamily | None = None


@attrs.frozen
class ServiceRef:
    """The node port of a Service on one node."""

    name: str
    port: Port
    node_port: int
    node: str


@attrs.frozen
class NodeRef:
    """A port of a node."""

    name: str
    port: Port

    @property
    def node(self) -> str:
        """Name the node, as a `ServiceRef` does."""
        return self.name
