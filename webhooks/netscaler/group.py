"""One service group: ensures, drains, deregisters and lists our members.

`driver` asks for operations. Each step is one turn: find the primary and read the group
there, ask `decisions`, make at most one change. Then the next step reads again; so what
a step concludes was read after the last change, from the unit that is primary.
"""

import asyncio

from collections.abc import Mapping
from datetime import datetime

import attrs

from webhooks.netscaler import decisions, servers
from webhooks.netscaler.changes import BINDING, Bind, Change, Target, named
from webhooks.netscaler.decisions import Wanted
from webhooks.netscaler.errors import (
    AlreadyExists,
    NitroRefused,
    NoSuchGroup,
    NoSuchResource,
    Unsettled,
)
from webhooks.netscaler.members import Address, Mark
from webhooks.netscaler.pair import Pair, Unit
from webhooks.netscaler.reading import SharedReading
from webhooks.netscaler.replies import MemberRow, is_true, load_of, member_of, rows


MOST_STEPS = 8
"""A member needs three steps at most; more means that somebody works against us."""


@attrs.frozen
class Finished:
    """Nothing is left to be done; `note` is for people and mostly empty."""

    note: str = ""


@attrs.frozen
class Unfinished:
    """It goes on, and is to be asked again.

    Attributes:
        connections: what is left on the member.
        note: what is waited for.
    """

    connections: int
    note: str


Outcome = Finished | Unfinished


@attrs.frozen
class Members:
    """The members of a service group, whoever bound them.

    Attributes:
        unit: where they were read; changes go there.
        rows: by address.
    """

    unit: Unit
    rows: Mapping[Address, MemberRow]


@attrs.frozen
class Listing:
    """Our members of a service group.

    Attributes:
        epoch: another one when members may have been lost.
        members: by address, each with its mark.
        loads: what is on each.
    """

    epoch: str
    members: Mapping[Address, tuple[Mark, MemberRow]]
    loads: Mapping[Address, int]


