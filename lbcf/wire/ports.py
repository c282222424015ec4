"""PortSelector in JSON: `port`, or `portNumber` as LBCF's first versions called it."""

import msgspec

from lbcf.core.model.values import Port, Protocol
from lbcf.wire.errors import Malformed


class WirePort(msgspec.Struct, rename="camel"):
    """A port of a group or a record, in either spelling."""

    port: int | None = None
    port_number: int | None = None
    protocol: str = Protocol.TCP.value


def parse_port(port: WirePort) -> Port:
    """Read a port.

    Raises:
        Malformed: it has no number, or another protocol than TCP and UDP.
    """
    number = port.port or port.port_number  # 0 is how Go writes an unset number
    if not number:
        raise Malformed("a port has neither port nor portNumber")
    try:
        return Port(number, Protocol(port.protocol.upper()))
    except ValueError as error:
        raise Malformed(f"protocol {port.protocol!r} is neither TCP nor UDP") from error


def render_port(port: Port) -> dict[str, object]:
    """Write a port of a record."""
    return {"port": port.number, "protocol": port.protocol.value}
