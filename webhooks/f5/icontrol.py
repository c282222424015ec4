"""The calls of iControl REST that the driver makes, as methods.

`pool` and `units` call them, `session` carries them. Requests as F5's own clients send
them: the partition is always said (without it an add may be answered 404 although it
was made), and both of session and state are.
"""

import contextlib

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

import attrs

from webhooks.device.errors import Uncertain, Unreadable
from webhooks.device.replies import Document, Reply
from webhooks.f5.errors import Forbidden, Missing, NoSuchGroup, NoSuchPool
from webhooks.f5.members import Member, Node, Wanted, read_member, read_node
from webhooks.f5.names import ObjectPath
from webhooks.f5.session import Request, Session


_LTM = "/mgmt/tm/ltm"
_TRANSACTION = "/mgmt/tm/transaction"
_CONNECTIONS = "serverside.curConns"

SLOW = timedelta(minutes=1)
"""What saving, and bringing other units up to date, may take."""

_T = TypeVar("_T")


@attrs.frozen
class Icontrol:
    """One unit's objects. What changes something needs a turn of the session.

    Attributes:
        session: with the unit.
        transaction: id of the one that changes are queued in; empty: they are made at once.
    """

    session: Session
    transaction: str = ""

    async def check_pool(self, pool: ObjectPath) -> None:
        """Find the pool.

        Raises:
            NoSuchPool: it is not there.
        """
        try:
            await self.session.get(_pool(pool))
        except Missing as error:
            raise _no_pool(pool, error) from error

    async def check_group(self, group: ObjectPath) -> None:
        """Find the device group.

        Raises:
            NoSuchGroup: it is not there.
        """
        try:
            await self.session.get(f"/mgmt/tm/cm/device-group/{group.in_url}")
        except Missing as error:
            text = f"there is no device group {group}: correct syncGroup ({error})"
            raise NoSuchGroup(text, error.status, error.said) from error

    async def member(self, pool: ObjectPath, path: ObjectPath) -> Member | None:
        """Return a member; None: it is not there, or the pool is not."""
        try:
            document = await self.session.get(_member(pool, path))
        except Missing:
            return None
        # Old versions answer 200, and no address, for what is not there.
        return read_member(document) if "address" in document else None

    async def members(self, pool: ObjectPath) -> Sequence[Member]:
        """Return all members, whoever put them there.

        Raises:
            NoSuchPool: the pool is not there.
        """
        try:
            document = await self.session.get(f"{_pool(pool)}/members")
        except Missing as error:
            raise _no_pool(pool, error) from error
        return list(_readable(document, read_member))

    async def connections(self, pool: ObjectPath, path: ObjectPath) -> int | None:
        """Return how many connections a member has; None: it is not there."""
        try:
            document = await self.session.get(f"{_member(pool, path)}/stats")
        except Missing:
            return None
        counts = list(_counts(document).values())
        if len(counts) != 1:
            raise Unreadable(f"the statistics of {path} have no {_CONNECTIONS}")
        return counts[0]

    async def loads(self, pool: ObjectPath) -> Mapping[str, int]:
        """Return the connections of all members, by their names in URLs."""
        try:
            document = await self.session.get(f"{_pool(pool)}/members/stats")
        except Missing as error:
            raise _no_pool(pool, error) from error
        return {
            key.partition("/members/")[2].partition("/")[0]: count
            for key, count in _counts(document).items()
        }

    async def add_member(self, pool: ObjectPath, node: ObjectPath, it: Wanted) -> None:
        """Add a member at a node, in full service.

        Raises:
            Duplicate: it is there.
            Missing: no such pool; also answered, at times, although it was made.
        """
        fields = it.options.render()
        if fields["monitor"] == "default":
            del fields["monitor"]
        named = {
            "name": it.address.named(node.name),
            "partition": node.folder,
            "session": "user-enabled",
            "description": it.description,
        }
        await self._change("POST", f"{_pool(pool)}/members", named | fields)

    async def modify_member(
        self, pool: ObjectPath, path: ObjectPath, fields: Mapping[str, object]
    ) -> None:
        """Change fields of a member.

        Raises:
            Missing: it is not there.
        """
        await self._change("PATCH", _member(pool, path), fields)

    async def remove_member(self, pool: ObjectPath, path: ObjectPath) -> None:
        """Take a member out.

        Raises:
            Missing: it is not there.
        """
        await self._change("DELETE", _member(pool, path))

    async def node(self, path: ObjectPath) -> Node | None:
        """Return a node; None: it is not there."""
        try:
            document = await self.session.get(_node(path))
        except Missing:
            return None
        return read_node(document) if "address" in document else None

    async def nodes(self) -> Sequence[Node]:
        """Return all nodes of all partitions that the user may see."""
        document = await self.session.get(f"{_LTM}/node")
        return list(_readable(document, read_node))

    async def add_node(self, node: Node) -> None:
        """Add a node.

        Raises:
            Duplicate, AddressTaken: its name, or its address, is there already.
        """
        fields = {
            "name": node.path.name,
            "partition": node.path.folder,
            "address": node.address,
            "description": node.description,
        }
        await self._change("POST", f"{_LTM}/node", fields)

    async def remove_node(self, path: ObjectPath) -> None:
        """Remove a node.

        Raises:
            NodeInUse: members refer to it.
            Missing: it is not there.
        """
        await self._change("DELETE", _node(path))

    async def default_domain(self, partition: str) -> str:
        """Return the route domain of addresses in a partition that say none.

        Where the user may not look, it is taken for the one that partitions begin with.
        """
        try:
            document = await self.session.get(f"/mgmt/tm/auth/partition/{partition}")
        except (Forbidden, Missing):
            return "0"
        return str(document.get("defaultRouteDomain", 0))

    async def failover_state(self) -> str:
        """Return what this unit says of itself: active, standby, offline ..."""
        for one in _items(await self.session.get("/mgmt/tm/cm/device")):
            if str(one.get("selfDevice")).lower() == "true":
                return str(one.get("failoverState", ""))
        return ""

    async def begin(self) -> "Icontrol":
        """Begin a transaction; return calls whose changes wait in it for `commit`.

        It is gone where it had no command for as long as `timeoutSeconds` says, mostly two
        minutes. Reads would be queued, too: let those of these calls be.
        """
        reply = await self._change("POST", _TRANSACTION, {})
        number = reply.expect_document(self.session.device).get("transId")
        if not isinstance(number, int):
            raise Unreadable(f"a transaction whose transId is {number!r:.60}")
        return attrs.evolve(self, transaction=str(number))

    async def commit(self) -> None:
        """Make all changes of the transaction.

        Raises:
            Refused: one cannot be made, and none was; which class says why.
            Uncertain: the unit does not say that they are made.
        """
        path = f"{_TRANSACTION}/{self.transaction}"
        reply = await self.session.change(
            Request("PATCH", path, {"state": "VALIDATING"})
        )
        state = reply.expect_document(self.session.device).get("state")
        if state != "COMPLETED":
            text = f"{self.session.device}: a transaction is {state!r:.60} after its commit"
            raise Uncertain(text)

    async def abandon(self) -> None:
        """Delete the transaction: nothing of it is made."""
        path = f"{_TRANSACTION}/{self.transaction}"
        await self.session.change(Request("DELETE", path))

    async def save(self) -> None:
        """Write the running configuration to disk."""
        body = {"command": "save"}
        await self._change("POST", "/mgmt/tm/sys/config", body, SLOW)

    async def synchronize(self, group: ObjectPath) -> None:
        """Bring this unit's configuration to the others of a device group.

        A unit does so though it is not active, over what the active one has.

        Raises:
            Missing: there is no such device group.
        """
        body = {"command": "run", "utilCmdArgs": f"config-sync to-group {group}"}
        await self._change("POST", "/mgmt/tm/cm", body, SLOW)

    async def _change(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        patience: timedelta | None = None,
    ) -> Reply:
        """Have a change made, or queued."""
        return await self.session.change(
            Request(method, path, body, patience, self.transaction)
        )


