"""The slots of one backend of one HAProxy: as `pool`, for members without a name.

Called by `slot_driver`. Each step is one turn: read the state, ask `slots`, make at
most one change.
"""

import asyncio

from collections.abc import Mapping, Sequence

import attrs

from webhooks.haproxy import commands, decisions, slots
from webhooks.haproxy.commands import LEAVES, Command, Target
from webhooks.haproxy.errors import NoSlots, NoSuchBackend, Uncertain, Unsettled
from webhooks.haproxy.memory import Key, key_of
from webhooks.haproxy.pool import (
    BETWEEN_DELETIONS,
    GONE,
    MAY_COME,
    MOST_STEPS,
    STARTING,
    Pool,
    until_quiet,
)
from webhooks.haproxy.replies import Server, Snapshot
from webhooks.haproxy.slots import FREE, Slot
from webhooks.shared.addresses import Address
from webhooks.shared.identity import Owner
from webhooks.shared.outcomes import Finished, Outcome, Unfinished


@attrs.frozen
class SlotListing:
    """The members that have slots of one backend of one HAProxy.

    Attributes:
        epoch: of the process that has them, and of what was displaced there.
        members: servers by address.
        loads: requests in progress and waiting, by address.
    """

    epoch: str
    members: Mapping[Address, Server]
    loads: Mapping[Address, int]


