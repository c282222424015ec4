"""Locks on addresses, for load balancers that know their members by address alone.

Two records may want one address: an address that is reused at once, two groups, two
namespaces that share a load balancer. The first holds a Lease; the next one waits until
that one's holder exists no more and none of the calls for its end can still arrive: at
once where its deregistrar has written that all of them were answered, else after Δ.
Nobody releases a lock by a write: its holder's existence is the lock. Those of holders
long gone are swept away.

A lock says by which Δ, that of the driver when it was taken. A deregistrar whose calls may
take effect for longer makes another Lease before, named by the holder's uid, which is read
before the lock is taken over.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import attrs
import structlog

from lbcf.core.lifecycle.steps import (
    CoverEnd,
    EndCovered,
    LockHeld,
    LockTaken,
    TakeLock,
)
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model.names import digest
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import BootTime, ObjectKey, Uid
from lbcf.executor.turns import read_now
from lbcf.kube.address_locks import AddressLocks, HeldBy
from lbcf.kube.errors import KubeError, NotFound
from lbcf.kube.kinds import RECORDS
from lbcf.kube.leases import Lease
from lbcf.kube.reader import KubeReader
from lbcf.runtime.clock import Clock


V = TypeVar("V")

_NAME_HASH = 40
_LOOK_AGAIN = timedelta(seconds=5)
_BETWEEN_SWEEPS = timedelta(minutes=10)
_MOST_ENDED = 10_000
"""Records whose end is remembered, and locks that they left; of the oldest Δ is over."""
_STALE = 7200.0
"""Seconds; longer than any Δ: time-outs end at 1 m and lateEffectSeconds at an hour."""

_log = structlog.get_logger(__name__)


@attrs.frozen
class _LockHolder:
    """The record that a lock names."""

    key: ObjectKey
    uid: Uid


@attrs.frozen
class _GoneSince:
    """Since when a holder is known not to exist, by this process's own clock."""

    holder: str
    at: float