def _pool(path: ObjectPath) -> str:
    """Return the URL's path of a pool."""
    return f"{_LTM}/pool/{path.in_url}"


def _member(pool: ObjectPath, path: ObjectPath) -> str:
    """Return the URL's path of a member."""
    return f"{_pool(pool)}/members/{path.in_url}"


def _node(path: ObjectPath) -> str:
    """Return the URL's path of a node."""
    return f"{_LTM}/node/{path.in_url}"


def _no_pool(pool: ObjectPath, error: Missing) -> NoSuchPool:
    """Return the error for a pool that is not there."""
    text = f"there is no pool {pool}: make it, or correct the load balancer ({error})"
    return NoSuchPool(text, error.status, error.said)


def _readable(document: Document, read: Callable[[Document], _T]) -> Iterator[_T]:
    """Give the objects of a collection that can be read.

    Those of other people may be of any kind, such as FQDN members without an address.
    """
    for one in _items(document):
        with contextlib.suppress(Unreadable):
            yield read(one)


def _items(document: Document) -> Sequence[Document]:
    """Return the objects of a collection; one that is empty may have no such field."""
    match document.get("items", []):
        case list() as items:
            return [one for one in items if isinstance(one, dict)]
        case _:
            raise Unreadable("a collection whose items are no list")


def _counts(document: Document) -> Mapping[str, int]:
    """Return the connections of each entry of statistics, by the entry's URL.

    Version 11 may leave out the layer in which newer ones nest them.
    """
    entries = document.get("entries")
    if not isinstance(entries, dict):
        return {}
    if _CONNECTIONS in entries:
        return {"": _count(entries)}
    return {key: _count(_leaves(entry)) for key, entry in entries.items()}


def _leaves(entry: object) -> Document:
    """Return the leaves of one entry, out of the layers around them."""
    while isinstance(entry, dict) and _CONNECTIONS not in entry:
        entry = entry.get("nestedStats", entry.get("entries"))
    if not isinstance(entry, dict):
        raise Unreadable("statistics without serverside.curConns")
    return entry


def _count(leaves: Mapping[str, object]) -> int:
    """Return how many connections the leaves of one entry tell."""
    match leaves.get(_CONNECTIONS):
        case {"value": int(count)}:
            return count
        case other:
            raise Unreadable(f"{_CONNECTIONS} is {other!r:.60}, not a number")
