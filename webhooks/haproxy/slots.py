"""Slots: servers of the configuration that are given an address, and lose it again.

For backends that take no servers at run time, those with a static algorithm: their
operator writes a `server-template` whose servers are called PREFIX.1, PREFIX.2 and so
on. All of these are the driver's, and no others.

    slots: which slot is whose, and what to do with one next. Pure
    slot_pool: what `pool` does, by addresses in place of names
    slot_driver: what `driver` does

HAProxy keeps nothing about a slot that could say whose record it stands for: members
are told apart by their addresses. A slot that nobody has is at `FREE`.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address

import attrs

from webhooks.haproxy import commands, decisions
from webhooks.haproxy.commands import Command, Target
from webhooks.haproxy.errors import SlotsTaken
from webhooks.haproxy.members import SlotName
from webhooks.haproxy.replies import (
    CHECK_CONFIGURED,
    CHECK_ENABLED,
    Server,
    Snapshot,
)
from webhooks.shared.addresses import Address


FREE = Address(IPv4Address("127.0.0.1"), 1)
"""Where nobody listens: a request that strays there is refused at once."""


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


def next_to_ensure(slots: Sequence[Slot], address: Address) -> Command | None:
    """Return what brings a member nearer to full service; None: it is there.

    A slot is moved while it rests, and put into service by the next step: whoever dies
    in between leaves a slot that is found by its address.

    Raises:
        SlotsTaken: none is free.
    """
    taken = at(slots, address)
    if taken is None:
        return _take(slots, address)
    server, check = taken.server, bool(taken.server.check & CHECK_CONFIGURED)
    if server.admin:
        fresh = server.in_maintenance
        return commands.serve(taken.target, check=check, fresh=fresh)
    if check and not server.check & CHECK_ENABLED:
        return commands.watch(taken.target)
    return None


def _take(slots: Sequence[Slot], address: Address) -> Command:
    """Return what brings a free slot nearer to having the address."""
    free = at(slots, FREE)
    if free is None:
        raise SlotsTaken(
            f"no slot is free for {address}, all {len(slots)} are taken: let the "
            "backend's `server-template` make more"
        )
    # A reload with a state file brings slots back in service, and without address.
    if not free.server.in_maintenance:
        return commands.rest(free.target)
    return commands.move(free.target, address)


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
