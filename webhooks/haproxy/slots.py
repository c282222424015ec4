"""Slots: servers of the configuration that are given an address, and lose it again.

For backends that take no servers at run time, those with a static algorithm: their
operator writes a `server-template` whose servers are called PREFIX.1, PREFIX.2 and so
on. All of these are the driver's, and no others.

    slots: which slot is whose, and what to do with one next. Pure
    slot_pool: what `pool` does, by addresses in place of names
    slot_driver: what `driver` does

Members are told apart by their addresses; whose record one stands for is in a variable
of the HAProxy process (`commands.note_owner`). A slot that nobody has is at `FREE`.
"""

from collections.abc import Collection, Sequence

import attrs

from webhooks.haproxy import commands, decisions
from webhooks.haproxy.commands import Command, Target
from webhooks.haproxy.errors import SlotOwned, SlotsTaken, Uncertain
from webhooks.haproxy.members import NOBODY, SlotName
from webhooks.haproxy.replies import (
    CHECK_CONFIGURED,
    CHECK_ENABLED,
    Server,
    Snapshot,
)
from webhooks.shared import identity
from webhooks.shared.addresses import Address
from webhooks.shared.identity import Owner


FREE = NOBODY
"""A request that strays to a free slot is refused at once."""


@attrs.frozen
class Slot:
    """One of our slots, as it was read."""

    target: Target
    server: Server

    def is_at(self, address: Address) -> bool:
        """Tell whether it has this address and port."""
        return (address.ip, address.port) == (self.server.address, self.server.port)


def slots_of(
    snapshot: Snapshot, backend: str, prefix: str, *, cookie: bool = False
) -> Sequence[Slot]:
    """Return our slots, whoever has them."""
    return [
        Slot(Target(backend, name, cookie), server)
        for server in snapshot.servers()
        if (name := SlotName.of_server(prefix, server.name)) is not None
    ]


def at(slots: Sequence[Slot], address: Address) -> Slot | None:
    """Return the slot that a member has; None: it has none."""
    return next((slot for slot in slots if slot.is_at(address)), None)


def slot_for(
    slots: Sequence[Slot], address: Address, unsafe: Collection[Target]
) -> Slot:
    """Return the slot that a member has, else a free one.

    Args:
        slots: all of them.
        address: of the member.
        unsafe: those that commands may hit yet which HAProxy was sent for another one.

    Raises:
        SlotsTaken: none is free.
        Uncertain: none of those that are free is safe yet.
    """
    free = [slot for slot in slots if slot.is_at(FREE)]
    safe = (slot for slot in free if slot.target not in unsafe)
    found = at(slots, address) or next(safe, None)
    if found is None and free:
        raise Uncertain(
            f"no slot is free for {address} yet: HAProxy hung at earlier commands for "
            "those that nobody has, and may carry these out yet"
        )
    if found is None:
        raise SlotsTaken(
            f"no slot is free for {address}, all {len(slots)} are taken: let the "
            "backend's `server-template` make more"
        )
    return found


def next_to_own(
    slot: Slot, address: Address, owner: Owner, written: Owner | None
) -> Command | None:
    """Return what writes down whose the slot is to be; None: it is written.

    It is written before the slot has the address, so that no slot is ever in service
    without. A slot of another record of the same pool is taken over: callers see to it
    that one record at a time has an address there, so that the other one is gone.

    Args:
        slot: that has the address, or a free one.
        address: of the member.
        owner: of the member.
        written: what is written down for this address; None: nothing.

    Raises:
        SlotOwned: it is another record's, which may live still.
    """
    if slot.is_at(address) and written is not None and written.is_taken(owner):
        where = f"has slot {slot.target}"
        raise SlotOwned(identity.taken(address, written, where))
    if written == owner:
        return None
    return commands.note_owner(slot.target, owner, address)


def may_be_anothers(owner: Owner | None, record_id: str, *, locked: bool) -> bool:
    """Tell whether a slot is left alone by a record that takes its member out.

    Args:
        owner: what is written down; None: nothing, as after a restart of the HAProxy.
        record_id: of the record.
        locked: no other record may have the address.
    """
    return not locked if owner is None else owner.record != record_id


def next_to_ensure(slot: Slot, address: Address) -> Command | None:
    """Return what brings a member nearer to full service; None: it is there.

    A slot is moved while it rests, and put into service by the next step: whoever dies
    in between leaves a slot that is found by its address.

    Args:
        slot: as `slot_for` found it.
        address: of the member.
    """
    target, server = slot.target, slot.server
    if not slot.is_at(address):
        # A reload with a state file brings slots back in service, without address.
        if not server.in_maintenance:
            return commands.rest(target)
        return commands.move(target, address)
    check = bool(server.check & CHECK_CONFIGURED)
    if server.admin:
        return commands.serve(target, check=check, fresh=server.in_maintenance)
    if check and not server.check & CHECK_ENABLED:
        return commands.watch(target)
    return None


def next_to_drain(slot: Slot) -> Command | None:
    """Return what stops new traffic; None: it is stopped."""
    return decisions.next_to_drain(slot.target, slot.server)


def next_to_deregister(slot: Slot, left: int, *, may_cut: bool) -> Command | None:
    """Return what brings a member nearer to being gone; None: requests are to end.

    A slot that has requests keeps its address: they would be counted as those of the
    member that has it next.

    Args:
        slot: that the member has.
        left: requests in progress on it.
        may_cut: whether these may fail.
    """
    if not slot.server.in_maintenance:
        return commands.rest(slot.target)
    if not left:
        return commands.move(slot.target, FREE)
    return commands.cut(slot.target) if may_cut else None
