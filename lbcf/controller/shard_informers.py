"""What a shard follows: its own namespaces, one by one, and records at its load balancers.

    Namespace -> those of this shard -> an informer for each, per kind -> a part of the store

So the API server sends a shard what is its own, and nothing else. Of a namespace that appears
later pods are read before records, and records before groups: a group is never seen without
the pods that are there.
"""

import asyncio

from typing import Any, Generic, NoReturn, TypeVar

import attrs
import structlog

from lbcf.controller.view import LIVING_PODS, View
from lbcf.core.model import names
from lbcf.core.model.resources import BackendRecord, LoadBalancer
from lbcf.core.model.shards import Shard
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import (
    BINDS,
    CLASSES,
    GROUPS,
    NAMESPACES,
    NODES,
    PODS,
    RECORDS,
    SERVICES,
    HasMeta,
    Resource,
    divided_drivers,
    divided_load_balancers,
)
from lbcf.kube.list_watch import EVERYTHING, Selection
from lbcf.kube.reader import KubeReader
from lbcf.kube.store import Store
from lbcf.process import Follower
from lbcf.runtime.clock import Clock
from lbcf.wire.metadata import MetaOnly


T = TypeVar("T", bound=HasMeta)

_log = structlog.get_logger(__name__)


@attrs.frozen
class OwnNamespaces:
    """The namespaces of a shard, and how they are read.

    Attributes:
        client: asks.
        clock: of the informers.
        shard: whose namespaces are followed.
        every: follows all namespaces of the cluster; to be run beside.
    """

    client: KubeReader
    clock: Clock
    shard: Shard
    every: Informer[MetaOnly]


class NamespacedInformers(Generic[T]):
    """Follows one kind in the namespaces of a shard; each is a part of the store.

    Args:
        own: the namespaces.
        resource: the kind.
        store: what is fed.
        after: of each namespace, these are read before.
        selection: which objects, in each namespace.
        may_be_missing: as the informer has it.

    Attributes:
        store: the same.
        synced: set when all namespaces have been listed that were there at the start.
    """

    def __init__(
        self,
        own: OwnNamespaces,
        resource: Resource[T],
        store: Store[T],
        *,
        after: "NamespacedInformers[Any] | None" = None,
        selection: Selection = EVERYTHING,
        may_be_missing: bool = False,
    ) -> None:
        self.store = store
        self.synced = asyncio.Event()
        self._own = own
        self._resource = resource
        self._after = after
        self._selection = selection
        self._may_be_missing = may_be_missing
        self._informers: dict[str, Informer[T]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        own.every.store.on_change(self._changed)

    @property
    def resource(self) -> Resource[T]:
        """Return the kind."""
        return self._resource

    @property
    def last_heard(self) -> float | None:
        """Return when the namespace was heard of that is silent for longest."""
        heard = [one.last_heard for one in self._informers.values()]
        return min((at for at in heard if at is not None), default=None)

    async def run(self) -> NoReturn:
        """Follow until cancelled."""
        try:
            await self._own.every.synced.wait()
            for namespace in list(self._informers):
                await self.read(namespace)
            self.synced.set()
            while True:
                await asyncio.Event().wait()
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def read(self, namespace: str) -> None:
        """Wait until a namespace has been listed, or is followed no more."""
        while (informer := self._informers.get(namespace)) is not None:
            listed = asyncio.create_task(informer.synced.wait())
            await asyncio.wait(
                {self._tasks[namespace], listed}, return_when=asyncio.FIRST_COMPLETED
            )
            listed.cancel()
            if informer.synced.is_set():
                return

    def _changed(self, old: MetaOnly | None, new: MetaOnly | None) -> None:
        """Begin to follow a namespace, or cease to."""
        either = new or old
        name = "" if either is None else either.meta.key.name
        if not self._own.shard.has_namespace(name):
            return
        if new is None:
            self._tasks.pop(name).cancel()
            del self._informers[name]
            self.store.forget_part(name)
        elif old is None:
            informer = self._informers[name] = Informer(
                self._own.client,
                self._resource,
                self._own.clock,
                store=self.store,
                selection=attrs.evolve(self._selection, namespace=name),
                may_be_missing=self._may_be_missing,
                part=name,
            )
            self._tasks[name] = asyncio.create_task(self._follow(name, informer))

    async def _follow(self, namespace: str, informer: Informer[T]) -> None:
        if self._after is not None:
            await self._after.read(namespace)
        await informer.run()


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
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

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


def informers_of_shard(
    view: View, client: KubeReader, clock: Clock
) -> tuple[Follower, ...]:
    """Return what keeps a shard's view up to date: of most kinds its own namespaces alone."""
    shard = view.shard
    drivers = divided_drivers(shard, everywhere=False)
    kind = divided_load_balancers(shard, everywhere=False)
    balancers = Informer(client, kind, clock, store=view.load_balancers)
    own = OwnNamespaces(client, clock, shard, Informer(client, NAMESPACES, clock))
    pods = NamespacedInformers(own, PODS, view.pods, selection=LIVING_PODS)
    services = NamespacedInformers(own, SERVICES, view.services, after=pods)
    records = NamespacedInformers(own, RECORDS, view.records, after=services)
    return (
        Informer(client, drivers, clock, store=view.drivers),
        balancers,
        Informer(client, NODES, clock, store=view.nodes),
        Informer(client, CLASSES, clock, store=view.classes, may_be_missing=True),
        pods,
        services,
        records,
        NamespacedInformers(own, BINDS, view.binds, after=records, may_be_missing=True),
        NamespacedInformers(own, GROUPS, view.groups, after=records),
        SharedRecords(
            client, clock, shard=shard, load_balancers=balancers, store=view.others
        ),
        own.every,
    )


_SHARED = Resource(
    RECORDS.group, RECORDS.version, "shared-backendrecords", RECORDS.kind, RECORDS.parse
)
