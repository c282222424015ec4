"""Locks on addresses, for load balancers that know their members by address alone.

Two records may want one address: an address that is reused at once, two groups, two
namespaces that share a load balancer. The first holds a Lease; the next one waits until
that one's holder exists no more and none of the calls for its end can still arrive: at
once where its deregistrar has written that all of them were answered, else after Δ.
Nobody releases a lock by a write: its holder's existence is the lock. Those of holders
long gone are swept away.
"""

from datetime import timedelta

import attrs
import structlog

from lbcf.core.names import digest
from lbcf.core.resources import BackendRecord
from lbcf.core.steps import LockHeld, LockTaken, TakeLock
from lbcf.core.values import ObjectKey, Uid
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import KubeError, NotFound
from lbcf.kube.kinds import RECORDS
from lbcf.kube.leases import Lease
from lbcf.kube.locks import AddressLocks, HeldBy
from lbcf.runtime.clock import Clock


_NAME_HASH = 40
_LOOK_AGAIN = timedelta(seconds=5)
_BETWEEN_SWEEPS = timedelta(minutes=10)
_STALE = timedelta(hours=2)
"""Longer than any quarantine: time-outs end at 1 m and lateEffectSeconds at an hour."""

_log = structlog.get_logger(__name__)


@attrs.frozen
class _Holder:
    """The record that a lock names."""

    key: ObjectKey
    uid: Uid


@attrs.frozen
class _GoneSince:
    """Since when a holder is known not to exist, by this process's own clock."""

    holder: str
    at: float


class AddressLocker:
    """Takes locks for records."""

    def __init__(self, client: KubeClient, locks: AddressLocks, clock: Clock) -> None:
        self._client = client
        self._locks = locks
        self._clock = clock
        self._gone: dict[str, _GoneSince] = {}

    async def take(self, step: TakeLock) -> LockTaken | LockHeld:
        """Take a lock, or say who has it and when to ask again.

        Raises:
            KubeError: the API server could not be asked.
        """
        name = lock_name(step)
        own = _name_of(step.record)
        held = await self._locks.take(name, own)
        if not isinstance(held, HeldBy):
            self._gone.pop(name, None)
            return LockTaken()
        holder = _holder(held.holder)
        if holder is None or await self._exists(holder):
            self._gone.pop(name, None)
            return _held(held, _LOOK_AGAIN)
        wait = timedelta(0) if holder.uid == step.ended else step.takeover_after
        rest = self._rest(name, held.holder, wait)
        if rest > timedelta(0):
            return _held(held, rest, is_gone=True)
        self._gone.pop(name, None)
        taken = await self._locks.take_over(held, own)
        return _held(taken, _LOOK_AGAIN) if isinstance(taken, HeldBy) else LockTaken()

    async def inherit(self, record: BackendRecord) -> str | None:
        """Take the lock of a record that has its address already; returns who else has it.

        Raises:
            KubeError: the API server could not be asked.
        """
        name = _name(record.driver_key, record, record.address)
        held = await self._locks.take(name, _name_of(record))
        return held.holder if isinstance(held, HeldBy) else None

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
            if self._rest(name, lease.holder, _STALE) > timedelta(0):
                return False
            self._gone.pop(name, None)
            return await self._locks.sweep(lease)
        except KubeError as error:
            # Its own trouble, such as a record that cannot be read: the others go on.
            _log.warning("lock.unswept", lease=str(lease.meta.key), error=str(error))
            return False

    def _rest(self, name: str, holder: str, quarantine: timedelta) -> timedelta:
        """Say how long the last holder's calls may still arrive."""
        now = self._clock.monotonic()
        since = self._gone.get(name)
        if since is None or since.holder != holder:
            since = self._gone[name] = _GoneSince(holder, now)
        return quarantine - timedelta(seconds=now - since.at)

    async def _exists(self, holder: _Holder) -> bool:
        """Ask the API server itself whether a holder still exists."""
        try:
            record = await self._client.get(RECORDS, holder.key)
        except NotFound:
            return False
        return record.meta.uid == holder.uid


def _held(held: HeldBy, again_after: timedelta, *, is_gone: bool = False) -> LockHeld:
    """Say whose a lock is."""
    holder, lease = _holder(held.holder), held.lease.meta.key
    key, uid = (None, Uid("")) if holder is None else (holder.key, holder.uid)
    return LockHeld(lease, key, uid, again_after, is_gone)


def lock_name(step: TakeLock) -> str:
    """Name the lock on (driver, load balancer, address)."""
    return _name(step.driver.meta.key, step.record, step.address)


def _name(driver: ObjectKey, record: BackendRecord, address: str) -> str:
    """Name the lock on (driver, load balancer, address)."""
    info = record.spec.lb_info
    identity = [str(driver), *(f"{k}={info[k]}" for k in sorted(info))]
    return f"addr-{digest([*identity, address], _NAME_HASH)}"


def _name_of(record: BackendRecord) -> str:
    """Spell a record as a holder."""
    return f"{record.meta.key}/{record.meta.uid}"


def _holder(spelled: str) -> _Holder | None:
    """Read who holds a lock; None: it is not as we spell it, somebody has changed it."""
    match spelled.split("/"):
        case [namespace, name, uid] if namespace and name and uid:
            return _Holder(ObjectKey(namespace, name), Uid(uid))
        case _:
            return None
