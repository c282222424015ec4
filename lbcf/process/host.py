"""Runs a process: its informers, probes, Lease, work, and end.

The program of the process says what to watch and what to do.
"""

import asyncio
import contextlib
import os
import platform

from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn, Protocol

import attrs
import structlog

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lbcf import __version__
from lbcf.core.model.shards import Shard, lease_name, run_name
from lbcf.kube.connection import connect
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import Resource
from lbcf.kube.leader_election import LeaderElector, LeadershipLostError
from lbcf.kube.shard_election import ShardElector
from lbcf.kube.store import Store
from lbcf.process.dependencies import Dependencies, build_dependencies
from lbcf.runtime import failpoints, garbage, health, logs, open_files, spans
from lbcf.runtime.clock import Clock
from lbcf.runtime.health import Check, LoopWatch
from lbcf.runtime.journal import Predecessor
from lbcf.runtime.process_identity import SystemWitness
from lbcf.runtime.shutdown import StopRequest, stop_on_signals
from lbcf.runtime.tasks import end_tasks
from lbcf.settings import Settings


_log = structlog.get_logger(__name__)

_SILENCE_LIMIT = timedelta(minutes=5)
"""A watch reconnects after 90 s without a byte: thrice that long it has failed to."""
_SECRETS_WITHIN = timedelta(seconds=5)
_LAST_EVENTS = timedelta(seconds=2)


class Follower(Protocol):
    """What keeps a store up to date: an informer, or many for the parts of a kind."""

    synced: asyncio.Event
    store: Store[Any]

    @property
    def resource(self) -> Resource[Any]:
        """The kind."""

    @property
    def last_heard(self) -> float | None:
        """Monotonic seconds of the last sign of life, None before the first."""

    async def run(self) -> NoReturn:
        """Follow until cancelled."""


class Program(Protocol):
    """The work of one kind of process."""

    @property
    def informers(self) -> Sequence[Follower]:
        """What it must have read before it works."""

    @property
    def ready(self) -> Mapping[str, Check]:
        """What /readyz asks beside that everything has been read."""

    def beside(self) -> AbstractAsyncContextManager[None]:
        """Do what every replica does, from its start to its end, leading or not.

        Raises:
            CannotListen: an address is taken.
        """

    async def work(
        self, stop: asyncio.Event, predecessor: Predecessor | None = None, /
    ) -> None:
        """Work until told to stop, then finish what is under way.

        Args:
            stop: set when it is to end.
            predecessor: the run in whose place this one works; it had ended before
                anything was read. None: nobody's.
        """


Build = Callable[[Dependencies], Program]
"""Makes the program of a process."""
StandBy = Callable[[Dependencies], AbstractAsyncContextManager[None]]
"""Does what a replica does that may yet become any shard's leader, and when it is one."""


def idle(_parts: Dependencies) -> AbstractAsyncContextManager[None]:
    """Do nothing beside."""
    return nullcontext()


async def run_process(
    settings: Settings,
    build: Build,
    request: StopRequest,
    stand_by: StandBy = idle,
    pause: timedelta = timedelta(0),
) -> int:
    """Run a process until it is told to end; returns its exit status.

    Args:
        settings: how.
        build: makes its program; with several shards only once it leads one.
        request: that it end; it may have been made before.
        stand_by: with several shards, what it does from its start in place of what the
            program does `beside` its work.
        pause: waits that long, with probes served, before it reads or leads.

    Raises:
        LeadershipLostError: it led, and lost the Lease; all of its work has ended. To run
            it once more, from nothing, is safe, and faster than a restart by kubelet,
            which waits longer after each end.
        ConfigurationError: the kubeconfig cannot be used.
        CannotListen: an address for probes or metrics is taken.
        ValueError: the failpoint that the environment asks for is none.
    """
    garbage.begin_run()
    open_files.raise_limit()
    logs.configure(settings.log_level, settings.log_format)
    failpoints.arm(os.environ.get(failpoints.VARIABLE))
    status = 1  # unless a run comes to its end
    with stop_on_signals(request) as asked:
        try:
            if not asked.is_set():
                status = await _run(settings, build, stand_by, asked=asked, pause=pause)
        except LeadershipLostError:
            # Here, and no sooner: the signal may come while all that ends. The event may
            # not be set yet: the last spans are sent by a step that blocks the loop.
            if not request.is_made:
                raise
    _log.info("process.ended", status=status)
    return status