@attrs.frozen
class SlotPool:
    """The slots of one backend of one HAProxy.

    Attributes:
        pool: that backend.
        prefix: slots are called PREFIX.1 and so on.
    """

    pool: Pool
    prefix: str

    async def probe(self) -> None:
        """Find out whether there are slots, and whether they can be changed.

        Raises:
            NoSlots: there are none.
            Refused: no such backend, or not level admin.
        """
        async with self.pool.api.turn():
            found = self._slots(await self._snapshot())
            if not found:
                raise NoSlots(
                    f"backend {self.pool.backend} of HAProxy at "
                    f"{self.pool.api.endpoint} has no slots: say `server-template "
                    f"{self.prefix}. 10 {FREE} disabled` there"
                )
            free = slots.at(found, FREE)
            if free is not None and free.server.in_maintenance:
                await self._change(free, commands.rest(free.target), FREE)

    async def ensure(self, address: Address, owner: Owner) -> Outcome:
        """Put the member into full service.

        Another process of this driver may give the same free slot to its own member
        between our look and our command, which then takes that member's slot away.
        Whose the slot is to be is written down before a look that still shows it free:
        that the other one has written later tells that it was displaced, and another
        epoch has it put back.

        Raises:
            SlotsTaken: no slot is free.
            SlotOwned: the slot is that of another record.
            NoSuchBackend: there is nothing to be a member of.
            Unsettled: it does not stay as it was put.
            Uncertain: commands that were given up before may undo that, or hit each slot
                that is free.
        """
        noted: set[Target] = set()
        for _ in range(MOST_STEPS):
            async with self.pool.api.turn():
                found = self._slots(await self._snapshot())
                unsafe = self._unsafe(found, address)
                slot = slots.slot_for(found, address, unsafe)
                written = await self._owner(slot, address)
                note = slots.next_to_own(slot, address, owner, written)
                if note is not None:
                    if slot.is_at(address) and slot.target in noted:
                        await self._note_displaced()
                    await self._change(slot, note, address)
                    noted.add(slot.target)
                    if not slot.is_at(address) and not await self._is_free(slot):
                        continue  # another process was quicker
                command = slots.next_to_ensure(slot, address)
                if command is not None:
                    await self._change(slot, command, address)
                elif slot.target in unsafe:
                    raise Uncertain(f"{address} in {slot.target}: {MAY_COME}")
                else:
                    return _ensured(slot)
        raise Unsettled(
            f"{address} did not come into service in {MOST_STEPS} steps: does somebody "
            "else change its slot?"
        )

    async def drain(self, address: Address, record_id: str, *, locked: bool) -> Outcome:
        """Stop new traffic, and tell what is left; gone members have nothing left."""
        outcome = await until_quiet(
            lambda: self._drain_step(address, record_id, locked=locked)
        )
        return self.pool.settled(outcome, self._key(address), {str(address)})

    async def _drain_step(
        self, address: Address, record_id: str, *, locked: bool
    ) -> Outcome | None:
        """Drain one step further; None: drained, and nothing was left on it now."""
        async with self.pool.api.turn():
            snapshot = await self._snapshot()
            slot = slots.at(self._slots(snapshot), address)
            if slot is None:
                return Finished()
            owner = await self._owner(slot, address)
            if slots.may_be_anothers(owner, record_id, locked=locked):
                return _left_alone(slot, owner)
            command = slots.next_to_drain(slot)
            if command and decisions.must_stay(slot.target, slot.server, snapshot):
                note = "serves until another member has passed its first checks"
                return Unfinished(await self._left(slot), note)
            if command:
                await self._change(slot, command, address)
            left = await self._left(slot)
        return Unfinished(left, "requests are in progress") if left else None

    async def deregister(
        self, address: Address, record_id: str, *, locked: bool, may_cut: bool
    ) -> Outcome:
        """Free the member's slot; with `may_cut` end what is still established."""
        outcome = await self._deregister(
            address, record_id, locked=locked, may_cut=may_cut
        )
        undoing = {str(address), LEAVES}
        return self.pool.settled(outcome, self._key(address), undoing)

    async def _deregister(
        self, address: Address, record_id: str, *, locked: bool, may_cut: bool
    ) -> Outcome:
        """Free a slot, whatever lines that were given up may do to it yet."""
        left = 0
        try:
            for _ in range(MOST_STEPS):
                async with self.pool.api.turn():
                    found = self._slots(await self._snapshot())
                    slot = slots.at(found, address)
                    if slot is None:
                        await self._close_free(found, address)
                        return Finished()
                    owner = await self._owner(slot, address)
                    if slots.may_be_anothers(owner, record_id, locked=locked):
                        return _left_alone(slot, owner)
                    left = await self._left(slot)
                    command = slots.next_to_deregister(slot, left, may_cut=may_cut)
                    if command is not None:
                        await self._change(slot, command, address)
                if left:
                    await asyncio.sleep(BETWEEN_DELETIONS.total_seconds())
        except NoSuchBackend:
            return GONE
        return Unfinished(left, "requests are still in progress")

    async def list_members(self) -> SlotListing:
        """Return the members that have slots.

        Raises:
            NoSuchBackend: the backend is gone.
        """
        async with self.pool.api.turn():
            snapshot = await self._snapshot()
            taken = {
                Address(slot.server.address, slot.server.port): slot
                for slot in self._slots(snapshot)
                if slot.server.address is not None and not slot.is_at(FREE)
            }
            members = {address: slot.server for address, slot in taken.items()}
            counted = await self._loads(list(members.values()))
            displaced = await self._displaced()
        loads = {at: counted.get(server.name, 0) for at, server in members.items()}
        epoch = str(snapshot.generation) + (f"-{displaced}" if displaced else "")
        return SlotListing(epoch, members, loads)

    async def _close_free(self, found: Sequence[Slot], address: Address) -> None:
        """Let free slots rest that a line which was given up may have opened.

        A slot without a check would be sent requests, which nobody answers there.
        """
        if not self.pool.api.memory.late(self._key(address)):
            return
        for slot in found:
            if slot.is_at(FREE) and not slot.server.in_maintenance:
                await self._change(slot, commands.rest(slot.target), address)

    async def _change(self, slot: Slot, command: Command, address: Address) -> None:
        """Carry out a command for the member at an address.

        One that comes late hits the slot, whoever has it then: it gives the slot another
        address, or none, opens it, or keeps requests from it.
        """
        effect = LEAVES if command.effect == LEAVES else str(address)
        sent = [(key_of(slot.target), effect), (self._key(address), effect)]
        with self.pool.api.memory.sending(sent):
            await self.pool.api.change(command)

    def _unsafe(self, found: Sequence[Slot], address: Address) -> set[Target]:
        """Return the slots that lines which were given up make unfit for a member.

        Its own, which bring it in, may come late to the slot that they were for, and
        to no other one: it would have two.
        """
        late = self.pool.api.memory.late
        own = late(self._key(address)) - {LEAVES}
        return {slot.target for slot in found if late(key_of(slot.target)) != own}

    def _key(self, address: Address) -> Key:
        return self.pool.backend, str(address)

    async def _snapshot(self) -> Snapshot:
        return await self.pool.api.snapshot(self.pool.backend)

    def _slots(self, snapshot: Snapshot) -> list[Slot]:
        cookie = self.pool.cookies
        return list(
            slots.slots_of(snapshot, self.pool.backend, self.prefix, cookie=cookie)
        )

    async def _owner(self, slot: Slot, address: Address) -> Owner | None:
        """Read whose a slot is at an address; None: it is not written down."""
        answer = await self.pool.api.ask(commands.ask_owner(slot.target))
        return commands.owner_at(answer, address)

    async def _is_free(self, slot: Slot) -> bool:
        return slots.at(self._slots(await self._snapshot()), FREE) == slot

    async def _note_displaced(self) -> None:
        """Have the epoch change: a member of another process has lost its slot."""
        number = await self._displaced() + 1
        note = commands.note_displaced(self.pool.backend, number)
        await self.pool.api.change(note)

    async def _displaced(self) -> int:
        question = commands.ask_displaced(self.pool.backend)
        return commands.displaced_of(await self.pool.api.ask(question))

    async def _loads(self, servers: Sequence[Server]) -> Mapping[str, int]:
        """Return the requests on servers of this backend, by name; nothing is asked of none."""
        if not servers:
            return {}
        return await self.pool.api.loads(self.pool.backend, servers[0].backend_id)

    async def _left(self, slot: Slot) -> int:
        return await self.pool.api.load(self.pool.backend, slot.server) or 0


def _left_alone(slot: Slot, owner: Owner | None) -> Outcome:
    """Return the outcome for a record whose slot is, or may be, that of another one."""
    if owner is None:
        return Finished(
            f"left alone: {slot.target} may be that of any record, as nothing is written "
            "down and the LoadBalancerDriver says memberKey: Record"
        )
    return Finished(f"left alone: {slot.target} is that of record {owner.record}")


def _ensured(slot: Slot) -> Outcome:
    if slot.server.held_back:
        return Finished(STARTING)
    return Finished()
