"""Puts the deregistrar together: what it watches, its queue, its workers."""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import timedelta

from lbcf.core.model import conditions
from lbcf.core.model.resources import BackendRecord, LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.deregistrar.cut_drains import CutDrains
from lbcf.deregistrar.drain_gate import (
    ASKED_AGAIN,
    DrainGate,
    GateMetrics,
    pod_of,
)
from lbcf.deregistrar.gate_server import GateServer
from lbcf.deregistrar.metrics import DeletionMetrics
from lbcf.deregistrar.noted_calls import NotedCalls
from lbcf.deregistrar.orphans import OrphanRemoval
from lbcf.deregistrar.reconciler import Deregistrar
from lbcf.deregistrar.successors import Successors, holder_of, is_waiting
from lbcf.executor import Executor, LoadBalancerCalls
from lbcf.executor.locks import EndCover
from lbcf.executor.object_events import (
    AbandonmentReporter,
    CallReporter,
    TroubleReporter,
)
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.address_locks import AddressLocks
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import RECORDS, divided_drivers, divided_load_balancers
from lbcf.kube.list_watch import Selection
from lbcf.kube.store import Store
from lbcf.process import Dependencies, Follower
from lbcf.runtime.health import Check
from lbcf.runtime.journal import Predecessor
from lbcf.runtime.limiter import Shares
from lbcf.runtime.queue import ReconnectNotifier, WorkQueue
from lbcf.runtime.shutdown import work_until_asked
from lbcf.runtime.worker import Workers


_WORKERS = 2048
"""Enough for eight drivers of one namespace that answer nothing, and for four such
namespaces. A worker costs about a kilobyte and a half."""
_TELLING_WORKERS = 16
_SHARDS_ASKED_AGAIN = timedelta(seconds=1)
_TOLD = frozenset({conditions.DRAINED, conditions.DEREGISTERED})


def _concerns_us(record: BackendRecord) -> bool:
    # Records that live and wait for nobody take no memory here.
    return record.is_deleting or is_waiting(record)


def _driver_of(record: BackendRecord) -> Iterator[ObjectKey]:
    yield record.driver_key


def _gate_of(
    parts: Dependencies,
    records: Store[BackendRecord],
    again: timedelta = ASKED_AGAIN,
) -> GateServer:
    """Make what answers pods that wait."""
    series = GateMetrics(parts.metrics)
    gate = DrainGate(parts.client, records, parts.clock, series, again)
    records.on_change(gate.record_changed)
    return GateServer(gate, series)


def _orphans(
    parts: Dependencies,
    load_balancers: Store[LoadBalancer],
    drivers: Store[LoadBalancerDriver],
    calls: LoadBalancerCalls,
) -> OrphanRemoval:
    """Make what takes out members whose records do not exist."""
    return OrphanRemoval(
        parts.client,
        load_balancers,
        drivers,
        calls,
        recorder=parts.recorder,
        clock=parts.clock,
        metrics=parts.metrics,
    )


@contextlib.asynccontextmanager
async def stand_by(parts: Dependencies) -> AsyncIterator[None]:
    """Answer pods that wait for their records' end, whichever shard this one leads.

    A pod's records may be several shards': no watch of one tells of all of them, so that
    the API server is asked often instead.
    """
    address = parts.settings.drain_gate
    if address is None:
        yield
        return
    records: Store[BackendRecord] = Store({"pod": pod_of})
    async with _gate_of(parts, records, _SHARDS_ASKED_AGAIN).serve(address):
        yield


def _informers_of(
    parts: Dependencies,
    drivers: Store[LoadBalancerDriver],
    load_balancers: Store[LoadBalancer],
    records: Store[BackendRecord],
) -> tuple[Follower, ...]:
    """Make what is read; of the records those alone that this shard ends."""
    client, clock, shard = parts.client, parts.clock, parts.shard
    kind = divided_drivers(shard, everywhere=True)
    balancers = divided_load_balancers(shard, everywhere=True)
    ended = Selection(labels=shard.ending_selector())
    return (
        Informer(client, kind, clock, store=drivers),
        Informer(client, balancers, clock, store=load_balancers),
        Informer(client, RECORDS, clock, store=records, selection=ended),
    )


