"""A status that the API server refuses: told, and not sent again at every turn."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

import attrs
import pytest
import structlog

from prometheus_client import CollectorRegistry

from lbcf.controller.binds import Binds
from lbcf.controller.drivers import DriverFinalizer, DriverReconciler
from lbcf.controller.group_status import GroupStatusReconciler
from lbcf.controller.legacy import LegacyLocks
from lbcf.controller.load_balancers import LoadBalancers
from lbcf.controller.record_lister import RecordLister
from lbcf.controller.view import View
from lbcf.core.model.values import ObjectKey
from lbcf.drivers.pool import DriverPool
from lbcf.executor.binds import BindWriter
from lbcf.executor.load_balancer_life import LoadBalancerExecutor
from lbcf.executor.load_balancers import LoadBalancerCalls
from lbcf.executor.locks import AddressLocker
from lbcf.executor.object_events import AbandonmentReporter, RefusalReporter
from lbcf.executor.refusals import StatusRefusals
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.address_locks import AddressLocks
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Invalid
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import BINDS, DRIVERS, GROUPS, LOAD_BALANCERS, Resource
from lbcf.kube.list_watch import Put
from lbcf.kube.requests import ApiRequest
from lbcf.kube.store import Store
from lbcf.runtime.limiter import Shares
from lbcf.runtime.metrics import Metrics
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Parked, Result
from tests.builders import a_key
from tests.ctl.servers import Guarded, a_refusal, put
from tests.e2e import objects
from tests.fairness import objects as tenants
from tests.fairness import world as fairness
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import Json, TinyApi


WORDS = "status.conditions: Invalid value: too new for the kinds in this cluster"
HALF_AN_HOUR = 1800
RESOURCES: Mapping[str, Resource[Any]] = {
    one.kind: one for one in (BINDS, DRIVERS, GROUPS, LOAD_BALANCERS)
}
BODIES: Mapping[str, Json] = {
    "BackendGroup": objects.a_group(),
    "Bind": objects.a_bind("web"),
    "LoadBalancer": objects.a_load_balancer("web"),
    "LoadBalancerDriver": objects.a_driver("http://driver.test")
    | {"metadata": {"name": "web"}},
}
KEY = a_key("web")


@attrs.define(eq=False)
class World:
    """One object, whoever writes its status, and an API server that refuses that.

    Attributes:
        refuses: whether it does.
        sent: how often a status was sent.
    """

    kind: str
    api: TinyApi = attrs.Factory(TinyApi)
    clock: VirtualClock = attrs.Factory(VirtualClock)
    view: View = attrs.Factory(View)
    metrics: Metrics = attrs.Factory(Metrics)
    refuses: bool = True
    sent: int = 0
    client: KubeClient = attrs.field(init=False)
    refusals: StatusRefusals = attrs.field(init=False)
    recorder: EventRecorder = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.client = KubeClient(Guarded(self.api, self._rule))
        self.recorder = EventRecorder(
            self.client, self.clock, controller="test", instance="test"
        )
        reporter = RefusalReporter(self.recorder, self.metrics)
        self.refusals = StatusRefusals(self.clock, reporter.tell)

    def _rule(self, method: str, path: str) -> tuple[int, str] | None:
        """Refuse statuses."""
        if method != "PATCH" or not path.endswith("/status"):
            return None
        self.sent += 1
        return (422, WORDS) if self.refuses else None

    def reconciler(self) -> Callable[[ObjectKey], Awaitable[Result]]:
        """Return who writes the status of the kind."""
        view, clock = self.view, self.clock
        groups = self._writer(GROUPS, view.groups)
        binds = self._writer(BINDS, view.binds)
        queue: WorkQueue[ObjectKey] = WorkQueue("test", clock)
        abandonments = AbandonmentReporter(self.recorder, None)
        pool = DriverPool(clock, CollectorRegistry())
        calls = LoadBalancerCalls(pool, clock)
        shares = Shares(64)
        lists = RecordLister(self.client, view.observe_record)
        locks = AddressLocks(self.client, "lbcf-system", clock)
        inheritance = LegacyLocks(view, AddressLocker(self.client, locks, clock), clock)
        match self.kind:
            case "BackendGroup":
                return GroupStatusReconciler(
                    view, groups, binds, self.recorder, clock
                ).reconcile
            case "Bind":
                return Binds(
                    view,
                    BindWriter(binds),
                    calls,
                    clock,
                    abandonments,
                    queue=queue,
                    shares=shares,
                    inheritance=inheritance,
                    lists=lists,
                ).reconcile
            case "LoadBalancer":
                balancers = self._writer(LOAD_BALANCERS, view.load_balancers)
                return LoadBalancers(
                    view,
                    LoadBalancerExecutor(balancers, calls, clock),
                    abandonments,
                    inheritance=inheritance,
                    lists=lists,
                ).reconcile
            case _:
                drivers = self._writer(DRIVERS, view.drivers)
                holds = DriverFinalizer(view, drivers, queue, abandonments, self.client)
                return DriverReconciler(
                    view, drivers, pool, holds, clock, queue=queue, shares=shares
                ).reconcile

    def _writer(self, kind: Resource[Any], store: Store[Any]) -> ObjectWriter[Any]:
        return ObjectWriter(self.client, kind, store, self.refusals)

    async def read(self) -> None:
        """Let the watch tell of the object."""
        found = await self.client.get(RESOURCES[self.kind], KEY)
        stores: Mapping[str, Store[Any]] = {
            "BackendGroup": self.view.groups,
            "Bind": self.view.binds,
            "LoadBalancer": self.view.load_balancers,
            "LoadBalancerDriver": self.view.drivers,
        }
        stores[self.kind].apply(Put(found))

    async def look(self, seconds: int) -> None:
        """Bring the key every second, as a rollout does."""
        reconcile = self.reconciler()
        for _ in range(seconds):
            try:
                await reconcile(KEY)
            except Invalid as error:
                assert WORDS in str(error)  # noqa: PT017 - both kinds of turns are fine
            await self.clock.sleep(timedelta(seconds=1))

    def status(self) -> object:
        """Return what is stored."""
        path = f"{RESOURCES[self.kind].collection(KEY.namespace)}/{KEY.name}"
        return self.api.objects[path].get("status")

    def events(self) -> list[Json]:
        """Return the events."""
        return [one for path, one in self.api.objects.items() if "/events/" in path]


def a_world(kind: str) -> World:
    """Put an object there."""
    world = World(kind)
    put(world.api, RESOURCES[kind], dict(BODIES[kind]))
    return world


@pytest.mark.parametrize("kind", BODIES)
def test_refused_status_is_sent_ever_more_seldom(kind: str) -> None:
    """Some 30 times in half an hour in which every second brings the key."""
    world = a_world(kind)

    async def story() -> None:
        await world.read()
        await world.look(HALF_AN_HOUR)

    run_virtual(story())

    assert 15 <= world.sent <= 40


@pytest.mark.parametrize("kind", BODIES)
def test_turn_in_a_pause_does_nothing(kind: str) -> None:
    """It calls no driver either: what that answers could not be written down."""
    world = a_world(kind)

    async def story() -> Result:
        await world.read()
        reconcile = world.reconciler()
        with pytest.raises(Invalid, match=WORDS):
            await reconcile(KEY)
        return await reconcile(KEY)

    result = run_virtual(story())

    assert isinstance(result, Parked)
    assert result.delay is not None
    assert timedelta(0) < result.delay <= timedelta(seconds=5)
    assert 1 == world.sent


@pytest.mark.parametrize("kind", BODIES)
def test_refused_status_is_told(kind: str) -> None:
    """By an event that says what to do, and a metric."""
    world = a_world(kind)

    async def story() -> None:
        await world.read()
        await world.look(60)
        await world.recorder.flush()

    run_virtual(story())

    (event,) = world.events()
    assert ("StatusRefused", "Warning") == (event["reason"], event["type"])
    assert WORDS in str(event["note"])
    assert "manifests/crds" in str(event["note"])
    counted = world.metrics.registry.get_sample_value(
        "lbcf_status_refusals_total", {"kind": kind}
    )
    assert world.sent == counted


@pytest.mark.parametrize("kind", BODIES)
def test_status_is_written_once_it_is_taken(kind: str) -> None:
    """No later than two minutes after the kinds were brought up to date."""
    world = a_world(kind)

    async def story() -> None:
        await world.read()
        await world.look(HALF_AN_HOUR)
        world.refuses = False
        await world.look(121)

    run_virtual(story())

    assert world.status()


def test_change_of_the_spec_ends_the_pause() -> None:
    """It may be what the refusal was about."""
    world = a_world("LoadBalancer")

    async def story() -> list[int]:
        await world.read()
        await world.look(HALF_AN_HOUR)
        before = world.sent
        change = {"spec": {"attributes": {"a": "b"}}}
        await world.client.patch(LOAD_BALANCERS, KEY, change)
        await world.read()
        await world.look(1)
        return [before, world.sent]

    before, after = run_virtual(story())

    assert before + 1 == after


class TakingNoStatus(TinyApi):
    """An API server that refuses every status."""

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Carry out all but statuses."""
        if request.method == "PATCH" and request.path.endswith("/status"):
            raise a_refusal(request, 422, WORDS)
        return await super().send(request, within)


def test_controller_tells_of_refusals_of_all_kinds() -> None:
    """Whichever of its reconcilers it is that writes."""

    async def story() -> None:
        async with fairness.World(TakingNoStatus) as world:
            world.put(
                tenants.Driver("shop", "proxy", "http://proxy", is_new=True),
                tenants.Balancer("shop", "front", "proxy"),
                tenants.Balancer("shop", "new", "proxy", is_new=True),
                tenants.Group("shop", "web", "front", ("198.18.0.1:80",)),
                tenants.Bind("shop", "web", ("proxy",)),
            )
            await world.start(60)

    with structlog.testing.capture_logs() as logs:
        run_virtual(story())

    told = {one["kind"] for one in logs if one["event"] == "status.refused"}
    assert set(BODIES) == told
