"""Follows the Lease of the deregistrar: which one leads, and whether any does."""

import asyncio

from collections.abc import Callable
from datetime import timedelta
from typing import Final

import structlog

from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.shards import Shard, ending_shard, lease_name
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import EventReason
from lbcf.kube.errors import KubeError
from lbcf.kube.events import EventRecorder, Reference
from lbcf.kube.informer import Informer
from lbcf.kube.leader_election import Timing
from lbcf.kube.leases import LEASES, Lease
from lbcf.kube.list_watch import Selection
from lbcf.kube.reader import KubeReader
from lbcf.runtime.clock import Clock


_log = structlog.get_logger(__name__)

AWAY: Final = Timing().duration + timedelta(seconds=3)
"""Without a renewal of the Lease: another replica would have taken it by then."""


class DeregistrarLease:
    """Follows the Lease of the deregistrar.

    The registrar writes its name into a record together with the address
    (`status.deregistrar`): that deregistrar alone may call for the record's end without
    writing to the record first. A name that is out of date costs one more write, and the
    next owner of the address a wait.

    Args:
        client: the API server.
        clock: for the informer.
        namespace: where the Lease is.
        recorder: of Events about it.
        number: of the deregistrar's shard.

    Attributes:
        informer: reads the Lease.
    """

    def __init__(
        self,
        client: KubeReader,
        clock: Clock,
        namespace: str,
        recorder: EventRecorder,
        number: int = 0,
    ) -> None:
        name = lease_name("deregistrar", number)
        selection = Selection(namespace, fields=f"metadata.name={name}")
        self.informer: Informer[Lease] = Informer(
            client, LEASES, clock, selection=selection
        )
        self._client = client
        self._key = ObjectKey(namespace, name)
        self._recorder = recorder
        self._renewed = asyncio.Event()

    def incarnation(self) -> str:
        """Return which deregistrar leads, as far as is known; empty: none."""
        lease = self.informer.store.get(self._key)
        return "" if lease is None else lease.incarnation

    async def run(self) -> None:
        """Tell by Events when nobody renews it any more, and when somebody does again.

        Of a Lease that was never there nothing is told: `kubectl lbcf check` does so.
        """
        self.informer.store.on_change(self._changed)
        is_away = False
        while True:
            self._renewed.clear()
            try:
                async with asyncio.timeout(AWAY.total_seconds()):
                    await self._renewed.wait()
            except TimeoutError:
                is_away = is_away or await self._tell_away()
            else:
                is_away = is_away and not self._tell_back()

    def _changed(self, _old: Lease | None, new: Lease | None) -> None:
        if new is not None and new.holder:
            self._renewed.set()

    async def _tell_away(self) -> bool:
        """Tell that it is away; False: it is not, or nobody can say."""
        known = self.informer.store.get(self._key)
        if known is None:
            return False
        try:
            # The watch may lag, or be broken: then it is we who are away.
            now = await self._client.get(LEASES, self._key)
        except KubeError:
            return False
        if now != known:
            return False
        held = f"{now.holder} has not renewed it" if now.holder else "nobody holds it"
        self._record(
            now,
            EventReason.DEREGISTRAR_AWAY,
            f"{held} for {AWAY.total_seconds():g} s: nothing is drained or deregistered",
            warning=True,
        )
        _log.warning("deregistrar.away", holder=now.holder)
        return True

    def _tell_back(self) -> bool:
        lease = self.informer.store.get(self._key)
        if lease is None:
            return False
        self._record(lease, EventReason.DEREGISTRAR_BACK, f"held by {lease.holder}")
        return True

    def _record(
        self, lease: Lease, reason: EventReason, note: str, *, warning: bool = False
    ) -> None:
        self._recorder.record(
            Reference("coordination.k8s.io/v1", "Lease", self._key, lease.meta.uid),
            reason=reason,
            action="Lead",
            note=note,
            warning=warning,
        )


class DeregistrarLeases:
    """Follows the Leases of all shards of the deregistrar.

    Args:
        make: makes what follows the Lease of one shard.
        shard: of the controller; there are as many of the deregistrar.

    Attributes:
        informers: read the Leases.
    """

    def __init__(self, make: Callable[[int], DeregistrarLease], shard: Shard) -> None:
        self._leases = [make(number) for number in range(shard.count)]
        self._own = self._leases[shard.number]
        self.informers = tuple(lease.informer for lease in self._leases)

    def incarnation(self, record: BackendRecord) -> str:
        """Return which deregistrar ends a record, as far as is known; empty: none."""
        number = ending_shard(record.meta.labels, len(self._leases))
        return self._leases[number].incarnation()

    async def run(self) -> None:
        """Tell by Events of one of them; those of all are told by all shards together."""
        await self._own.run()