class DeregistrarProgram:
    """The program of the deregistrar process."""

    def __init__(self, parts: Dependencies) -> None:
        client, clock = parts.client, parts.clock
        self._parts = parts
        records: Store[BackendRecord] = Store(
            {"driver": _driver_of, "holder": holder_of, "pod": pod_of},
            keep=_concerns_us,
        )
        drivers: Store[LoadBalancerDriver] = Store()
        load_balancers: Store[LoadBalancer] = Store()
        queue: WorkQueue[ObjectKey] = WorkQueue(
            "deletions", clock, parts.metrics, group_of=lambda key: key.namespace
        )

        def limit(key: ObjectKey) -> int | None:
            found = load_balancers.get(key)
            return None if found is None else found.max_concurrent_calls

        telling: WorkQueue[ObjectKey] = WorkQueue("successors", clock, parts.metrics)
        self._noted = noted = NotedCalls(parts.journal)
        successors = Successors(
            records, telling, ObjectWriter(client, RECORDS, records), clock, noted
        )
        calls_told = CallReporter(parts.recorder, enabled=parts.settings.record_events)
        self._executor = Executor(
            client,
            parts.drivers,
            clock,
            ends=EndCover(AddressLocks(client, parts.settings.namespace, clock)),
            records=records,
            limit=limit,
            recall=ReconnectNotifier(queue, records.on_end),
            told=calls_told.record_told,
        )
        series = DeletionMetrics(records, clock, parts.metrics)
        self._cuts = CutDrains(parts.recorder, clock, parts.metrics)
        self._deregistrar = deregistrar = Deregistrar(
            records,
            drivers,
            queue,
            self._executor,
            incarnation=parts.incarnation,
            noted=noted,
            successors=successors,
            series=series,
            abandonments=AbandonmentReporter(parts.recorder, parts.metrics),
            cuts=self._cuts,
            shares=Shares(_WORKERS),
            limit=limit,
        )
        records.on_change(deregistrar.record_changed)
        records.on_change(successors.record_changed)
        parts.secrets.follow(drivers)
        for forget in (parts.drivers.forget, series.forget):
            drivers.on_end(forget)
        troubles = TroubleReporter(
            parts.recorder,
            _TOLD,
            "Deregister",
            calls_told=parts.settings.record_events,
        )
        troubles.listen(records)
        self._gate = _gate_of(parts, records) if parts.shard.is_whole else None
        self._orphans = _orphans(
            parts,
            load_balancers,
            drivers,
            LoadBalancerCalls(parts.drivers, clock, calls_told.load_balancer_told),
        )
        self._load_balancers = load_balancers
        self._workers = Workers(queue, deregistrar.reconcile, _WORKERS, clock)
        self._telling = Workers(telling, successors.reconcile, _TELLING_WORKERS, clock)
        self._informers = _informers_of(parts, drivers, load_balancers, records)

    def _listen(self) -> None:
        """Have all that is there looked at, and from now on what changes."""
        self._deregistrar.listen()
        self._parts.secrets.on_change(self._deregistrar.secret_changed)
        self._load_balancers.follow(self._load_balancer_changed)

    def _load_balancer_changed(
        self, old: LoadBalancer | None, new: LoadBalancer | None
    ) -> None:
        """Look for orders to take members out where this shard is to heed them.

        And at what failed, where a load balancer is back.
        """
        self._deregistrar.load_balancer_changed(old, new)
        if new is not None and self._parts.shard.has(new.meta.key):
            self._orphans.load_balancer_changed(old, new)

    @property
    def informers(self) -> Sequence[Follower]:
        """What must have been read before anything is ended."""
        return self._informers

    @property
    def ready(self) -> Mapping[str, Check]:
        """Nothing but what it reads must be there."""
        return {}

    @contextlib.asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Answer pods that wait for their records' end, leading or not."""
        address = self._parts.settings.drain_gate
        if address is None or self._gate is None:
            yield
            return
        async with self._gate.serve(address):
            yield

    async def work(
        self, stop: asyncio.Event, predecessor: Predecessor | None = None, /
    ) -> None:
        """Work until told to stop; then finish the calls under way."""
        left = self._noted.begin(self._parts.incarnation, predecessor)
        if predecessor is not None:
            self._deregistrar.inherit(predecessor.name, predecessor.ended_at, left)
        self._listen()
        grace = self._parts.settings.grace
        self._cuts.start()
        async with contextlib.AsyncExitStack() as afterwards:
            afterwards.push_async_callback(self._cuts.stop, grace)
            # Turns that were cut have left the batches that they went with.
            afterwards.push_async_callback(self._executor.end)
            await work_until_asked(
                stop,
                workers=(self._workers, self._telling, self._orphans),
                grace=grace,
            )
