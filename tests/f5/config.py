"""The configuration of an emulated unit: pools, members, nodes; what they refuse.

`unit` changes one that runs and copies it to disk and to other units.
"""

import copy
import ipaddress

from collections.abc import Mapping
from typing import Self

import attrs

from tests.f5.documents import Document, error_document


WRITABLE = {
    "ratio": int, "connectionLimit": int, "priorityGroup": int, "monitor": str,
    "description": str, "session": str, "state": str, "address": str, "fqdn": dict,
    "name": str, "partition": str,
}  # fmt: skip
"""Fields that may be written, and their types."""

STATES = {
    "state": {"user-up", "user-down"},
    "session": {"user-enabled", "user-disabled"},
}
"""What may be written; what else is read there is computed."""


class Refusal(Exception):  # noqa: N818  (it is an answer)
    """An error reply.

    Attributes:
        status: of HTTP.
        document: the body.
    """

    def __init__(self, status: int, message: str, number: int = 3) -> None:
        super().__init__(message)
        self.status = status
        self.document = error_document(status, message, number)


@attrs.define
class Node:
    """An address and its name."""

    path: str
    address: str
    description: str = ""
    generation: int = 1


@attrs.define
class Member:
    """A member: its node, port and what was written to it."""

    path: str
    node: str
    address: str
    port: int
    fields: Document = attrs.field(factory=dict)
    generation: int = 1


@attrs.define
class Pool:
    """A pool; the monitor is empty where it has none."""

    path: str
    monitor: str = ""
    members: dict[str, Member] = attrs.field(factory=dict)
    generation: int = 1


@attrs.define
class Config:
    """All that a unit saves to disk; `generation` grows with each change.

    Addresses say their route domain in it, unless that is 0.

    Attributes:
        domains: default route domains of partitions, where they are not 0.
    """

    pools: dict[str, Pool] = attrs.field(factory=dict)
    nodes: dict[str, Node] = attrs.field(factory=dict)
    domains: dict[str, int] = attrs.field(factory=dict)
    generation: int = 1

    def copy(self) -> Self:
        """Return one that changes by itself."""
        return copy.deepcopy(self)

    def touch(self) -> int:
        """Count a change."""
        self.generation += 1
        return self.generation

    def pool(self, path: str) -> Pool:
        """Return a pool."""
        if path not in self.pools:
            text = f"01020036:3: The requested Pool ({path}) was not found."
            raise Refusal(404, text)
        return self.pools[path]

    def member(self, pool: str, path: str) -> Member:
        """Return a member of a pool."""
        found = self.pool(pool).members.get(path)
        if found is None:
            node, port = split_name(path)
            named = f"{pool} {node} {port}"
            text = f"01020036:3: The requested Pool Member ({named}) was not found."
            raise Refusal(404, text)
        return found

    def node(self, path: str) -> Node:
        """Return a node."""
        if path not in self.nodes:
            text = f"01020036:3: The requested Node ({path}) was not found."
            raise Refusal(404, text)
        return self.nodes[path]

    def add_member(self, pool: str, body: Mapping[str, object]) -> Member:
        """Add a member, and a node where there is none."""
        check_fields(body)
        path = full_path(body)
        node_path, port = split_name(path)
        owner = self.pool(pool)
        if path in owner.members:
            named = f"{pool} {node_path} {port}"
            raise Refusal(
                409,
                f"01020066:3: The requested Pool Member ({named}) already exists in "
                f"partition {path.split('/')[1]}.",
            )
        if node_path not in self.nodes:
            address = body.get("address") or node_path.rpartition("/")[2]
            self.add_node({"name": node_path, "address": address})
        address = self.nodes[node_path].address
        fields: Document = {"session": "user-enabled", "state": "user-up", **body}
        member = Member(path, node_path, address, port, fields, self.touch())
        owner.members[path] = member
        return member

    def add_node(self, body: Mapping[str, object]) -> Node:
        """Add a node; an address has one at most."""
        path = full_path(body)
        address = self._canonical(path, str(body.get("address", "")))
        if path in self.nodes:
            raise Refusal(
                409,
                f"01020066:3: The requested Node ({path}) already exists in partition "
                f"{path.split('/')[1]}.",
            )
        if any(node.address == address for node in self.nodes.values()):
            text = f"0107176c:3: Invalid Node, the IP address {address} already exists."
            raise Refusal(400, text)
        made = Node(path, address, str(body.get("description", "")), self.touch())
        self.nodes[path] = made
        return made

    def _canonical(self, path: str, address: str) -> str:
        """Return the address of a node, with its route domain unless that is 0."""
        host, _, domain = address.partition("%")
        try:
            ip = ipaddress.ip_address(host)
            number = int(domain) if domain else self.domain(path)
        except ValueError as error:
            text = f"01070587:3: The requested node ({address}) is invalid."
            raise Refusal(400, text) from error
        return f"{ip}%{number}" if number else str(ip)

    def domain(self, path: str) -> int:
        """Return the default route domain of the partition that a path is in."""
        return self.domains.get(path.split("/")[1], 0)

    def remove_node(self, path: str) -> None:
        """Remove a node that no member refers to."""
        self.node(path)
        for pool in self.pools.values():
            if any(member.node == path for member in pool.members.values()):
                raise Refusal(
                    400,
                    f"01070110:3: Node address '{path}' is referenced by a member of "
                    f"pool '{pool.path}'.",
                )
        del self.nodes[path]
        self.touch()


def check_fields(body: Mapping[str, object]) -> None:
    """Refuse what cannot be written."""
    for name, value in body.items():
        kind = WRITABLE.get(name)
        if kind is None:
            raise Refusal(400, f'"{name}" unknown property', 26214401)
        if type(value) is not kind:
            raise Refusal(400, f'invalid property value "{name}":"{value}"', 26214401)
        if value not in STATES.get(name, {value} if kind is not dict else [value]):
            raise Refusal(400, f'invalid property value "{name}":"{value}"', 26214401)


def full_path(body: Mapping[str, object]) -> str:
    """Return the path that a body names; Common where no partition is said."""
    name = str(body.get("name", ""))
    return (
        name if name.startswith("/") else f"/{body.get('partition', 'Common')}/{name}"
    )


def split_name(path: str) -> tuple[str, int]:
    """Return the node's path and the port of a member's path."""
    separator = "." if path.rpartition("/")[2].count(":") > 1 else ":"
    node, _, port = path.rpartition(separator)
    if not port.isdigit():
        raise Refusal(400, f"01070734:3: {path} has no port", 26214401)
    return node, int(port)