async def _run(
    settings: Settings,
    build: Build,
    stand_by: StandBy,
    *,
    asked: asyncio.Event,
    pause: timedelta,
) -> int:
    """Run a process with all around it."""
    kubeconfig = str(settings.kubeconfig) if settings.kubeconfig else None
    connection = await connect(kubeconfig, settings.context)
    async with AsyncExitStack() as stack:
        stack.enter_context(spans.export_spans(f"lbcf-{settings.process}", os.environ))
        parts = await stack.enter_async_context(
            build_dependencies(settings, connection)
        )
        host = Host(parts, build, asked, pause)
        await stack.enter_async_context(host.probes())
        await stack.enter_async_context(host.beside(stand_by))
        _log.info(
            "process.started",
            process=settings.process,
            version=__version__,
            incarnation=parts.incarnation,
        )
        return await host.run()


class Host:
    """Runs a program with everything around it.

    Args:
        parts: what it works with.
        build: makes the program; called at once unless there are several shards.
        asked: set when the process is to end.
        pause: before it reads or leads.

    Attributes:
        program: the program; None: it does not lead one of several shards yet.
    """

    def __init__(
        self,
        parts: Dependencies,
        build: Build,
        asked: asyncio.Event,
        pause: timedelta = timedelta(0),
    ) -> None:
        self._parts = parts
        self._pause = pause
        self._build = build
        self.program: Program | None = None
        self._asked = asked
        self._is_working = False
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}
        self.loop_watch = LoopWatch(parts.clock, parts.metrics)
        if parts.settings.shards == 1:
            self._take_on(parts)

    def _take_on(self, parts: Dependencies) -> Program:
        """Make the program, and have the probes and metrics tell of what it reads."""
        program = self.program = self._build(parts)
        parts.metrics.registry.register(
            ReadMetrics(program.informers, parts.recorder, parts.clock)
        )
        self._ready.update(program.ready)
        for informer in program.informers:
            name = informer.resource.plural
            self._live[f"watch-{name}"] = partial(silence_of, informer, parts.clock)
            self._ready[f"synced-{name}"] = partial(_unsynced, informer)
        return program

    @property
    def registry(self) -> CollectorRegistry:
        """Return what /metrics shows."""
        return self._parts.metrics.registry

    def probes(self) -> Any:
        """Serve the probes."""
        settings = self._parts.settings
        self._live["event-loop"] = self.loop_watch.check
        return health.serve(
            probes=settings.probes,
            metrics=settings.metrics,
            live=self._live,
            ready=self._ready,
            registry=self._parts.metrics,
        )

    def beside(self, stand_by: StandBy) -> AbstractAsyncContextManager[None]:
        """Do what a replica does whether it leads or not.

        Raises:
            CannotListen: an address is taken.
        """
        program = self.program
        return stand_by(self._parts) if program is None else program.beside()

    async def run(self) -> int:
        """Work, and keep everything around it alive until the work has ended."""
        watch, recorder = self.loop_watch, self._parts.recorder
        async with _background([watch.run(), recorder.run()]):
            await self._wait_before()
            if self._asked.is_set():
                return 0
            if self.program is None:
                recorder.is_silent = True
                return await self._until_asked(self._lead_a_shard())
            return await self._run_whole(self.program)

    async def _wait_before(self) -> None:
        """Wait for the end of the pause, or until the process is to end."""
        if not self._pause:
            return
        _log.warning("process.paused", pause=self._pause)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause.total_seconds()):
                await self._asked.wait()

    async def _run_whole(self, program: Program) -> int:
        """Read, and then lead the only shard there is."""
        elector = self._elector() if self._parts.settings.leader_elect else None
        if elector is not None:
            self._parts.recorder.is_silent = True
            await elector.look_for_ended()
        async with _background(informer.run() for informer in program.informers):
            return await self._until_asked(self._lead(program, elector))

    async def _lead_a_shard(self) -> None:
        """Lead one of several shards: only then is it known what is to be read."""
        count = self._parts.settings.shards
        electors = [self._elector(number) for number in range(count)]

        async def work(number: int, predecessor: Predecessor | None) -> None:
            shard, name = (
                Shard(number, count),
                run_name(self._parts.incarnation, number),
            )
            parts = attrs.evolve(self._parts, shard=shard, incarnation=name)
            program = self._take_on(parts)
            _log.info("shard.taken", shard=number, shards=count)
            async with _background(informer.run() for informer in program.informers):
                await self._work(program, predecessor)

        await ShardElector(electors, self._parts.clock).run(work)

    async def _until_asked(self, work: Coroutine[Any, Any, None]) -> int:
        """Wait for the end of the work, or end the waiting for it."""
        leading = asyncio.create_task(work)
        asked = asyncio.create_task(self._asked.wait())
        await asyncio.wait({leading, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not self._is_working:
            leading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leading
        return 0

    def _elector(self, number: int = 0) -> LeaderElector:
        """Make the candidate for a shard."""
        parts = self._parts
        name = lease_name(parts.settings.process, number)
        parts.metrics.set_leader(name, leading=False)
        return LeaderElector(
            parts.elections,
            name=name,
            namespace=parts.settings.namespace,
            identity=f"{platform.node()}_{run_name(parts.incarnation, number)}",
            clock=parts.clock,
            on_leading=lambda leading: parts.metrics.set_leader(name, leading=leading),
            witness=_witness(parts.settings, os.environ),
            reads_later=parts.settings.shards > 1,
        )

    async def _lead(self, program: Program, elector: LeaderElector | None) -> None:
        if elector is None:
            await self._work(program)
        else:
            await elector.run(lambda: self._work(program, elector.predecessor))

    async def _work(
        self, program: Program, predecessor: Predecessor | None = None
    ) -> None:
        """Work once everything has been read."""
        for informer in program.informers:
            await informer.synced.wait()
        # Otherwise the first calls of drivers that need Secrets would all be refused.
        await self._parts.secrets.settle(_SECRETS_WITHIN)
        if self._asked.is_set():
            return
        self._is_working = True
        self._parts.recorder.is_silent = False
        garbage.leave_alone()
        name = "" if predecessor is None else predecessor.name
        _log.info("work.started", inherited=name)
        await program.work(self._asked, predecessor)
        _log.info("work.finished")
        try:
            async with asyncio.timeout(_LAST_EVENTS.total_seconds()):
                await self._parts.recorder.flush()
        except TimeoutError:
            _log.warning("events.dropped")


@asynccontextmanager
async def _background(
    tasks: Iterable[Coroutine[Any, Any, object]],
) -> AsyncIterator[None]:
    """Run something beside the block, and end it with it."""
    running = [asyncio.create_task(task) for task in tasks]
    try:
        yield
    finally:
        await end_tasks(running)


def _witness(settings: Settings, environment: Mapping[str, str]) -> SystemWitness:
    """Return the identity by which other runs of this process know it.

    Outside of pods no host is named: other machines may not reach what is reached here.
    """
    pod, name = environment.get("POD_UID"), environment.get("CONTAINER_NAME")
    host, probes = environment.get("POD_IP", ""), settings.probes
    container = f"{pod}/{name}" if pod and name else ""
    if not host or probes is None or probes.host:
        return SystemWitness(container)
    return SystemWitness(container, host, probes.port)


def silence_of(informer: Follower, clock: Clock) -> str | None:
    """Return for how long a watch has heard nothing, if that is too long.

    One that has never heard anything keeps the process from being ready, and alive: to
    start it again would not bring the API server back.
    """
    if informer.last_heard is None:
        return None
    silent = clock.monotonic() - informer.last_heard
    if silent <= _SILENCE_LIMIT.total_seconds():
        return None
    return f"nothing heard from the API server for {silent:.0f} s"


def _unsynced(informer: Follower) -> str | None:
    if informer.synced.is_set():
        return None
    return f"{informer.resource.plural} have not been listed yet"


class ReadMetrics(Collector):
    """What /metrics says of informers and events.

    Args:
        informers: of the process; each of another kind.
        recorder: of events.
        clock: says how long ago something was heard.
    """

    def __init__(
        self, informers: Sequence[Follower], recorder: EventRecorder, clock: Clock
    ) -> None:
        self._informers = informers
        self._recorder = recorder
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """Read the informers and the recorder."""
        yield self._by_resource(
            "lbcf_watch_silence_seconds",
            "Time since the API server last said anything of a kind, bookmarks "
            "included. /healthz fails above 300.",
            self._silence,
        )
        yield self._by_resource(
            "lbcf_objects_held",
            "Objects of a kind in memory.",
            lambda informer: len(informer.store),
        )
        yield self._by_resource(
            "lbcf_objects_unreadable",
            "Objects of a kind that cannot be understood; what they decide is held.",
            lambda informer: len(informer.store.unreadable),
        )
        yield CounterMetricFamily(
            "lbcf_events_dropped",
            "Kubernetes Events that were not written: too many, or refused.",
            value=self._recorder.dropped,
        )

    def _silence(self, informer: Follower) -> float | None:
        heard = informer.last_heard
        return None if heard is None else self._clock.monotonic() - heard

    def _by_resource(
        self, name: str, text: str, ask: Callable[[Follower], float | None]
    ) -> Metric:
        """Make one family; what has no value is left out."""
        family = GaugeMetricFamily(name, text, labels=["resource"])
        for informer in self._informers:
            if (value := ask(informer)) is not None:
                family.add_metric([informer.resource.plural], value)
        return family
