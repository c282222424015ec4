"""Puts the controller together: what it watches, its queues, its workers."""

import asyncio
import contextlib

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import attrs

from lbcf.controller.addresses import Addresses
from lbcf.controller.apply import Applier
from lbcf.controller.backend_reader import BackendReader
from lbcf.controller.bind_view import BindView
from lbcf.controller.binds import Binds
from lbcf.controller.deregistrar_lease import DeregistrarLease, DeregistrarLeases
from lbcf.controller.driver_decisions import AttachmentKey, Judgements, Validations
from lbcf.controller.drivers import DriverFinalizer, DriverReconciler
from lbcf.controller.endpoint_slices import EndpointSliceInformers
from lbcf.controller.first_checks import FirstChecks
from lbcf.controller.gates import ReadinessGates
from lbcf.controller.gone_backends import GoneBackends
from lbcf.controller.group_reader import GroupReader
from lbcf.controller.group_status import GroupStatusReconciler, HeldRemovalsReporter
from lbcf.controller.groups import GroupReconciler, ServiceGrace
from lbcf.controller.informers import informers_of
from lbcf.controller.legacy import LegacyLocks
from lbcf.controller.load_balancers import LoadBalancers
from lbcf.controller.member_resync import MemberResync
from lbcf.controller.metrics import measure
from lbcf.controller.noted_ensures import NotedEnsures
from lbcf.controller.other_shards import ElsewhereLost
from lbcf.controller.record_lister import RecordLister
from lbcf.controller.record_quota import RecordQuota
from lbcf.controller.registrar import Registrar
from lbcf.controller.removal_check import RemovalCheck
from lbcf.controller.removals import Removals
from lbcf.controller.services import Services
from lbcf.controller.triggers import ChangedBackends, NodeTriggers, Queues, Triggers
from lbcf.controller.view import View
from lbcf.core.model import conditions
from lbcf.core.model.binds import Bind
from lbcf.core.model.cluster import Pod
from lbcf.core.model.names import bind_of
from lbcf.core.model.nodes import NodePortService
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    LoadBalancer,
    LoadBalancerDriver,
)
from lbcf.core.model.services import LoadBalancerClass
from lbcf.core.model.values import ObjectKey
from lbcf.executor import Executor, LoadBalancerCalls
from lbcf.executor.binds import BindWriter
from lbcf.executor.load_balancer_life import LoadBalancerExecutor
from lbcf.executor.locks import AddressLocker
from lbcf.executor.object_events import (
    AbandonmentReporter,
    CallReporter,
    RefusalReporter,
    TroubleReporter,
)
from lbcf.executor.pod_judge import PodJudge
from lbcf.executor.refusals import StatusRefusals
from lbcf.executor.services import ClassWriter, ServiceWriter
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.address_locks import AddressLocks
from lbcf.kube.kinds import (
    BINDS,
    CLASSES,
    GROUPS,
    PODS,
    RECORDS,
    SERVICES,
    divided_drivers,
    divided_load_balancers,
)
from lbcf.kube.transport import AT_ONCE, KEPT
from lbcf.process import Dependencies, Follower
from lbcf.runtime.clock import Clock
from lbcf.runtime.health import Check
from lbcf.runtime.journal import Predecessor
from lbcf.runtime.limiter import ConcurrencyLimiter, Limit, Shares
from lbcf.runtime.queue import ReconnectNotifier, WorkQueue
from lbcf.runtime.shutdown import work_until_asked
from lbcf.runtime.worker import Done, Result, Workers


_GROUP_WORKERS = 16
_REMOVAL_WORKERS = KEPT + AT_ONCE // 2
"""All places that are kept for ends, and half of the others."""
_LOAD_BALANCER_WORKERS = 128
_BIND_WORKERS = 128
_SERVICE_WORKERS = 16
_RECORD_WORKERS = 1024
_STATUS_WORKERS = 4
_GONE_WORKERS = 8
_LOSS_WORKERS = 16
_GATE_WORKERS = 16
_DRIVER_WORKERS = 64
_JUDGING_WORKERS = 256
_TOLD = frozenset({conditions.REGISTERED})
_TOLD_OF_ALL = frozenset({conditions.CREATED, conditions.ATTRIBUTES_SYNCED})


