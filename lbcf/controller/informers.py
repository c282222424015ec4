"""What a controller follows; a shard what is in its own namespaces, and a little more.

    Namespace -> those of other shards -> left out of each list and watch

So the API server sends a shard what is its own, and records of others at its load balancers.
"""

import asyncio

from collections.abc import Iterator
from itertools import islice
from typing import Final, NoReturn

import attrs
import structlog

from lbcf.controller.view import LIVING_PODS, View
from lbcf.core.model import names
from lbcf.core.model.resources import BackendRecord, LoadBalancer
from lbcf.core.model.shards import Shard
from lbcf.kube.informer import Informer, Select
from lbcf.kube.kinds import (
    BINDS,
    CLASSES,
    GROUPS,
    NAMESPACES,
    NODES,
    PODS,
    RECORDS,
    SERVICES,
    Resource,
    divided_drivers,
    divided_load_balancers,
)
from lbcf.kube.list_watch import EVERYTHING, Selection
from lbcf.kube.reader import KubeReader
from lbcf.kube.store import Store
from lbcf.process import Follower
from lbcf.runtime.clock import Clock
from lbcf.runtime.tasks import end_tasks
from lbcf.wire.metadata import MetaOnly


_log = structlog.get_logger(__name__)

_UNLIKE: Final = "metadata.namespace!={}"
_MOST_NAMES: Final = 2000
"""The API server takes a request line of 1 MiB, which is over 12,000 names of any length
(measured on Kubernetes 1.36); each event that it might send is compared with all of them."""


class OtherNamespaces:
    """Keeps what is in namespaces of other shards from being sent.

    The API server leaves them out of lists and watches by the field selector
    `metadata.namespace!=`, which it knows of every kind. What it sends nevertheless, as of a
    namespace that is newer than the watch, is not kept by the stores.

    Args:
        shard: whose namespaces are wanted.
        every: follows all namespaces of the cluster; to be run beside.
    """

    def __init__(self, shard: Shard, every: Informer[MetaOnly]) -> None:
        self._shard = shard
        self._every = every

    def left_out_of(self, selection: Selection) -> Select:
        """Return what selects the same, without other shards' namespaces."""

        async def select() -> Selection:
            await self._every.synced.wait()
            others = map(_UNLIKE.format, islice(self._others(), _MOST_NAMES))
            fields = ",".join(filter(None, (selection.fields, *others)))
            return attrs.evolve(selection, fields=fields)

        return select

    def _others(self) -> Iterator[str]:
        """Return the names of namespaces that other shards have."""
        found = (namespace.meta.key.name for namespace in self._every.store.values())
        return (name for name in found if not self._shard.has_namespace(name))


class SharedRecords:
    """Follows the records of other shards at those load balancers that are this one's.

    A load balancer of kube-system has members of all namespaces: who creates, lists and
    deletes it must know of all of them. Records have its name in a label.

    Args:
        client: asks.
        clock: of the informer.
        shard: whose load balancers are looked for.
        load_balancers: all of the cluster; its store is fed by whoever runs it.
        store: what is fed; keeps only what other shards have.

    Attributes:
        store: the same.
        synced: set when all have been listed.
    """

    def __init__(
        self,
        client: KubeReader,
        clock: Clock,
        *,
        shard: Shard,
        load_balancers: Informer[LoadBalancer],
        store: Store[BackendRecord],
    ) -> None:
        self.store = store
        self.synced = asyncio.Event()
        self._informer: Informer[BackendRecord] | None = None
        self._client = client
        self._clock = clock
        self._shard = shard
        self._load_balancers = load_balancers
        # Never less: of one that is gone there may be records left.
        self._names: set[str] = set()
        self._more = asyncio.Event()
        load_balancers.store.on_change(self._changed)

    @property
    def resource(self) -> Resource[BackendRecord]:
        """Return the kind, told apart from that of this shard's own records."""
        return _SHARED

    @property
    def last_heard(self) -> float | None:
        """Return when the API server was heard; None where nothing is asked for."""
        return None if self._informer is None else self._informer.last_heard

    def _changed(self, _old: LoadBalancer | None, new: LoadBalancer | None) -> None:
        if new is None or not names.is_shared(new.meta.key):
            return
        name = names.label_value(new.meta.key.name)
        if self._shard.has(new.meta.key) and name not in self._names:
            self._names.add(name)
            self._more.set()

    async def run(self) -> NoReturn:
        """Follow until cancelled."""
        await self._load_balancers.synced.wait()
        while True:
            self._more.clear()
            following = asyncio.create_task(self._follow(sorted(self._names)))
            try:
                await self._more.wait()
            finally:
                await end_tasks([following])

    async def _follow(self, balancers: list[str]) -> None:
        """Follow the records of some load balancers."""
        if not balancers:
            self.synced.set()
            return
        labels = f"{names.LABEL_LOAD_BALANCER} in ({','.join(balancers)})"
        informer = self._informer = Informer(
            self._client,
            RECORDS,
            self._clock,
            store=self.store,
            selection=Selection(labels=labels),
        )
        _log.info("shared_records.followed", load_balancers=balancers)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            await informer.synced.wait()
            self.synced.set()


def informers_of(view: View, client: KubeReader, clock: Clock) -> tuple[Follower, ...]:
    """Return what keeps the view of a whole controller, or of one shard, up to date."""
    shard = view.shard
    drivers = divided_drivers(shard, everywhere=False)
    kind = divided_load_balancers(shard, everywhere=False)
    balancers = Informer(client, kind, clock, store=view.load_balancers)
    own: Selection | Select = EVERYTHING
    living: Selection | Select = LIVING_PODS
    before: tuple[Follower, ...] = ()
    after: tuple[Follower, ...] = ()
    if not shard.is_whole:
        every = Informer(client, NAMESPACES, clock)
        others = OtherNamespaces(shard, every)
        own = others.left_out_of(EVERYTHING)
        living = others.left_out_of(LIVING_PODS)
        shared = SharedRecords(
            client, clock, shard=shard, load_balancers=balancers, store=view.others
        )
        before, after = (every,), (shared,)
    return (
        *before,
        # By far the longest list: a start waits for it.
        Informer(client, RECORDS, clock, store=view.records, selection=own),
        Informer(client, drivers, clock, store=view.drivers),
        balancers,
        Informer(client, GROUPS, clock, store=view.groups, selection=own),
        Informer(
            client, BINDS, clock, store=view.binds, selection=own, may_be_missing=True
        ),
        Informer(client, PODS, clock, store=view.pods, selection=living),
        Informer(client, NODES, clock, store=view.nodes),
        Informer(client, SERVICES, clock, store=view.services, selection=own),
        Informer(client, CLASSES, clock, store=view.classes, may_be_missing=True),
        *after,
    )


_SHARED = Resource(
    RECORDS.group, RECORDS.version, "shared-backendrecords", RECORDS.kind, RECORDS.parse
)