class AddressLocker:
    """Takes locks for records.

    Args:
        client: says whether a holder exists.
        locks: where they are.
        clock: says for how long a holder has been gone.
        keys: says under which keys members of a load balancer are locked, the newest
            first; empty: not known, then the name of its driver is one.
    """

    def __init__(
        self,
        client: KubeReader,
        locks: AddressLocks,
        clock: Clock,
        keys: Callable[[ObjectKey], Sequence[str]] = lambda _load_balancer: (),
    ) -> None:
        self._client = client
        self._locks = locks
        self._clock = clock
        self._keys = keys
        self._gone: dict[str, _GoneSince] = {}
        self._ended: dict[str, float] = {}
        self._there: dict[str, None] = {}

    def record_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Note when a record has ended: who comes for its address later waits no longer.

        A pod that was away for some seconds would wait for the whole of Δ otherwise.
        """
        if old is None or new is not None or not old.address:
            return
        self._ended[_name_of(old)] = read_now(self._clock).monotonic
        _forget_first(self._ended)
        keyed, unkeyed = self._names_of(old, old.address)
        for name in keyed or (unkeyed,):
            self._note_there(name)

    async def take(self, step: TakeLock) -> LockTaken | LockHeld:
        """Take a lock under each key, or say who has one and when to ask again.

        Load balancers that share members have one key in common, perhaps an older one of
        either: who took the newest alone would not be seen by a record of one that does
        not have it yet. Under the name of its driver, as earlier versions of this program
        had locks, nobody may have one. The oldest key comes first: keys are added as
        newer ones (`lbcf.core.lifecycle.locking.with_key`), so that a record which waits
        holds none that another one lacks. A key that has changed meanwhile counts.

        Raises:
            KubeError: the API server could not be asked.
        """
        while True:
            keyed, unkeyed = self._names(step)
            taken = await self._take_each(keyed or (unkeyed,), step)
            if isinstance(taken, LockHeld):
                return taken
            held = await self._look(unkeyed, step)
            if held is not None:
                return held
            if keyed == self._names(step)[0]:
                return taken

    async def _take_each(
        self, names: Sequence[str], step: TakeLock
    ) -> LockTaken | LockHeld:
        """Take locks in this order; the record says what the shortest of them says."""
        settling: list[timedelta] = []
        for name in names:
            taken = await self._take_one(name, step)
            if isinstance(taken, LockHeld):
                return taken
            settling.append(taken.settling)
        return LockTaken(min(settling))

    async def _take_one(self, name: str, step: TakeLock) -> LockTaken | LockHeld:
        """Take one lock, or say who has it."""
        own = _name_of(step.record)
        found = await self._locks.take(
            name, own, step.takeover_after, is_there=name in self._there
        )
        if isinstance(found, HeldBy):
            self._note_there(name)
            held = await self._judged(name, found, step)
            if held is not None:
                return held
            found = await self._locks.take_over(found, own, step.takeover_after)
        if isinstance(found, HeldBy):
            return _held(found, _LOOK_AGAIN)
        self._there.pop(name, None)
        self._gone.pop(name, None)
        return LockTaken(timedelta(seconds=found.lease.duration))

    async def _look(self, name: str, step: TakeLock) -> LockHeld | None:
        found = await self._locks.find(name)
        if found is None or found.holder == _name_of(step.record):
            return None
        return await self._judged(name, found, step)

    async def _judged(self, name: str, held: HeldBy, step: TakeLock) -> LockHeld | None:
        """Return whether somebody else's lock is still in force; None: it is free."""
        holder = _holder(held.holder)
        if holder is None or await self._exists(holder):
            self._gone.pop(name, None)
            self._ended.pop(held.holder, None)
            return _held(held, _LOOK_AGAIN)
        waiting = step.waiting
        known = waiting if waiting and waiting.holder == holder.uid else None
        if known is not None and known.is_over:
            self._gone.pop(name, None)
            return None
        # Calls for the holder's end may have gone by the driver as it was then.
        said = timedelta(seconds=held.lease.duration)
        wait = max(step.takeover_after, said)
        written = None if known is None else known.gone_at
        now = read_now(self._clock)
        since = self._gone_since(name, held.holder, now, written)
        gone_for = timedelta(seconds=now.monotonic - since)
        rest = wait - gone_for
        if rest <= timedelta(0):
            # Or as it was in between. No call goes by a read from before the holder's end
            # any more, so that nobody announces another one.
            longer = await self._locks.find(_end_of(holder.uid))
            rest = timedelta(seconds=longer.lease.duration if longer else 0) - gone_for
        if rest > timedelta(0):
            return _held(held, rest, BootTime(now.boot, since))
        self._gone.pop(name, None)
        return None

    def _names(self, step: TakeLock) -> tuple[tuple[str, ...], str]:
        """Return the locks by the load balancer's keys, and the one by its driver's name."""
        return self._names_of(step.record, step.address)

    def _names_of(
        self, record: BackendRecord, address: str
    ) -> tuple[tuple[str, ...], str]:
        keys = reversed(self._keys(record.load_balancer_key))
        return tuple(_named(key, address) for key in keys), _name(record, address)

    def _note_there(self, name: str) -> None:
        """Note a lock that whoever wants it next will find."""
        self._there[name] = None
        _forget_first(self._there)

    async def inherit(self, record: BackendRecord, key: str = "") -> str | None:
        """Take the lock of a record that has its address already; returns who else has it.

        Of a holder that exists no more it is taken at once: the address is the record's, and
        who comes next would wait for the end of that holder alone.

        Args:
            record: it.
            key: of its load balancer; empty: the name of its driver, as ever.

        Raises:
            KubeError: the API server could not be asked.
        """
        address = record.address
        name = _named(key, address) if key else _name(record, address)
        # Whoever takes it over waits for what the record says, as by its other locks.
        settling, own = record.status.lock_settling, _name_of(record)
        held = await self._locks.take(name, own, settling)
        if isinstance(held, HeldBy) and await self._is_gone(held):
            # Calls for that end may be late still, by what its lock says.
            longest = max(settling, timedelta(seconds=held.lease.duration))
            held = await self._locks.take_over(held, own, longest)
        return held.holder if isinstance(held, HeldBy) else None

    async def _is_gone(self, held: HeldBy) -> bool:
        """Ask whether a holder exists no more; one that cannot be read may exist."""
        holder = _holder(held.holder)
        return holder is not None and not await self._exists(holder)

    async def sweep_forever(self) -> None:
        """Delete stale locks now and then, until cancelled."""
        while True:
            try:
                await self.sweep()
            except KubeError as error:
                _log.warning("locks.unswept", error=str(error))
            await self._clock.sleep(_BETWEEN_SWEEPS)

    async def sweep(self) -> int:
        """Delete the locks whose holders have been gone for long; returns how many.

        Only from the very version in which the holder was seen: whoever takes a lock
        over in the meantime keeps it. One that names nobody, or names somebody in a way
        that we do not write, stays.

        Raises:
            KubeError: the locks could not be listed.
        """
        leases = await self._locks.list()
        swept = [await self._sweep_one(lease) for lease in leases]
        kept = {lease.meta.key.name for lease in leases}
        self._gone = {n: since for n, since in self._gone.items() if n in kept}
        return sum(swept)

    async def _sweep_one(self, lease: Lease) -> bool:
        """Delete a lock if it is stale; one that cannot be judged now stays."""
        name, holder = lease.meta.key.name, _holder(lease.holder)
        if holder is None:
            self._gone.pop(name, None)
            if lease.holder:
                _log.warning("lock.unreadable", lease=str(lease.meta.key))
            return False
        try:
            if await self._exists(holder):
                self._gone.pop(name, None)
                return False
            now = read_now(self._clock)
            if now.monotonic - self._gone_since(name, lease.holder, now) < _STALE:
                return False
            self._gone.pop(name, None)
            return await self._locks.sweep(lease)
        except KubeError as error:
            # Its own trouble, such as a record that cannot be read: the others go on.
            _log.warning("lock.unswept", lease=str(lease.meta.key), error=str(error))
            return False

    def _gone_since(
        self, name: str, holder: str, now: Now, written: BootTime | None = None
    ) -> float:
        """Return since when a holder is known to be gone, in monotonic seconds.

        Args:
            name: of its lock.
            holder: as the lock spells it.
            now: the present.
            written: what a process before this one knew.
        """
        known = self._gone.get(name)
        is_known = known is not None and known.holder == holder
        seen = known.at if known and is_known else now.monotonic
        at = now.began_at(min(seen, self._ended.get(holder, seen)), written)
        self._gone[name] = _GoneSince(holder, at)
        return at

    async def _exists(self, holder: _LockHolder) -> bool:
        """Ask the API server itself whether a holder still exists."""
        try:
            record = await self._client.get(RECORDS, holder.key)
        except NotFound:
            return False
        return record.meta.uid == holder.uid