@attrs.frozen
class _Writers:
    """What writes objects of each kind."""

    records: ObjectWriter[BackendRecord]
    groups: ObjectWriter[BackendGroup]
    binds: ObjectWriter[Bind]
    load_balancers: ObjectWriter[LoadBalancer]
    drivers: ObjectWriter[LoadBalancerDriver]
    pods: ObjectWriter[Pod]
    services: ObjectWriter[NodePortService]
    classes: ObjectWriter[LoadBalancerClass]

    @classmethod
    def of(cls, parts: Dependencies, view: View) -> "_Writers":
        """Make them; the view takes in what they write."""
        client = parts.client
        reporter = RefusalReporter(parts.recorder, parts.metrics)
        refusals = StatusRefusals(parts.clock, reporter.tell)
        drivers = divided_drivers(view.shard, everywhere=False)
        balancers = divided_load_balancers(view.shard, everywhere=False)
        return cls(
            ObjectWriter(client, RECORDS, view.records),
            ObjectWriter(client, GROUPS, view.groups, refusals),
            ObjectWriter(client, BINDS, view.binds, refusals),
            ObjectWriter(client, balancers, view.load_balancers, refusals),
            ObjectWriter(client, drivers, view.drivers, refusals),
            ObjectWriter(client, PODS, view.pods),
            ObjectWriter(client, SERVICES, view.services),
            ObjectWriter(client, CLASSES, view.classes),
        )