@attrs.define(eq=False)
class Group:
    """One service group of one pair.

    Attributes:
        pair: the units.
        name: of the group.
        prefix: marks of ours begin with it.
    """

    pair: Pair
    name: str
    prefix: str
    _members: SharedReading[Members] = attrs.field(init=False)
    _loads: SharedReading[Mapping[Address, int]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Let those who ask at once share what is read."""
        self._members = SharedReading(self._read_members)
        self._loads = SharedReading(self._read_loads)

    async def probe(self) -> None:
        """Find the group; changes nothing.

        Raises:
            NoSuchGroup: it is not there.
        """
        await self._members.fresh()

    async def ensure(self, wanted: Wanted) -> Outcome:
        """Put the member into the state that its parameters ask for.

        Raises:
            ForeignMember: somebody else bound the address.
            NoSuchGroup: there is nothing to be a member of.
            Unsettled: it does not stay as it was put.
        """
        last: NitroRefused | None = None
        for _ in range(MOST_STEPS):
            seen = await self._members.fresh()
            member = seen.rows.get(wanted.address)
            try:
                if member is None:
                    await self._bind(seen.unit, wanted)
                    continue
                change = decisions.next_to_ensure(self.name, wanted, member)
                if change is None:
                    return _ensured(member)
                await self._make(seen.unit, change, wanted.address)
            except (AlreadyExists, NoSuchResource) as error:
                last = error  # somebody was faster: the next reading tells
        raise self._unsettled(wanted.address, last)

    async def drain(self, address: Address, until: datetime | None) -> Outcome:
        """Stop new traffic, and tell what is left; gone members have nothing left."""
        last: NitroRefused | None = None
        for _ in range(MOST_STEPS):
            found = await self._ours(address)
            if found is None:
                return Finished()
            unit, target, member = found
            now = self.pair.clock.now()
            delay = decisions.delay_until(until, now) if until else None
            change = decisions.next_to_drain(target, member, delay)
            if change is None:
                return await self._drained(address, member)
            try:
                await self._make(unit, change, address)
            except NoSuchResource as error:
                last = error
        raise self._unsettled(address, last)

    async def deregister(self, address: Address, *, drained: bool) -> Outcome:
        """Take the member out; done when that is on the appliance's disk, too."""
        last: NitroRefused | None = None
        for _ in range(MOST_STEPS):
            found = await self._ours(address)
            if found is None:
                return await self._settled(address)
            unit, target, member = found
            left = await self._left(address) if drained else 0
            change = decisions.next_to_deregister(target, member, left, drained=drained)
            if change is None:
                return Unfinished(left, "it got connections after its drain")
            try:
                await self._make(unit, change, address)
            except NoSuchResource as error:
                last = error
        raise self._unsettled(address, last)

    async def list_members(self) -> Listing:
        """Return our members.

        Raises:
            NoSuchGroup: the group is gone.
        """
        seen, loads = await asyncio.gather(self._members.fresh(), self._loads.fresh())
        ours = {
            address: (mark, row)
            for address, row in seen.rows.items()
            if (mark := Mark.read(self.prefix, row.mark)) is not None
        }
        return Listing(seen.unit.epoch, ours, loads)

    async def _ours(self, address: Address) -> tuple[Unit, Target, MemberRow] | None:
        """Read a member; None: it is not there, or not ours."""
        try:
            seen = await self._members.fresh()
        except NoSuchGroup:
            return None
        row = seen.rows.get(address)
        mark = Mark.read(self.prefix, row.mark) if row else None
        if row is None or mark is None:
            return None
        return seen.unit, Target(self.name, row.server, address.port, mark), row

    async def _drained(self, address: Address, member: MemberRow) -> Outcome:
        """Tell how far the drain of a disabled member is."""
        left = await self._left(address)
        if decisions.is_drained(member, left):
            return Finished()
        return Unfinished(left, f"{member.svrstate.lower()}: connections are to end")

    async def _settled(self, address: Address) -> Outcome:
        """End the deregistration of a member that is gone."""
        unit = await self.pair.primary()
        async with self.pair.changing:
            if await servers.remove_unused(unit.nitro, self.prefix, address.ip):
                self.pair.ledger.note(self._key(address))
        ledger = self.pair.ledger
        if not ledger.knows_before:
            found = rows(await unit.nitro.config("nsconfig"), "nsconfig")
            ledger.note_before(unsaved=any(is_true(r, "configchanged") for r in found))
        if ledger.is_saved(self._key(address)):
            ledger.forget(self._key(address))
            return Finished()
        why = f": {ledger.trouble}" if ledger.trouble else ""
        return Unfinished(0, f"taken out, and waits for `save ns config`{why}")

    async def _bind(self, unit: Unit, wanted: Wanted) -> None:
        """Bind a member, to the server object that its address has."""
        async with self.pair.changing:
            server = await servers.find_or_add(
                unit.nitro, self.prefix, wanted.address.ip
            )
            target = Target(self.name, server, wanted.address.port, wanted.mark)
            await self._call(unit, Bind(target, wanted.options), wanted.address)

    async def _make(self, unit: Unit, change: Change, address: Address) -> None:
        """Carry out a change, after those that others make just now."""
        async with self.pair.changing:
            await self._call(unit, change, address)

    async def _call(self, unit: Unit, change: Change, address: Address) -> None:
        """Carry out a change; whatever comes of it is to be saved."""
        try:
            await unit.nitro.call(change.call)
        finally:
            self.pair.ledger.note(self._key(address))

    def _key(self, address: Address) -> tuple[str, Address]:
        """Return what a member's changes are noted by."""
        return (self.name, address)

    async def _left(self, address: Address) -> int:
        """Return how many connections a member has."""
        return (await self._loads.fresh()).get(address, 0)

    async def _read_members(self) -> Members:
        """Read the group where it counts."""
        unit = await self.pair.primary()
        try:
            found = await unit.nitro.config(named(BINDING, self.name))
        except NoSuchResource as error:
            raise NoSuchGroup(
                f"there is no service group {self.name} on {unit.nitro.device}: make "
                "it, or correct `serviceGroup` of the load balancer"
            ) from error
        members = filter(None, map(member_of, rows(found, BINDING)))
        return Members(unit, {row.address: row for row in members})

    async def _read_loads(self) -> Mapping[Address, int]:
        """Read the connections of all members in one answer."""
        unit = await self.pair.primary()
        path = f"{named('servicegroup', self.name)}?statbindings=yes"
        try:
            found = rows(await unit.nitro.stat(path), "servicegroup")
        except NoSuchResource:
            return {}
        members = (row for group in found for row in rows(group, "servicegroupmember"))
        return dict(filter(None, map(load_of, members)))

    def _unsettled(self, address: Address, last: NitroRefused | None) -> Unsettled:
        """Return the error for a member that does not come to rest."""
        why = str(last) if last else "does somebody else change it?"
        return Unsettled(
            f"{address} of service group {self.name} did not come to rest in "
            f"{MOST_STEPS} steps: {why}"
        )


def _ensured(member: MemberRow) -> Outcome:
    """Return the outcome for a member that is as it should be."""
    if member.is_overruled:
        return Unfinished(
            0, f"enabled, but out of service: is server {member.server} disabled?"
        )
    if member.enabled and not member.is_up:
        return Finished(
            f"{member.svrstate}: the group's monitors decide when it serves"
        )
    return Finished()
