"""`spec.service` and `spec.nodes` of a group in JSON (the rest: `lbcf.wire.resources`)."""

import msgspec

from lbcf.core.model.node_backends import (
    AddressType,
    IpFamily,
    NodeSelection,
    ServiceSelection,
)
from lbcf.wire.errors import Malformed
from lbcf.wire.ports import WirePort, parse_port
from lbcf.wire.selectors import WireExpression, parse_selector


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
    address_type: str = AddressType.INTERNAL_IP.value
    ip_family: str | None = None


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
    try:
        kind = AddressType(found.address_type)
        family = None if found.ip_family is None else IpFamily(found.ip_family)
    except ValueError as error:
        raise Malformed(str(error)) from error
    selector = parse_selector(found.selector, found.match_expressions)
    return NodeSelection(ports, selector, kind, family)
