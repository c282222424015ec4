"""Which addresses members may have: what a tenant must not reach by a load balancer. Pure.

A load balancer stands where its users do not: its own machine, its link, the metadata
service of its cloud. Whoever may register an address of their choice there would reach
them through it (CVE-2021-25740 is of that kind). So these are refused unless the
operator opens a network, and the load balancer's own control endpoints always.

What comes is checked, never what goes: whatever is in can be taken out.
"""

import argparse
import ipaddress

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Network

import attrs

from lbcf.runtime.addresses import plain
from webhooks.shared.addresses import Address, IPAddress


Network = IPv4Network | IPv6Network

FLAG = "--allow-addresses"

_THIS_NETWORK = IPv4Network("0.0.0.0/8")
_METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in ("fd00:ec2::254", "168.63.129.16", "100.100.100.200")
)
"""Metadata services of clouds that are not link-local: AWS over IPv6, Azure, Alibaba."""


@attrs.frozen
class AllowedAddresses:
    """The addresses that members may have, beside those that any machine can have.

    Attributes:
        networks: that the operator opened, whatever is special about them.
    """

    networks: Sequence[Network] = ()

    def opens(self, ip: IPAddress) -> bool:
        """Tell whether the operator opened a network that an address is in."""
        return any(plain(ip) in network for network in self.networks)

    def objection(self, address: Address, control: Iterable[Address] = ()) -> str:
        """Return why no member may be registered there; empty: one may.

        Args:
            address: of the member.
            control: endpoints by which the load balancer itself is operated.
        """
        ip = plain(address.ip)
        if (ip, address.port) in {(plain(one.ip), one.port) for one in control}:
            return f"{address} is where the load balancer itself is operated"
        kind = _kind(ip)
        if not kind or self.opens(ip):
            return ""
        return (
            f"{address} is {kind}, which no member may have: the driver's operator can "
            f"open a network with {FLAG}"
        )


def _kind(ip: IPAddress) -> str:
    """Return what is special about an address; empty: nothing is."""
    kinds = (
        (ip.is_unspecified, "the unspecified address"),
        (isinstance(ip, IPv4Address) and ip in _THIS_NETWORK, "of 0.0.0.0/8"),
        (ip.is_loopback, "a loopback address"),
        (ip.is_link_local, "a link-local address"),
        (ip.is_multicast, "a multicast address"),
        (ip in _METADATA, "the metadata service of a cloud"),
        (isinstance(ip, IPv4Address) and ip.is_reserved, "a reserved address"),
    )
    return next((kind for is_so, kind in kinds if is_so), "")


def spelling(text: str, canonical: object) -> str:
    """Return what is wrong with how an address is written; empty: nothing is.

    Locks are on the text of an address: two spellings of one would be two members.
    """
    known = str(canonical)
    return "" if text == known else f"write {text!r:.120} as {known}"


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag by which an operator opens networks."""
    parser.add_argument(
        FLAG,
        action="append",
        metavar="NETWORK",
        help="addresses that members may have although they are loopback, link-local "
        "or otherwise special, such as 127.0.0.0/8; may be repeated (default: none)",
    )


def read_flag(chosen: argparse.Namespace) -> AllowedAddresses:
    """Return what the flag says.

    Raises:
        ValueError: one of them is no network.
    """
    networks: list[Network] = []
    for text in chosen.allow_addresses or ():
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise ValueError(f"{FLAG} {text!r:.60}: {error}") from error
    return AllowedAddresses(tuple(networks))
