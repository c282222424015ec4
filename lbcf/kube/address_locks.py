"""Locks on addresses: one Lease each, so that two records never share a member.

The registrar takes the lock before an address is registered. Nobody releases one: it is
free when its holder no longer exists, which its user finds out, and then it is taken
over from exactly the version that was seen. Leases without a user are swept.
"""

import math

from datetime import timedelta
from typing import Final

import attrs

from lbcf.core.model.names import API_GROUP
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import AlreadyExists, Conflict, NotFound
from lbcf.kube.leases import LEASES, Lease, micro_time
from lbcf.kube.list_watch import Selection
from lbcf.runtime.clock import Clock


LABEL_LOCK: Final = f"{API_GROUP}/lock"
_ADDRESS = "address"
_ROUNDS = 3
_UNSAID = timedelta(0)


@attrs.frozen
class Taken:
    """The lock is ours.

    Attributes:
        lease: as it stands now.
    """

    lease: Lease


@attrs.frozen
class HeldBy:
    """The lock is somebody else's.

    Attributes:
        holder: who, as it was written.
        lease: the version in which that was seen; `take_over` replaces no other.
    """

    holder: str
    lease: Lease


class AddressLocks:
    """The locks of one namespace."""

    def __init__(self, client: KubeClient, namespace: str, clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock

    async def take(
        self,
        name: str,
        holder: str,
        settling: timedelta = _UNSAID,
        *,
        is_there: bool = False,
    ) -> Taken | HeldBy:
        """Take a lock that is free, or say who has it; asking again is harmless.

        Args:
            name: of the lock.
            holder: who takes it.
            settling: for how long calls for the holder's end may take effect when it is
                gone; written down for whoever comes next.
            is_there: the lock was seen, and most likely still is: it is read before its
                creation, which costs the API server much more, is tried.

        Raises:
            KubeError: as the tree tells; after `Unavailable` ask again.
        """
        for _ in range(_ROUNDS):
            if not is_there:
                try:
                    return Taken(await self._create(name, holder, settling))
                except AlreadyExists:
                    pass
            is_there = False
            try:
                lease = await self._client.get(LEASES, ObjectKey(self._namespace, name))
            except NotFound:
                continue  # Swept between the two requests.
            return await self._judged(lease, holder, settling)
        raise Conflict(f"lease {self._namespace}/{name} comes and goes: try again")

    async def find(self, name: str) -> HeldBy | None:
        """Return the holder of a lock, without taking it; None: nobody.

        Raises:
            KubeError: as the tree tells.
        """
        try:
            lease = await self._client.get(LEASES, ObjectKey(self._namespace, name))
        except NotFound:
            return None
        return HeldBy(lease.holder, lease) if lease.holder else None

    async def take_over(
        self, held: HeldBy, holder: str, settling: timedelta = _UNSAID
    ) -> Taken | HeldBy:
        """Take a lock from a holder that is known to be gone, if it still is that one's.

        Raises:
            KubeError: as the tree tells; after `Unavailable` begin with `take` again.
        """
        lease = held.lease
        spec = self._spec(holder, settling) | {
            "leaseTransitions": lease.transitions + 1
        }
        try:
            taken = await self._client.patch(
                LEASES, lease.meta.key, {"spec": spec}, cas=lease.meta
            )
        except (Conflict, NotFound):
            return await self.take(lease.meta.key.name, holder, settling)
        return Taken(taken)

    async def cover(self, name: str, holder: str, settling: timedelta) -> None:
        """Have a Lease say that calls for a record's end may take effect for so long.

        It says so already where it names more.

        Raises:
            KubeError: as the tree tells; after `Unavailable` ask again.
        """
        found = await self.take(name, holder, settling)
        for _ in range(_ROUNDS):
            if found.lease.duration >= settling.total_seconds():
                return
            held = HeldBy(found.lease.holder, found.lease)
            found = await self.take_over(held, holder, settling)
        raise Conflict(f"lease {self._namespace}/{name} comes and goes: try again")

    async def list(self) -> tuple[Lease, ...]:
        """Return all locks, for the sweep."""
        selection = Selection(self._namespace, labels=f"{LABEL_LOCK}={_ADDRESS}")
        return (await self._client.list(LEASES, selection)).objects

    async def sweep(self, lease: Lease) -> bool:
        """Delete a lock whose holder is gone; False when it has changed hands since.

        Raises:
            KubeError: as the tree tells.
        """
        meta = lease.meta
        try:
            await self._client.delete(
                LEASES, meta.key, uid=meta.uid, version=meta.resource_version
            )
        except NotFound:
            return True
        except Conflict:
            return False
        return True

    async def _create(self, name: str, holder: str, settling: timedelta) -> Lease:
        metadata = {"name": name, "labels": {LABEL_LOCK: _ADDRESS}}
        body = {"metadata": metadata, "spec": self._spec(holder, settling)}
        return await self._client.create(LEASES, self._namespace, body)

    async def _judged(
        self, lease: Lease, holder: str, settling: timedelta
    ) -> Taken | HeldBy:
        if lease.holder == holder:
            return Taken(lease)
        # One that was given back is taken at once.
        held = HeldBy(lease.holder, lease)
        return held if lease.holder else await self.take_over(held, holder, settling)

    def _spec(self, holder: str, settling: timedelta) -> dict[str, object]:
        """Render the holder, since now, and for how long its calls may take effect."""
        return {
            "holderIdentity": holder,
            "acquireTime": micro_time(self._clock.now()),
            "leaseDurationSeconds": math.ceil(settling.total_seconds()) or None,
        }
