"""One pool of one unit: ensures, drains, deregisters and lists our members.

Called by `load_balancers`, which knows the unit that is active. Each step reads the
member, asks `decisions`, and makes at most one change; then it is read again, so that
what a step concludes was always read after the last change.
"""

import contextlib

from collections.abc import Callable, Mapping, Sequence

import attrs

from webhooks.device.errors import DeviceError
from webhooks.f5 import decisions
from webhooks.f5.decisions import Add, Change, Modify, Remove
from webhooks.f5.errors import (
    AddressTaken,
    Duplicate,
    Foreign,
    Missing,
    NodeInUse,
    NoSuchPool,
    Unsettled,
)
from webhooks.f5.icontrol import Icontrol
from webhooks.f5.members import Member, Node, Wanted
from webhooks.f5.names import Address, Mark, ObjectPath
from webhooks.shared.outcomes import Finished, Outcome, Unfinished


MOST_STEPS = 8
"""A member needs three steps at most; more means that somebody works against us."""

GONE = Finished("the pool is gone")


@attrs.frozen
class Listed:
    """One of our members, and how many connections it has."""

    member: Member
    record_id: str
    connections: int


def _always() -> bool:
    """Want what is asked for."""
    return True


@attrs.frozen
class Pool:
    """One pool of one unit.

    Attributes:
        api: the unit's.
        path: of the pool.
        mark: by which our objects are known.
        changed: told before and after anything is changed.
    """

    api: Icontrol
    path: ObjectPath
    mark: Mark
    changed: Callable[[], object]

    async def ensure(self, wanted: Wanted) -> Outcome:
        """Put the member into full service.

        Finished as soon as the unit may send to it: its monitors decide from then on.

        Raises:
            Foreign: somebody else put a member there.
            NoSuchPool: there is nothing to be a member of.
            Unsettled: it does not stay as it was put.
        """
        for _ in range(MOST_STEPS):
            member = await self._find(wanted.address)
            change = decisions.next_to_ensure(self.mark, wanted, member)
            if change is None:
                return Finished()
            await self._carry_out(change)
        raise self._unsettled(wanted.address)

    async def drain(self, address: Address, record_id: str) -> Outcome:
        """Stop new traffic, and tell what is left; gone members have nothing left.

        The count that is read right after the change is not believed: connections
        that were let in a moment before may not be counted yet.
        """
        try:
            member = await self._find(address)
            if member is None or not decisions.is_of(self.mark, member, record_id):
                return Finished(_not_ours(member))
            change = decisions.next_to_drain(member)
            if change is not None:
                await self._carry_out(change)
            left = await self.api.connections(self.path, member.path)
        except NoSuchPool:
            return GONE
        if left is None:
            return Finished()
        if change is not None:
            return Unfinished(left, "disabled; connections are counted from now on")
        return Unfinished(left, "connections are open") if left else Finished()

    async def deregister(
        self,
        address: Address,
        record_id: str,
        still: Callable[[], bool] = _always,
    ) -> Outcome:
        """Take the member out, and its node if we made it and nobody else uses it.

        Args:
            address: of the member.
            record_id: whose it must be; else it is left alone.
            still: asked right before each change; False ends it.

        Raises:
            Unsettled: somebody puts it back.
        """
        try:
            for _ in range(MOST_STEPS):
                member = await self._find(address)
                if member is None:
                    await self._drop_node(self._home(address))
                    return Finished()
                if not decisions.is_of(self.mark, member, record_id):
                    return Finished(_not_ours(member))
                change = decisions.next_to_deregister(member)
                if not await self._carry_out(change, still):
                    return Finished("it is wanted again")
        except NoSuchPool:
            return GONE
        raise self._unsettled(address)

    async def list_members(self) -> Sequence[Listed]:
        """Return our members.

        Raises:
            NoSuchPool: the pool is gone.
        """
        ours = {
            member: record
            for member in await self.api.members(self.path)
            if (record := self.mark.record_of(member.description)) is not None
        }
        loads: Mapping[str, int] = await self.api.loads(self.path) if ours else {}
        return [
            Listed(member, record, loads.get(member.path.in_url, 0))
            for member, record in ours.items()
        ]

    async def _find(self, address: Address) -> Member | None:
        """Return the member at an address, whatever its node is called.

        Raises:
            NoSuchPool: the pool is gone.
        """
        home = self._home(address)
        path = ObjectPath(f"/{home.folder}/{address.named(home.name)}")
        member = await self.api.member(self.path, path)
        if member is not None and member.is_at(address):
            return member
        members = await self.api.members(self.path)
        return next((one for one in members if one.is_at(address)), None)

    def _home(self, address: Address) -> ObjectPath:
        """Return the path of the node that we would make for an address."""
        return ObjectPath(f"/{self.path.folder}/{address.host}")

    async def _carry_out(
        self, change: Change, still: Callable[[], bool] = _always
    ) -> bool:
        """Make a change, alone; what came too late is found by the next reading.

        Returns False where it is not wanted any more.
        """
        async with self.api.session.turn():
            if not still():
                return False
            self.changed()
            try:
                with contextlib.suppress(Duplicate, Missing):
                    await self._change(change)
            finally:
                # A save that began since the first note may not have it.
                self.changed()
        return True

    async def _change(self, change: Change) -> None:
        """Have the unit make a change."""
        match change:
            case Add(wanted):
                node = await self._node_for(wanted.address)
                await self.api.add_member(self.path, node, wanted)
            case Modify(member, fields):
                await self.api.modify_member(self.path, member.path, fields)
            case Remove(member):
                await self.api.remove_member(self.path, member.path)

    async def _node_for(self, address: Address) -> ObjectPath:
        """Return the node at an address; make it where there is none.

        One that we make is marked, so that it can go with its last member. A member
        that is added without a node brings one along that nobody could tell from the
        operator's.
        """
        home = self._home(address)
        known = await self.api.node(home)
        if known is not None and known.address == address.host:
            return home
        try:
            await self.api.add_node(Node(home, address.host, self.mark.of_node))
        except (AddressTaken, Duplicate) as error:
            return await self._node_at(address, error)
        return home

    async def _node_at(self, address: Address, error: DeviceError) -> ObjectPath:
        """Return the node that has the address, in whatever partition.

        Raises:
            Foreign: a node is called after the address, and has another one.
            DeviceError: the given one, where no node that we may see has it.
        """
        for node in await self.api.nodes():
            if node.address == address.host:
                return node.path
        if isinstance(error, Duplicate):
            raise Foreign(
                f"a node is called {self._home(address)} and has another address: "
                f"rename it, or make a node for {address.host}"
            ) from error
        raise error

    async def _drop_node(self, path: ObjectPath) -> None:
        """Remove a node that we made, unless a member of anybody's needs it."""
        async with self.api.session.turn():
            node = await self.api.node(path)
            if node is None or node.description != self.mark.of_node:
                return
            try:
                with contextlib.suppress(NodeInUse, Missing):
                    await self.api.remove_node(path)
            finally:
                self.changed()

    def _unsettled(self, address: Address) -> Unsettled:
        """Return the error for a member that does not stay as it was put."""
        return Unsettled(
            f"{address} in {self.path} did not settle in {MOST_STEPS} steps: does "
            "somebody else change it?"
        )


def _not_ours(member: Member | None) -> str:
    """Say why a member is left alone; nothing where there is none."""
    if member is None:
        return ""
    whose = member.description or "nothing"
    return f"left alone: {member.path} is not this record's (it says {whose!r:.60})"