class Controller:
    """The program of the controller process."""

    def __init__(self, parts: Dependencies) -> None:
        self._parts = parts
        self._view = view = View(parts.shard)
        self._writers = _Writers.of(parts, view)
        self._series = measure(view, parts.clock, parts.metrics)
        self._queues = queues = Queues(
            groups=self._queue("groups"),
            departures=self._queue("departures"),
            load_balancers=self._queue("load-balancers"),
            records=self._queue("records"),
            statuses=self._queue("group-statuses"),
            drivers=self._queue("drivers"),
        )
        self._scopes = ChangedBackends()
        self._deregistrar_leases = DeregistrarLeases(self._follow_lease, parts.shard)
        self._make_calls()
        self._checks = FirstChecks(view, parts.clock)
        self._backends = BackendReader(parts.client, view)
        self._groups = GroupReader(parts.client, view)
        self._noted = NotedEnsures(parts.journal)
        self._registrar = self._make_registrar()
        self._statuses = GroupStatusReconciler(
            view,
            self._writers.groups,
            self._writers.binds,
            parts.recorder,
            parts.clock,
        )
        self._triggers = Triggers(
            view, self._scopes, queues, self._registrar, self._statuses
        )
        group_workers = self._group_workers()
        # Who fills queues: from the moment on at which somebody empties them.
        self._listen_later: list[Callable[[], None]] = [self._listen_to_all]
        driver_workers = self._driver_workers()
        elsewhere_workers = self._elsewhere_workers()
        balancer_workers = self._balancer_workers()
        self._listen()
        self._endpoints = self._listen_to_nodes()
        self._workers: list[Workers[Any]] = [
            *group_workers,
            *balancer_workers,
            elsewhere_workers,
            self._service_workers(),
            *self._record_workers(),
            *driver_workers,
            self._gate_workers(),
        ]
        informers = informers_of(view, parts.client, parts.clock)
        self._informers = (*informers, *self._deregistrar_leases.informers)

    def _follow_lease(self, number: int) -> DeregistrarLease:
        """Make what follows the Lease of a deregistrar's shard."""
        parts = self._parts
        return DeregistrarLease(
            parts.client,
            parts.clock,
            parts.settings.namespace,
            parts.recorder,
            number,
        )

    def _make_calls(self) -> None:
        """Make what calls drivers and keeps addresses from being used twice."""
        parts, view = self._parts, self._view
        self._reporter = CallReporter(
            parts.recorder, enabled=parts.settings.record_events
        )
        self._abandonments = AbandonmentReporter(parts.recorder, parts.metrics)
        self._calls = LoadBalancerCalls(
            parts.drivers, parts.clock, told=self._reporter.load_balancer_told
        )
        self._locker = AddressLocker(
            parts.client,
            AddressLocks(parts.client, parts.settings.namespace, parts.clock),
            parts.clock,
            view.lock_keys,
        )
        view.records.on_change(self._locker.record_changed)
        self._inheritance = LegacyLocks(view, self._locker, parts.clock)

    def _make_registrar(self) -> Registrar:
        """Make what takes live records through their life."""
        parts, view, queue = self._parts, self._view, self._queues.records
        self._executor = Executor(
            parts.client,
            parts.drivers,
            parts.clock,
            locks=self._inheritance,
            records=view.records,
            limit=view.limit,
            recall=ReconnectNotifier(queue, view.records.on_end),
            told=self._reporter.record_told,
        )
        return Registrar(
            view,
            queue,
            self._executor,
            parts.incarnation,
            Shares(_RECORD_WORKERS),
            checks=self._checks,
            noted=self._noted,
            deregistrar=self._deregistrar_leases.incarnation,
        )

    def _group_workers(self) -> list[Workers[Any]]:
        """Make what decides about groups, and those who work on it."""
        parts, view, clock = self._parts, self._view, self._parts.clock
        look_again = self._triggers.look_at_group
        removals = Removals(
            self._writers.records,
            removing := self._queue("removals"),
            RemovalCheck(view, self._backends, self._groups),
            look_again,
            self._statuses.removing,
        )
        judgements = Judgements(
            view,
            judging := self._queue("judgements"),
            PodJudge(parts.client, parts.drivers),
            look_again,
            clock,
            shares=Shares(_JUDGING_WORKERS),
        )
        held = HeldRemovalsReporter(
            view, parts.recorder, parts.metrics, self._statuses.decided
        )
        validating: WorkQueue[AttachmentKey] = WorkQueue(
            "validations",
            clock,
            parts.metrics,
            group_of=lambda place: place[0].namespace,
        )
        validations = Validations(
            view,
            validating,
            self._calls,
            look_again,
            clock,
            shares=Shares(_JUDGING_WORKERS),
        )
        self._applier = Applier(
            self._writers.records, clock, self._registrar, shard=parts.shard
        )
        quota = RecordQuota(
            view.records,
            parts.settings.most_records,
            self._queues.groups.add_after,
            parts.metrics,
        )
        reconciler = GroupReconciler(
            view,
            self._scopes,
            judgements,
            validations,
            quota,
            grace=ServiceGrace(view, clock),
            applier=self._applier,
            removals=removals,
            clock=clock,
            decided=held.decided,
            depart_after=self._queues.departures.add_after,
        )
        queues = self._queues
        return [
            _limited(queues.groups, reconciler.reconcile, _GROUP_WORKERS, clock),
            Workers(queues.departures, reconciler.depart, _GROUP_WORKERS, clock),
            Workers(removing, removals.reconcile, _REMOVAL_WORKERS, clock),
            Workers(queues.statuses, self._statuses.reconcile, _STATUS_WORKERS, clock),
            Workers(validating, validations.reconcile, _JUDGING_WORKERS, clock),
            Workers(judging, judgements.reconcile, _JUDGING_WORKERS, clock),
        ]

    def _driver_workers(self) -> list[Workers[Any]]:
        """Make what looks after drivers, and those who work on it."""
        parts, queue = self._parts, self._queues.drivers
        self._driver_finalizer = DriverFinalizer(
            self._view,
            self._writers.drivers,
            queue,
            self._abandonments,
            parts.client,
        )
        self._listen_later.append(self._driver_finalizer.listen)
        care = DriverReconciler(
            self._view,
            self._writers.drivers,
            parts.drivers,
            self._driver_finalizer,
            parts.clock,
            queue=queue,
            shares=Shares(_DRIVER_WORKERS),
        )
        reconcile = _only(parts.shard.has, care.reconcile)
        return [Workers(queue, reconcile, _DRIVER_WORKERS, parts.clock)]

    def _balancer_workers(self) -> list[Workers[Any]]:
        """Make what takes load balancers through their life, those of Binds too."""
        parts, view, clock = self._parts, self._view, self._parts.clock
        bind_queue = self._queue("binds")
        lists = RecordLister(parts.client, view.observe_record)
        binds = Binds(
            view,
            BindWriter(self._writers.binds),
            self._calls,
            clock,
            self._abandonments,
            queue=bind_queue,
            shares=Shares(_BIND_WORKERS),
            inheritance=self._inheritance,
            lists=lists,
        )
        self._listen_later.append(binds.listen)
        self._resync = MemberResync(
            view,
            parts.client,
            self._writers.load_balancers,
            self._writers.records,
            self._calls,
            lists=lists,
            registrar=self._registrar,
            elsewhere=self._elsewhere,
            checks=self._checks,
            binds=binds,
            recorder=parts.recorder,
            period=parts.settings.list_period,
            clock=clock,
            metrics=parts.metrics,
        )
        executor = LoadBalancerExecutor(
            self._writers.load_balancers, self._calls, clock
        )
        balancers = LoadBalancers(
            view,
            executor,
            self._abandonments,
            inheritance=self._inheritance,
            lists=lists,
        )
        return [
            _limited(
                self._queues.load_balancers,
                _only(parts.shard.has, binds.instead_of(balancers.reconcile)),
                _LOAD_BALANCER_WORKERS,
                clock,
                lambda shares, key: _limits_of_balancer(view, shares, key),
            ),
            _limited(bind_queue, binds.reconcile, _BIND_WORKERS, clock),
        ]

    def _elsewhere_workers(self) -> Workers[Any]:
        """Make what writes losses into records of other shards, and those who work on it."""
        parts, queue = self._parts, self._queue("lost-elsewhere")
        records = self._writers.records
        self._elsewhere = ElsewhereLost(self._view, records, queue, parts.clock)
        return Workers(queue, self._elsewhere.reconcile, _LOSS_WORKERS, parts.clock)

    def _service_workers(self) -> Workers[Any]:
        """Make who takes Services of type LoadBalancer through their life."""
        parts, queue, writers = self._parts, self._queue("services"), self._writers
        services = Services(
            self._view,
            ServiceWriter(writers.services, writers.load_balancers, writers.groups),
            parts.client,
            parts.recorder,
            parts.clock,
            addresses=Addresses(self._view, ClassWriter(writers.classes), parts.client),
            queue=queue,
        )
        self._listen_later.append(services.listen)

        def has(service: ObjectKey) -> bool:
            # Whatever it is called: load balancers and drivers alone go by their names.
            return parts.shard.has_namespace(service.namespace)

        reconcile = _only(has, services.reconcile)
        return _limited(queue, reconcile, _SERVICE_WORKERS, parts.clock)

    def _record_workers(self) -> list[Workers[Any]]:
        """Make who registers records, and who marks those whose backends are gone."""
        parts, gone_queue = self._parts, self._queue("gone-backends")
        gone = GoneBackends(
            self._view, self._backends, self._writers.records, gone_queue
        )
        self._listen_later.append(gone.listen)
        records, clock = self._queues.records, parts.clock
        return [
            Workers(records, self._registrar.reconcile, _RECORD_WORKERS, clock),
            Workers(gone_queue, gone.reconcile, _GONE_WORKERS, clock),
        ]

    def _gate_workers(self) -> Workers[Any]:
        """Make what opens readiness gates, and those who work on it."""
        parts, queue = self._parts, self._queue("gates")
        gates = ReadinessGates(
            self._view,
            self._writers.pods,
            queue,
            groups=self._groups,
            checks=self._checks,
            recorder=parts.recorder,
            clock=parts.clock,
            metrics=parts.metrics,
        )
        self._listen_later.append(gates.listen)
        return _limited(queue, gates.reconcile, _GATE_WORKERS, parts.clock)

    @property
    def informers(self) -> Sequence[Follower]:
        """What must have been read before anything is decided."""
        return self._informers

    @property
    def ready(self) -> Mapping[str, Check]:
        """Nothing but what it reads must be there."""
        return {}

    def beside(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Nothing: a replica that does not lead only reads."""
        return contextlib.nullcontext()

    async def work(
        self, stop: asyncio.Event, predecessor: Predecessor | None = None, /
    ) -> None:
        """Work until told to stop; then finish the calls under way."""
        left = self._noted.begin(self._parts.incarnation, predecessor)
        if predecessor is not None:
            self._registrar.inherit(predecessor.name, predecessor.ended_at, left)
        await self._look_at_all()
        await self._inheritance.take_locks(stop)
        if self._series is not None:
            self._series.begin()
        rounds: list[Coroutine[Any, Any, object]] = [
            self._inheritance.take_the_rest(),
            *self._resync.rounds(),
            self._endpoints.run(),
            self._deregistrar_leases.run(),
        ]
        if self._parts.shard.number == 0:
            rounds.append(self._locker.sweep_forever())
        try:
            await work_until_asked(
                stop,
                rounds=rounds,
                workers=self._workers,
                grace=self._parts.settings.grace,
            )
        finally:
            # Turns that were cut have left the batches that they went with.
            await self._executor.end()

    def _listen_to_all(self) -> None:
        """Look at all groups, records, load balancers and drivers, and at who changes."""
        self._parts.secrets.on_change(self._triggers.secret_changed)
        self._triggers.listen()
        self._triggers.look_at_all()

    async def _look_at_all(self) -> None:
        """Have all that is there looked at, and from now on what changes.

        Until now somebody else worked, or nobody: queues would only have grown.
        """
        for listen in self._listen_later:
            listen()
            # Each goes through whole stores: the Lease is renewed meanwhile.
            await asyncio.sleep(0)

    def _listen(self) -> None:
        """Have changes noted, whoever works."""
        parts, view = self._parts, self._view
        told = parts.settings.record_events
        trouble = TroubleReporter(parts.recorder, _TOLD, "Register", calls_told=told)
        trouble.listen(view.records)
        ailing = TroubleReporter(
            parts.recorder, _TOLD_OF_ALL, "Set up", calls_told=told
        )

        def balancer_changed(
            old: LoadBalancer | None, new: LoadBalancer | None
        ) -> None:
            if new is not None and view.shard.has(new.meta.key):
                ailing.load_balancer_changed(old, new)

        view.load_balancers.on_change(balancer_changed)
        self._resync.listen()
        parts.secrets.follow(view.drivers)
        view.drivers.on_end(parts.drivers.forget)
        if self._series is not None:
            view.drivers.on_end(self._series.forget)
        BindView(view).listen()

    def _listen_to_nodes(self) -> EndpointSliceInformers:
        """Listen to nodes and Services, and follow the endpoints that they call for."""
        view, parts = self._view, self._parts

        def endpoints_changed(service: ObjectKey) -> None:
            nodes.endpoints_changed(service)

        endpoints = EndpointSliceInformers(
            parts.client,
            parts.clock,
            view.endpoints,
            view.is_local_used,
            endpoints_changed,
        )
        nodes = NodeTriggers(
            view, self._scopes, self._triggers.look_at_part, endpoints.consider
        )
        self._listen_later.append(nodes.listen)
        return endpoints

    def _queue(self, name: str) -> WorkQueue[ObjectKey]:
        """Make one of the queues."""
        return WorkQueue(
            name,
            self._parts.clock,
            self._parts.metrics,
            group_of=lambda key: key.namespace,
        )


def _limited(
    queue: WorkQueue[ObjectKey],
    reconcile: Callable[[ObjectKey], Awaitable[Result]],
    count: int,
    clock: Clock,
    limits: Callable[[Shares, ObjectKey], Sequence[Limit]] | None = None,
) -> Workers[ObjectKey]:
    """Make workers that are shared out; without other limits, by namespace alone."""
    shares = Shares(count)

    def limits_of(key: ObjectKey) -> Sequence[Limit]:
        if limits is None:
            return (shares.of_namespace(key.namespace),)
        return limits(shares, key)

    limiter = ConcurrencyLimiter(queue)
    return Workers(queue, limiter.around(reconcile, limits_of), count, clock)


def _limits_of_balancer(view: View, shares: Shares, key: ObjectKey) -> Sequence[Limit]:
    """Return what a turn of a load balancer counts against; a Bind's is handed on at once."""
    found = view.load_balancers.get(key)
    if found is None or bind_of(key) is not None:
        return ()
    driver = view.driver(found.driver_key)
    return (
        *shares.at_driver(found.driver_key, driver, key.namespace),
        shares.of_namespace(key.namespace),
    )


def _only(
    has: Callable[[ObjectKey], bool],
    reconcile: Callable[[ObjectKey], Awaitable[Result]],
) -> Callable[[ObjectKey], Awaitable[Result]]:
    """Leave alone what another shard looks after, and this one only sees."""

    async def look(key: ObjectKey) -> Result:
        return await reconcile(key) if has(key) else Done()

    return look
