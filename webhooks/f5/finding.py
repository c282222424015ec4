"""Which of a unit's members and nodes is at an address, however the unit spells it. Pure.

A unit may write `10.0.0.1` for what was said as `10.0.0.1%0`, and `10.0.0.1%7` for
`10.0.0.1` where 7 is the default route domain of the partition. `pool` reads the objects,
and asks for that default where it matters.
"""

import ipaddress

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import attrs

from webhooks.f5.members import Member, Node
from webhooks.f5.names import Address, Mark, ObjectPath
from webhooks.shared.addresses import IPAddress


class Located(Protocol):
    """A member or a node."""

    @property
    def path(self) -> ObjectPath:
        """Where the object is."""

    @property
    def address(self) -> str:
        """As the unit writes it, with the route domain or without."""


def read_host(text: str) -> tuple[IPAddress, str] | None:
    """Read an IP address and the number of its route domain; empty: none is said.

    None: it is no address, such as `any6`.
    """
    host, _, domain = text.partition("%")
    try:
        return ipaddress.ip_address(host), _number(domain)
    except ValueError:
        return None


@attrs.frozen
class Spelling:
    """How addresses of a pool's partition are to be read.

    Attributes:
        partition: of the pool.
        default: number of its default route domain.
    """

    partition: str
    default: str = "0"

    def is_at(self, one: Located, address: Address) -> bool:
        """Tell whether an object is at an address, whatever its port."""
        shown = read_host(one.address)
        if shown is None or shown[0] != address.ip:
            return False
        unsaid = self.default if one.path.partition == self.partition else "0"
        wanted = _number(address.domain) or self.default
        return (shown[1] or unsaid) == wanted

    def is_in_doubt(
        self, there: Iterable[Located], addresses: Iterable[Address]
    ) -> bool:
        """Tell whether it takes the default to know which object is at an address."""
        says_domain = {(one.ip, bool(one.domain)) for one in addresses}
        hosts = ((one, read_host(one.address)) for one in there)
        return any(
            (host[0], not (host[1] or one.path.partition != self.partition))
            in says_domain
            for one, host in hosts
            if host is not None
        )


@attrs.frozen
class Members:
    """The members of a pool, to be found by records and their addresses.

    Attributes:
        mark: by which ours are known.
        folder: of the pool; nodes of ours are there.
        spelling: of addresses.
        paths: members by where they are.
        places: members by IP address and port, in whatever route domains.
    """

    mark: Mark
    folder: str
    spelling: Spelling
    paths: Mapping[ObjectPath, Member]
    places: Mapping[tuple[IPAddress, int], Sequence[Member]]

    def of(self, record_id: str, address: Address) -> Member | None:
        """Return the member of a record, or whoever else is at its address.

        What is marked as the record's is its member in whatever spelling: a record has
        one address all its life. So is what is ours at the path that we would give it.
        """
        own = self.paths.get(address.member_in(self.folder))
        near = self.places.get((address.ip, address.port), ())
        there = near if own is None else (own, *near)
        for one in there:
            if self.mark.record_of(one.description) == record_id:
                return one
        if own is not None and self.mark.record_of(own.description) is not None:
            return own
        return next((one for one in near if self.spelling.is_at(one, address)), None)


def by_place(
    members: Iterable[Member],
) -> Mapping[tuple[IPAddress, int], Sequence[Member]]:
    """Return members by IP address and port; those of all ports are none of ours."""
    found: dict[tuple[IPAddress, int], list[Member]] = {}
    for one in members:
        shown = read_host(one.address)
        if shown is not None and one.port is not None:
            found.setdefault((shown[0], one.port), []).append(one)
    return found


def nodes_at(
    nodes: Iterable[Node], addresses: Iterable[Address], spelling: Spelling
) -> Mapping[Address, ObjectPath]:
    """Return the nodes that addresses have, for those that have one."""
    near: dict[IPAddress, list[Node]] = {}
    for node in nodes:
        shown = read_host(node.address)
        if shown is not None:
            near.setdefault(shown[0], []).append(node)
    return {
        address: node.path
        for address in addresses
        for node in near.get(address.ip, ())
        if spelling.is_at(node, address)
    }


def _number(domain: str) -> str:
    """Return the number of a route domain in its one spelling; empty: none is said."""
    return str(int(domain)) if domain else ""
