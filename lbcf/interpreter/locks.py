"""Locks on addresses, for load balancers that know their members by address alone.

Two records may want one address: an address that is reused at once, two groups, two
namespaces that share a load balancer. The first holds a Lease; the next one waits until
that one's holder exists no more and none of the calls for its end can still arrive.
Nobody releases a lock by a write: its holder's existence is the lock. Those of holders
long gone are swept away.
"""

from datetime import timedelta

import attrs
import structlog

from lbcf.core.names import digest
from lbcf.core.resources import BackendRecord
from lbcf.core.steps import LockHeld, LockTaken, TakeLock
from lbcf.core.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import KubeError, NotFound
from lbcf.kube.kinds import RECORDS
from lbcf.kube.locks import AddressLocks, HeldBy
from lbcf.runtime.clock import Clock


_NAME_HASH = 40
_LOOK_AGAIN = timedelta(seconds=5)
_BETWEEN_SWEEPS = timedelta(minutes=10)
_STALE = timedelta(hours=2)
"""Longer than any quarantine: time-outs end at 1 m and lateEffectSeconds at an hour."""

_log = structlog.get_logger(__name__)


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
        holder = _holder(step.record)
        held = await self._locks.take(name, holder)
        if not isinstance(held, HeldBy):
            self._gone.pop(name, None)
            return LockTaken()
        if await self._exists(held.holder):
            self._gone.pop(name, None)
            return LockHeld(held.holder, _LOOK_AGAIN)
        rest = self._rest(name, held.holder, step.takeover_after)
        if rest > timedelta(0):
            return LockHeld(held.holder, rest)
        self._gone.pop(name, None)
        taken = await self._locks.take_over(held, holder)
        if isinstance(taken, HeldBy):
            return LockHeld(taken.holder, _LOOK_AGAIN)
        return LockTaken()

    async def inherit(self, record: BackendRecord) -> str | None:
        """Take the lock of a record that has its address already; returns who else has it.

        Raises:
            KubeError: the API server could not be asked.
        """
        name = _name(record.driver_key, record, record.address)
        held = await self._locks.take(name, _holder(record))
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
        over in the meantime keeps it.

        Raises:
            KubeError: the API server could not be asked.
        """
        swept = 0
        leases = await self._locks.list()
        for lease in leases:
            name = lease.meta.key.name
            if not lease.holder or await self._exists(lease.holder):
                self._gone.pop(name, None)
            elif self._rest(name, lease.holder, _STALE) <= timedelta(0):
                swept += await self._locks.sweep(lease)
                self._gone.pop(name, None)
        kept = {lease.meta.key.name for lease in leases}
        self._gone = {n: since for n, since in self._gone.items() if n in kept}
        return swept

    def _rest(self, name: str, holder: str, quarantine: timedelta) -> timedelta:
        """Say how long the last holder's calls may still arrive."""
        now = self._clock.monotonic()
        since = self._gone.get(name)
        if since is None or since.holder != holder:
            since = self._gone[name] = _GoneSince(holder, now)
        return quarantine - timedelta(seconds=now - since.at)

    async def _exists(self, holder: str) -> bool:
        """Ask the API server itself whether a holder still exists."""
        namespace, name, uid = holder.split("/", 2)
        try:
            record = await self._client.get(RECORDS, ObjectKey(namespace, name))
        except NotFound:
            return False
        return record.meta.uid == uid


def lock_name(step: TakeLock) -> str:
    """Name the lock on (driver, load balancer, address)."""
    return _name(step.driver.meta.key, step.record, step.address)


def _name(driver: ObjectKey, record: BackendRecord, address: str) -> str:
    """Name the lock on (driver, load balancer, address)."""
    info = record.spec.lb_info
    identity = [str(driver), *(f"{k}={info[k]}" for k in sorted(info))]
    return f"addr-{digest([*identity, address], _NAME_HASH)}"


def _holder(record: BackendRecord) -> str:
    """Name the holder."""
    return f"{record.meta.key}/{record.meta.uid}"
