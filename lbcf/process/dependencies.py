"""Makes what every process works with: clients, driver pool, recorder, metrics."""

import contextlib

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import attrs

from lbcf import __version__
from lbcf.core.model.names import API_GROUP
from lbcf.core.model.shards import WHOLE, Shard
from lbcf.drivers.access import FindSecret
from lbcf.drivers.dry_run import DryDriverPool
from lbcf.drivers.pool import DriverPool
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import Connection
from lbcf.kube.dry_run import DryRunTransport
from lbcf.kube.events import EventRecorder, Limits
from lbcf.kube.metrics import RequestMetrics
from lbcf.kube.requests import HttpTransport, Middleware
from lbcf.kube.secrets import Secrets
from lbcf.kube.transport import AT_ONCE
from lbcf.runtime.clock import Clock, SystemClock
from lbcf.runtime.journal import FileJournal, Journal, NoJournal
from lbcf.runtime.metrics import DrySteps, Metrics
from lbcf.settings import Settings


_ELECTION_POOL = 8
"""A request of the Lease each `Timing.request`, for as long as one is waited for at most
(`Timing.renew_deadline`), and who holds it."""
RELEASES_AT_ONCE = 8
"""Finalizers that the deregistrar takes off at a time. By then traffic has ended; with
as many as the controller has deletions, those that end traffic wait for them (on a busy
API server requests are answered in proportion to how many each client has out)."""


@attrs.frozen
class Dependencies:
    """What a process works with.

    Attributes:
        client: of its work.
        elections: for its Lease alone: a renewal that waited behind thousands of writes
            would come too late (seen in a storm of 2,000 deletions on an API server
            that was slow).
        secrets: those that drivers name.
        incarnation: this run of the process; no other run ever has the same.
        journal: for the next run in its place.
        shard: the part of the work that is this process's, once it leads.
    """

    settings: Settings
    client: KubeClient
    elections: KubeClient
    secrets: Secrets
    drivers: DriverPool
    recorder: EventRecorder
    clock: Clock
    metrics: Metrics
    incarnation: str
    journal: Journal = attrs.field(factory=NoJournal)
    shard: Shard = WHOLE


@contextlib.asynccontextmanager
async def build_dependencies(
    settings: Settings, connection: Connection
) -> AsyncIterator[Dependencies]:
    """Make what a process works with; in a dry run, what writes nothing."""
    clock, metrics = SystemClock(), Metrics()
    incarnation = clock.new_id()
    dry = DrySteps(metrics.registry) if settings.dry_run else None
    requests = RequestMetrics(metrics.registry, clock)
    name = f"lbcf-{settings.process}"
    agent = f"{name}/{__version__} ({incarnation})"
    is_deregistrar = settings.process == "deregistrar"
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            connected(
                connection,
                clock,
                user_agent=agent,
                field_manager=name,
                at_once=RELEASES_AT_ONCE if is_deregistrar else AT_ONCE,
                middleware=_between(requests, dry, clock),
            )
        )
        elections = await stack.enter_async_context(
            connected(
                connection,
                clock,
                user_agent=f"{agent} leader-election",
                field_manager=name,
                pool=_ELECTION_POOL,
                middleware=requests.counting,
            )
        )
        secrets = await stack.enter_async_context(
            _following(connection, clock, requests)
        )
        drivers = _drivers(
            settings, clock, metrics, dry, find=secrets.find, agent=agent
        )
        yield Dependencies(
            settings=settings,
            client=client,
            elections=elections,
            secrets=secrets,
            drivers=await stack.enter_async_context(drivers),
            recorder=EventRecorder(
                client,
                clock,
                controller=f"{API_GROUP}/{settings.process}",
                instance=incarnation,
                limits=Limits(queue=0) if dry else None,
            ),
            clock=clock,
            metrics=metrics,
            incarnation=incarnation,
            journal=_journal(settings, clock),
        )


def _journal(settings: Settings, clock: Clock) -> Journal:
    """Return the journal that the settings ask for."""
    if settings.journal is None:
        return NoJournal()
    return FileJournal(settings.journal, clock.boot)


def _between(
    requests: RequestMetrics, dry: DrySteps | None, clock: Clock
) -> Middleware:
    """Return the middleware of the client; only what is really sent is counted."""
    if dry is None:
        return requests.counting

    def imagined(real: HttpTransport) -> HttpTransport:
        return DryRunTransport(requests.counting(real), clock=clock, steps=dry)

    return imagined


def _drivers(
    settings: Settings,
    clock: Clock,
    metrics: Metrics,
    dry: DrySteps | None,
    *,
    find: FindSecret,
    agent: str,
) -> DriverPool:
    registry, allowlist = metrics.registry, settings.allowlist
    if dry is None:
        return DriverPool(clock, registry, find=find, allowlist=allowlist, agent=agent)
    return DryDriverPool(
        clock, registry, dry, find=find, allowlist=allowlist, agent=agent
    )


@contextlib.asynccontextmanager
async def _following(
    connection: Connection, clock: Clock, requests: RequestMetrics
) -> AsyncIterator[Secrets]:
    """Make what follows Secrets; its many requests have places of their own."""
    async with connected(connection, clock, middleware=requests.counting) as client:
        secrets = Secrets(client, clock)
        try:
            yield secrets
        finally:
            await secrets.close()