class EndCover:
    """Announces calls for an end that may take effect for longer than the lock says.

    Args:
        locks: where Leases are.
    """

    def __init__(self, locks: AddressLocks) -> None:
        self._locks = locks

    async def cover(self, step: CoverEnd) -> EndCovered:
        """Have a Lease say so, for whoever takes the address over.

        Raises:
            KubeError: nobody knows whether it does.
        """
        record = step.record
        name = _end_of(record.meta.uid)
        await self._locks.cover(name, _name_of(record), step.settling)
        return EndCovered(step.settling)


def _forget_first(entries: dict[str, V]) -> None:
    """Drop the oldest entries beyond what is remembered."""
    while len(entries) > _MOST_ENDED:
        del entries[next(iter(entries))]


def _end_of(uid: Uid) -> str:
    return f"end-{uid}"


def _held(
    held: HeldBy, again_after: timedelta, gone_at: BootTime | None = None
) -> LockHeld:
    holder, lease = _holder(held.holder), held.lease.meta.key
    key, uid = (None, Uid("")) if holder is None else (holder.key, holder.uid)
    return LockHeld(lease, key, uid, again_after, gone_at)


def _named(key: str, address: str) -> str:
    return f"addr-{digest(['key', key, address], _NAME_HASH)}"


def _name(record: BackendRecord, address: str) -> str:
    # As the objects spell them: no key of the load balancer is known.
    info = record.spec.lb_info
    identity = [str(record.driver_key), *(f"{k}={info[k]}" for k in sorted(info))]
    return f"addr-{digest([*identity, address], _NAME_HASH)}"


def _name_of(record: BackendRecord) -> str:
    return f"{record.meta.key}/{record.meta.uid}"


def _holder(spelled: str) -> _LockHolder | None:
    """Read who holds a lock; None: it is not as we spell it, somebody has changed it."""
    match spelled.split("/"):
        case [namespace, name, uid] if namespace and name and uid:
            return _LockHolder(ObjectKey(namespace, name), Uid(uid))
        case _:
            return None
