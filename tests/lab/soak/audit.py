"""Compares members with records, again and again: who is leaked, who wrongly removed?

A look at HAProxy lies between two lists of the records. A member belongs to a record in
one of the lists, or it is leaked: a record must not go before its member. A record that
is registered, and stays so, in both lists must have its member, serving, or it was
wrongly removed; unless HAProxy was reloaded and has lost all.
"""

import asyncio

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import attrs

from tests.lab.demo import haproxy
from tests.lab.demo.errors import DemoError
from tests.lab.demo.proxy import Snapshot
from tests.lab.faults.history import Sight


INTERVAL = 0.3
PREFIX = "lbcf-"
Records = Mapping[str, Sight]


def leaked(before: Records, snapshot: Snapshot, after: Records) -> dict[str, str]:
    """Members of ours without a record; their addresses, by uid of the record."""
    known = {*before, *after}
    ours = (m for m in snapshot.members if m.name.startswith(PREFIX))
    found = {m.name.removeprefix(PREFIX): m.address for m in ours}
    return {uid: address for uid, address in found.items() if uid not in known}


def removed(before: Records, snapshot: Snapshot, after: Records) -> dict[str, str]:
    """Registered records without a member that serves; their addresses, by uid."""
    serving = {m.name.removeprefix(PREFIX) for m in snapshot.members if m.serving}
    steady = {
        uid: record.address
        for uid, record in before.items()
        if _is_in(record) and uid in after and _is_in(after[uid])
    }
    return {uid: address for uid, address in steady.items() if uid not in serving}


def _is_in(record: Sight) -> bool:
    """Whether a record says that its member is in, and should stay."""
    return record.registered and not record.deleting


@attrs.define(eq=False)
class Auditor:
    """Looks, and remembers what was wrong.

    Attributes:
        blind: HAProxy is being reloaded: missing members are not counted.
        looks: how often was compared.
        leaks: addresses of leaked members, by uid of the record that is gone.
        removals: addresses of wrongly removed members, by uid of the record.
    """

    records: Callable[[], Awaitable[Records]]
    socket: Path
    blind: bool = False
    looks: int = 0
    leaks: dict[str, str] = attrs.Factory(dict)
    removals: dict[str, str] = attrs.Factory(dict)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(INTERVAL)

    async def look(self) -> Mapping[str, str]:
        """Compare once; returns what is missing now, counted or not."""
        was_blind = self.blind
        before = await self.records()
        try:
            snapshot = await haproxy.look(self.socket)
        except DemoError:
            return {"": "HAProxy does not answer"}
        after = await self.records()
        self.looks += 1
        self.leaks.update(leaked(before, snapshot, after))
        missing = removed(before, snapshot, after)
        if not (was_blind or self.blind):
            self.removals.update(missing)
        return missing

    async def at_rest(self, addresses: set[str]) -> str:
        """Say what is not as it should be in the end; empty if all is.

        Args:
            addresses: of the pods that live.
        """
        records = await self.records()
        snapshot = await haproxy.look(self.socket)
        members = [m.address for m in snapshot.members]
        named = sorted(record.address for record in records.values())
        if any(not _is_in(record) for record in records.values()):
            return "some records are not registered, or not gone"
        if named != sorted(addresses):
            return f"records name {named}, not {sorted(addresses)}"
        if sorted(members) != sorted(addresses) or snapshot.serving != len(members):
            return f"members are {sorted(members)}, not {sorted(addresses)}, or drain"
        return ""
