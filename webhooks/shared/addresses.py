"""Where a member listens, read from the text that backends have. Pure.

Drivers turn what cannot be read into their own `InvalidInput`, and refuse besides what
their load balancer cannot reach.
"""

import ipaddress
import re

from ipaddress import IPv4Address, IPv6Address

import attrs


LAST_PORT = 65535

IPAddress = IPv4Address | IPv6Address

_PORT = re.compile(r"[0-9]{1,5}")


@attrs.frozen
class Address:
    """Where a member listens.

    Attributes:
        ip: without a zone.
        port: 1 to 65535.
    """

    ip: IPAddress
    port: int

    @property
    def is_nobodys(self) -> bool:
        """Whether no single machine can have it: everybody's, or a group's."""
        return self.ip.is_unspecified or self.ip.is_multicast

    def __str__(self) -> str:
        host = f"[{self.ip}]" if isinstance(self.ip, IPv6Address) else str(self.ip)
        return f"{host}:{self.port}"


def read_address(text: str, last_port: int = LAST_PORT) -> Address | None:
    """Read `IP:port` or `[IPv6]:port`; None: it is anything else.

    A zone (`fe80::1%eth0`) means nothing on another machine, so that it is none either.
    """
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    number = read_port(port, last_port)
    try:
        ip = ipaddress.ip_address(host[1:-1] if bracketed else host)
    except ValueError:
        return None
    if number is None or bracketed != isinstance(ip, IPv6Address) or "%" in host:
        return None
    return Address(ip, number)


def read_port(text: str, last_port: int = LAST_PORT) -> int | None:
    """Read a port of 1 to the last one; None: it is anything else."""
    if _PORT.fullmatch(text) is None or not 1 <= int(text) <= last_port:
        return None
    return int(text)


def is_literal(host: str) -> bool:
    """Tell whether a host is an IP address, which nobody can point elsewhere."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
