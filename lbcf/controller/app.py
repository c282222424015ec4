"""Puts the controller together: what it watches, its queues, its workers."""

import asyncio

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from lbcf.controller.apply import Applier
from lbcf.controller.bind_view import BindView
from lbcf.controller.binds import Binds
from lbcf.controller.driver_care import DriverCare
from lbcf.controller.driver_holds import DriverHolds
from lbcf.controller.ender import Ender
from lbcf.controller.endpoint_watch import EndpointWatches
from lbcf.controller.gone_backends import GoneBackends
from lbcf.controller.group_status import GroupStatusWriter
from lbcf.controller.held_removals import HeldRemovals
from lbcf.controller.inheritance import Inheritance
from lbcf.controller.judgements import Judgements
from lbcf.controller.load_balancers import LoadBalancers
from lbcf.controller.node_triggers import NodeTriggers
from lbcf.controller.reconciler import Reconciler
from lbcf.controller.record_quota import RecordQuota
from lbcf.controller.registrar import Registrar
from lbcf.controller.removals import Removals
from lbcf.controller.scopes import Scopes
from lbcf.controller.service_grace import ServiceGrace
from lbcf.controller.survey import Survey
from lbcf.controller.tallies import measure
from lbcf.controller.triggers import Queues, Triggers
from lbcf.controller.validations import Place, Validations
from lbcf.controller.view import LIVING_PODS, View
from lbcf.core.model import conditions
from lbcf.core.model.names import bind_of
from lbcf.core.model.values import ObjectKey
from lbcf.executor import Executor, LoadBalancerCalls
from lbcf.executor.abandonment import Abandonments
from lbcf.executor.call_events import CallReporter
from lbcf.executor.locks import AddressLocker
from lbcf.executor.pod_judge import PodJudge
from lbcf.executor.status_refusals import RefusalReporter
from lbcf.executor.trouble import TroubleReporter
from lbcf.kube.address_locks import AddressLocks
from lbcf.kube.client import KubeClient
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import (
    BINDS,
    DRIVERS,
    GROUPS,
    LOAD_BALANCERS,
    NODES,
    PODS,
    RECORDS,
    SERVICES,
)
from lbcf.kube.refusals import StatusRefusals
from lbcf.kube.transport import AT_ONCE, KEPT
from lbcf.process import Dependencies
from lbcf.runtime.clock import Clock
from lbcf.runtime.health import Check
from lbcf.runtime.limiter import ConcurrencyLimiter, Limit, Shares
from lbcf.runtime.queue import ReconnectNotifier, WorkQueue
from lbcf.runtime.worker import Result, Workers


_GROUP_WORKERS = 16
_REMOVAL_WORKERS = KEPT + AT_ONCE // 2
"""All places that are kept for ends, and half of the others."""
_LOAD_BALANCER_WORKERS = 128
_BIND_WORKERS = 128
_RECORD_WORKERS = 1024
_STATUS_WORKERS = 4
_GONE_WORKERS = 8
_DRIVER_WORKERS = 64
_JUDGING_WORKERS = 256
_TOLD = frozenset({conditions.REGISTERED})


