"""IP addresses that stand for others. Pure; for what may not be reached, however it is written."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network


_EMBEDDING = (IPv6Network("::/96"), IPv6Network("64:ff9b::/96"))
"""Addresses that end with one of IPv4: IPv4-compatible (RFC 4291), NAT64 (RFC 6052)."""


def plain(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the address of IPv4 that one of IPv6 stands for, else the address itself."""
    if isinstance(ip, IPv4Address) or ip == IPv6Address("::1"):
        return ip
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    if any(ip in network for network in _EMBEDDING):
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip
