"""One pool of one unit: ensures, drains, deregisters and lists our members.

Called by `load_balancers`, which knows the unit that is active. Each step reads the
member, asks `decisions`, and makes at most one change; then it is read again, so that
what a step concludes was always read after the last change.
"""

import contextlib
import math

from collections.abc import Callable, Collection, Mapping, Sequence

import attrs

from webhooks.device.errors import DeviceError, Refused
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
from webhooks.f5.finding import (
    Located,
    Members,
    Spelling,
    by_place,
    nodes_at,
    read_host,
)
from webhooks.f5.icontrol import Icontrol
from webhooks.f5.members import Member, Node, Wanted
from webhooks.f5.names import Address, Mark, ObjectPath
from webhooks.f5.parameters import paths_of
from webhooks.f5.transactions import NO_TIME, Step, Transactions
from webhooks.shared.outcomes import Finished, Outcome, Unfinished


MOST_STEPS = 8
"""A member needs three steps at most; more means that somebody works against us."""

GONE = Finished("the pool is gone")
UNCOUNTED = Unfinished(0, "no statistics")
"""Nobody has counted: the member may have connections."""
LATER = Unfinished(0, "the unit is slow: others of its batch were changed before it")


@attrs.frozen
class Listed:
    """One of our members, and how many connections it has.

    Attributes:
        address: as its load balancer has it.
        member: as the unit has it.
        record_id: whose it is.
        connections: on it.
    """

    address: Address
    member: Member
    record_id: str
    connections: int


NextChange = Callable[[str, Member | None], Change | None]
"""What brings the member of a record on; None: nothing is to be changed about it."""


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
        until: monotonic seconds after which no transaction is begun.
    """

    api: Icontrol
    path: ObjectPath
    mark: Mark
    changed: Callable[[], object]
    until: float = math.inf

    async def ensure(self, wanted: Wanted) -> Outcome:
        """Put the member into full service.

        Finished as soon as the unit may send to it: its monitors decide from then on.

        Raises:
            Foreign: somebody else put a member there.
            NoSuchPool: there is nothing to be a member of.
            Unsettled: it does not stay as it was put.
        """
        owner = self.mark.record_of(wanted.description) or ""
        for _ in range(MOST_STEPS):
            member = await self._find(wanted.address, owner)
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
            member = await self._find(address, record_id)
            if member is None or not decisions.is_of(self.mark, member, record_id):
                return Finished(_not_ours(member))
            change = decisions.next_to_drain(member)
            if change is not None:
                await self._carry_out(change)
            left = await self.api.connections(self.path, member.path)
        except NoSuchPool:
            return GONE
        return _draining(left, was_changed=change is not None)

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
                member = await self._find(address, record_id)
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

    async def ensure_all(self, wanted: Mapping[str, Wanted]) -> Mapping[str, Outcome]:
        """Put members into full service by few transactions; return outcomes by record.

        Who resists is left as it is: `ensure` tells why.

        Raises:
            NoSuchPool: there is nothing to be a member of.
        """
        done: dict[str, Outcome] = {}

        def next_change(record: str, member: Member | None) -> Change | None:
            change = decisions.next_to_ensure(self.mark, wanted[record], member)
            if change is None:
                done[record] = Finished()
            return change

        late = await self._bring_on(
            {record: one.address for record, one in wanted.items()}, next_change
        )
        return done | dict.fromkeys(late, LATER)

    async def drain_all(self, of: Mapping[str, Address]) -> Mapping[str, Outcome]:
        """Stop new traffic to members by a transaction; tell of each what is left."""
        done: dict[str, Outcome] = {}
        draining: dict[str, Member] = {}
        changed: set[str] = set()

        def next_change(record: str, member: Member | None) -> Change | None:
            if member is None or not decisions.is_of(self.mark, member, record):
                done[record] = Finished(_not_ours(member))
                return None
            change = decisions.next_to_drain(member)
            if change is None:
                draining[record] = member
            else:
                changed.add(record)
            return change

        try:
            late = await self._bring_on(of, next_change)
            loads = await self.api.loads(self.path) if draining else {}
        except NoSuchPool:
            return dict.fromkeys(of, GONE)
        for record, member in draining.items():
            left = loads.get(member.path.in_url)
            # It was there a moment ago: the next reading tells whether it is gone.
            done[record] = (
                UNCOUNTED
                if left is None
                else _draining(left, was_changed=record in changed)
            )
        return done | dict.fromkeys(late, LATER)

    async def deregister_all(self, of: Mapping[str, Address]) -> Mapping[str, Outcome]:
        """Take members out by few transactions, then nodes of ours that nobody uses.

        Returns outcomes by record; who resists has none.
        """
        done: dict[str, Outcome] = {}
        out: dict[str, Address] = {}

        def next_change(record: str, member: Member | None) -> Change | None:
            if member is None:
                out[record] = of[record]
                return None
            if not decisions.is_of(self.mark, member, record):
                done[record] = Finished(_not_ours(member))
                return None
            return decisions.next_to_deregister(member)

        try:
            late = await self._bring_on(of, next_change)
        except NoSuchPool:
            return dict.fromkeys(of, GONE)
        there = await self._drop_nodes({self._home(one) for one in out.values()})
        for record, address in out.items():
            match there.get(self._home(address)):
                case None:
                    done[record] = Finished()
                case error if error is NO_TIME:
                    done[record] = LATER
        return done | dict.fromkeys(late, LATER)

    async def _bring_on(
        self, of: Mapping[str, Address], next_change: NextChange
    ) -> Collection[str]:
        """Read all members, change those that have a next step, and again.

        Who is refused something is not looked at any more. Returns those for whom there
        was no time.
        """
        left = dict(of)
        for _ in range(MOST_STEPS):
            members = await self._members(left.values())
            changes: dict[str, Change] = {}
            for record, address in left.items():
                with contextlib.suppress(Foreign):
                    change = next_change(record, members.of(record, address))
                    if change is not None:
                        changes[record] = change
            if not changes or self.api.session.clock.monotonic() > self.until:
                return changes
            refused = await self._make(changes)
            left = {
                one: left[one] for one in changes if refused.get(one) in {None, NO_TIME}
            }
        return ()

    async def _make(self, changes: Mapping[str, Change]) -> Mapping[str, Refused]:
        """Make changes in transactions; return why which were not made, by record."""
        adding = any(isinstance(change, Add) for change in changes.values())
        nodes = await self.api.nodes() if adding else ()
        wanted = [
            one.wanted.address for one in changes.values() if isinstance(one, Add)
        ]
        spelling = await self._spelling(nodes, wanted)
        at = nodes_at(nodes, wanted, spelling)
        steps = [self._step(record, one, at) for record, one in changes.items()]
        return await self._transactions().make(steps)

    def _transactions(self) -> Transactions:
        return Transactions(self.api, self.changed, self.until)

    def _step(
        self, record: str, change: Change, nodes: Mapping[Address, ObjectPath]
    ) -> Step:
        """Return a change as a step, with the node that it needs and that there is not."""
        match change:
            case Add(wanted):
                home = nodes.get(wanted.address)
                made = self._home(wanted.address)
                missing = Node(made, wanted.address.host, self.mark.of_node)
                names = [str(home or made), wanted.address.host]
                return Step(
                    record,
                    lambda api: api.add_member(self.path, home or made, wanted),
                    names + wanted.options.monitors,
                    node=missing if home is None else None,
                )
            case Modify(member, fields):
                monitors = paths_of(str(fields.get("monitor", "")))
                return Step(
                    record,
                    lambda api: api.modify_member(self.path, member.path, fields),
                    _names(member) + monitors,
                )
            case Remove(member):
                return Step(
                    record,
                    lambda api: api.remove_member(self.path, member.path),
                    _names(member),
                )

    async def _drop_nodes(
        self, of: Collection[ObjectPath]
    ) -> Mapping[ObjectPath, Refused]:
        """Remove nodes that we made, unless a member of anybody's needs them.

        Returns those that nobody could tell this of, with what was said.
        """
        found = await self.api.nodes() if of else ()
        ours = {
            str(node.path): node.path
            for node in found
            if node.path in of and node.description == self.mark.of_node
        }
        steps = [_removal(path) for path in ours.values()]
        refused = await self._transactions().make(steps)
        return {
            ours[key]: error
            for key, error in refused.items()
            if not isinstance(error, NodeInUse | Missing)
            or not _removal(ours[key]).is_named(error.said)
        }

    async def list_members(self, domain: str = "") -> Sequence[Listed]:
        """Return our members in a route domain; empty: the partition's own.

        Raises:
            NoSuchPool: the pool is gone.
        """
        ours = [
            (member, record, Address(ip, port, domain))
            for (ip, port), near in by_place(await self.api.members(self.path)).items()
            for member in near
            if (record := self.mark.record_of(member.description)) is not None
        ]
        if not ours:
            return []
        loads = await self.api.loads(self.path)
        there = [member for member, _, _ in ours]
        spelling = await self._spelling(there, [address for _, _, address in ours])
        return [
            Listed(address, member, record, loads.get(member.path.in_url, 0))
            for member, record, address in ours
            if member.path == address.member_in(self.path.folder)
            or spelling.is_at(member, address)
        ]

    async def _find(self, address: Address, record_id: str) -> Member | None:
        """Return a record's member, or whoever else is at its address.

        Raises:
            NoSuchPool: the pool is gone.
        """
        path = address.member_in(self.path.folder)
        member = await self.api.member(self.path, path)
        if decisions.is_of(self.mark, member, record_id):
            return member
        return (await self._members([address])).of(record_id, address)

    async def _members(self, addresses: Collection[Address]) -> Members:
        """Return the members, to be found by these addresses.

        Raises:
            NoSuchPool: the pool is gone.
        """
        found = await self.api.members(self.path)
        spelling = await self._spelling(found, addresses)
        paths = {one.path: one for one in found}
        return Members(self.mark, self.path.folder, spelling, paths, by_place(found))

    async def _spelling(
        self, there: Sequence[Located], addresses: Collection[Address]
    ) -> Spelling:
        """Return how the addresses of objects are to be read, as far as it matters."""
        plain = Spelling(self.path.partition)
        if not plain.is_in_doubt(there, addresses):
            return plain
        default = await self.api.default_domain(self.path.partition)
        return attrs.evolve(plain, default=default)

    def _home(self, address: Address) -> ObjectPath:
        """Return the path of the node that we would make for an address."""
        return address.node_in(self.path.folder)

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
        if known is not None and await self._stands_for(known, address):
            return home
        try:
            await self.api.add_node(Node(home, address.host, self.mark.of_node))
        except (AddressTaken, Duplicate) as error:
            return await self._other_node(address, error)
        return home

    async def _stands_for(self, home: Node, address: Address) -> bool:
        """Tell whether the node that is called after an address has it.

        One that we made has it in whatever spelling.
        """
        shown = read_host(home.address)
        if home.description == self.mark.of_node:
            return shown is not None and shown[0] == address.ip
        return (await self._spelling([home], [address])).is_at(home, address)

    async def _other_node(self, address: Address, error: DeviceError) -> ObjectPath:
        """Return the node that has the address, in whatever partition.

        Raises:
            Foreign: a node is called after the address, and has another one.
            DeviceError: the given one, where no node that we may see has it.
        """
        nodes = await self.api.nodes()
        found = nodes_at(nodes, [address], await self._spelling(nodes, [address]))
        if address in found:
            return found[address]
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


def _removal(path: ObjectPath) -> Step:
    """Return the step that removes a node."""
    return Step(str(path), lambda api: api.remove_node(path), [str(path)])


def _names(member: Member) -> list[str]:
    """Return what a unit may call a member in a message: its node and port, or its name."""
    node = str(member.path).removesuffix(f"{member.port}")[:-1]
    return [str(member.path), node, member.address]


def _draining(left: int | None, *, was_changed: bool) -> Outcome:
    """Return the outcome of a drain; None: the member is gone.

    A count that is read right after the change is not believed.
    """
    if left is None:
        return Finished()
    if was_changed:
        return Unfinished(left, "disabled; connections are counted from now on")
    return Unfinished(left, "connections are open") if left else Finished()


def _not_ours(member: Member | None) -> str:
    """Say why a member is left alone; nothing where there is none."""
    if member is None:
        return ""
    whose = member.description or "nothing"
    return f"left alone: {member.path} is not this record's (it says {whose!r:.60})"