class Controller:
    """The program of the controller process."""

    def __init__(self, parts: Dependencies) -> None:
        client, clock = parts.client, parts.clock
        self._parts = parts
        self._view = view = View()
        self._series = measure(view, clock, parts.metrics)
        self._queues = queues = Queues(
            groups=self._queue("groups"),
            departures=self._queue("departures"),
            load_balancers=self._queue("load-balancers"),
            records=self._queue("records"),
            statuses=self._queue("group-statuses"),
            drivers=self._queue("drivers"),
        )
        reporter = CallReporter(parts.recorder, enabled=parts.settings.record_events)
        self._locker = AddressLocker(
            client,
            AddressLocks(client, parts.settings.namespace, clock),
            clock,
            view.lock_keys,
        )
        self._inheritance = Inheritance(view, self._locker, clock)
        executor = Executor(
            client,
            parts.drivers,
            clock,
            locks=self._inheritance,
            observe=view.records.observe,
            limit=view.limit,
            recall=ReconnectNotifier(queues.records),
            told=reporter.record_told,
        )
        ender = Ender(client, clock, parts.settings.namespace)
        registrar = Registrar(
            view,
            queues.records,
            executor,
            parts.incarnation,
            Shares(_RECORD_WORKERS),
            deregistrar=ender.incarnation,
        )
        scopes = Scopes()
        statuses = GroupStatusWriter(view, client, parts.recorder, clock)
        triggers = Triggers(view, scopes, queues, registrar, statuses)
        removals = Removals(
            client,
            view.records,
            removing := self._queue("removals"),
            triggers.look_at_group,
        )
        judgements = Judgements(
            view,
            judging := self._queue("judgements"),
            PodJudge(client, parts.drivers),
            triggers.look_at_group,
            clock,
            shares=Shares(_JUDGING_WORKERS),
        )
        held = HeldRemovals(view, parts.recorder, parts.metrics, statuses.decided)
        calls = LoadBalancerCalls(
            parts.drivers, clock, told=reporter.load_balancer_told
        )
        questions: WorkQueue[Place] = WorkQueue(
            "validations",
            clock,
            parts.metrics,
            group_of=lambda place: place[0].namespace,
        )
        validations = Validations(
            view,
            questions,
            calls,
            triggers.look_at_group,
            clock,
            shares=Shares(_JUDGING_WORKERS),
        )
        reconciler = Reconciler(
            view,
            scopes,
            judgements,
            validations,
            RecordQuota(
                view.records,
                parts.settings.most_records,
                triggers.look_at_group,
                parts.metrics,
            ),
            grace=ServiceGrace(view, clock),
            applier=Applier(client, view.records, clock, registrar),
            removals=removals,
            decided=held.decided,
        )
        abandonments = Abandonments(parts.recorder, parts.metrics)
        holds = DriverHolds(view, client, queues.drivers, abandonments)
        care = DriverCare(
            view,
            client,
            parts.drivers,
            holds,
            clock,
            queue=queues.drivers,
            shares=Shares(_DRIVER_WORKERS),
        )
        binds = Binds(
            view,
            client,
            calls,
            clock,
            abandonments,
            queue=(bind_queue := self._queue("binds")),
            shares=Shares(_BIND_WORKERS),
        )
        self._survey = Survey(
            view,
            client,
            calls,
            registrar,
            binds,
            period=parts.settings.list_period,
            clock=clock,
        )
        self._listen(triggers, holds, bind_queue)
        self._endpoints = self._listen_to_nodes(scopes, triggers)
        self._workers: list[Workers[Any]] = [
            _limited(queues.groups, reconciler.reconcile, _GROUP_WORKERS, clock),
            Workers(queues.departures, reconciler.depart, _GROUP_WORKERS, clock),
            Workers(removing, removals.reconcile, _REMOVAL_WORKERS, clock),
            _limited(
                queues.load_balancers,
                binds.instead_of(
                    LoadBalancers(
                        view,
                        client,
                        calls,
                        clock,
                        abandonments,
                        inheritance=self._inheritance,
                    ).reconcile,
                    bind_queue,
                ),
                _LOAD_BALANCER_WORKERS,
                clock,
                lambda shares, key: _limits_of_balancer(view, shares, key),
            ),
            _limited(bind_queue, binds.reconcile, _BIND_WORKERS, clock),
            Workers(queues.records, registrar.reconcile, _RECORD_WORKERS, clock),
            Workers(queues.statuses, statuses.reconcile, _STATUS_WORKERS, clock),
            Workers(questions, validations.reconcile, _JUDGING_WORKERS, clock),
            Workers(judging, judgements.reconcile, _JUDGING_WORKERS, clock),
            self._mark_gone_backends(),
            Workers(queues.drivers, care.reconcile, _DRIVER_WORKERS, clock),
        ]
        self._informers = (*_informers_of(view, client, clock), ender.informer)

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """What must have been read before anything is decided."""
        return self._informers

    @property
    def ready(self) -> Mapping[str, Check]:
        """Nothing but what it reads must be there."""
        return {}

    async def work(self, stop: asyncio.Event) -> None:
        """Work until told to stop; then finish the calls under way."""
        await self._inheritance.take_locks(stop)
        if self._series is not None:
            self._series.begin()
        rounds = [
            asyncio.create_task(self._inheritance.take_the_rest()),
            asyncio.create_task(self._survey.run()),
            asyncio.create_task(self._locker.sweep_forever()),
            asyncio.create_task(self._endpoints.run()),
        ]
        for workers in self._workers:
            workers.start()
        await stop.wait()
        for one in rounds:
            one.cancel()
        grace = self._parts.settings.grace
        await asyncio.gather(
            *rounds,
            *(workers.stop(grace) for workers in self._workers),
            return_exceptions=True,
        )

    def _listen(
        self, triggers: Triggers, holds: DriverHolds, binds: WorkQueue[ObjectKey]
    ) -> None:
        """Have changes bring back whom they concern."""
        parts, view = self._parts, self._view
        self._mind_refusals()
        told = parts.settings.record_events
        trouble = TroubleReporter(parts.recorder, _TOLD, "Register", calls_told=told)
        trouble.listen(view.records)
        triggers.listen()
        self._survey.listen()
        parts.secrets.on_change(triggers.secret_changed)
        parts.secrets.follow(view.drivers)
        view.drivers.on_end(parts.drivers.forget)
        if self._series is not None:
            view.drivers.on_end(self._series.forget)
        holds.listen()
        BindView(view, binds.add).listen()

    def _mind_refusals(self) -> None:
        """Tell of statuses that the API server refuses, and send them seldom."""
        parts, view = self._parts, self._view
        reporter = RefusalReporter(parts.recorder, parts.metrics)
        refusals = StatusRefusals(parts.clock, reporter.tell)
        for store in (view.load_balancers, view.drivers, view.groups, view.binds):
            store.on_change(refusals.changed)
        parts.client.refusals = refusals

    def _mark_gone_backends(self) -> Workers[ObjectKey]:
        """Have drains end whose backends are gone."""
        parts, queue = self._parts, self._queue("gone-backends")
        gone = GoneBackends(self._view, parts.client, queue)
        gone.listen()
        return Workers(queue, gone.reconcile, _GONE_WORKERS, parts.clock)

    def _listen_to_nodes(self, scopes: Scopes, triggers: Triggers) -> EndpointWatches:
        """Listen to nodes and Services, and follow the endpoints that they call for."""
        view, parts = self._view, self._parts

        def look_whole(service: ObjectKey) -> None:
            """Look at the groups of a Service whose endpoints changed."""
            nodes.endpoints_changed(service)

        endpoints = EndpointWatches(
            parts.client, parts.clock, view.endpoints, view.is_local_used, look_whole
        )
        nodes = NodeTriggers(view, scopes, triggers.look_at_part, endpoints.consider)
        nodes.listen()
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
        """Say what a turn of a key counts against."""
        if limits is None:
            return (shares.of_namespace(key.namespace),)
        return limits(shares, key)

    limiter = ConcurrencyLimiter(queue)
    return Workers(queue, limiter.around(reconcile, limits_of), count, clock)


def _limits_of_balancer(view: View, shares: Shares, key: ObjectKey) -> Sequence[Limit]:
    """Say what a turn of a load balancer counts against; a Bind's is handed on at once."""
    found = view.load_balancers.get(key)
    if found is None or bind_of(key) is not None:
        return ()
    driver = view.driver(found.driver_key)
    return (
        *shares.at_driver(found.driver_key, driver, key.namespace),
        shares.of_namespace(key.namespace),
    )


def _informers_of(
    view: View, client: KubeClient, clock: Clock
) -> tuple[Informer[Any], ...]:
    """What keeps the view up to date."""
    return (
        Informer(client, DRIVERS, clock, store=view.drivers),
        Informer(client, LOAD_BALANCERS, clock, store=view.load_balancers),
        Informer(client, GROUPS, clock, store=view.groups),
        Informer(client, BINDS, clock, store=view.binds, may_be_missing=True),
        Informer(client, RECORDS, clock, store=view.records),
        Informer(client, PODS, clock, store=view.pods, selection=LIVING_PODS),
        Informer(client, NODES, clock, store=view.nodes),
        Informer(client, SERVICES, clock, store=view.services),
    )
