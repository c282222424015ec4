"""What a driver is told of itself: its scope, where nobody else could name it, and its health."""

import asyncio
import contextlib

from collections.abc import AsyncIterator

import attrs
import pytest

from prometheus_client import CollectorRegistry

from lbcf.controller.drivers import DriverFinalizer, DriverReconciler, judge_scope
from lbcf.controller.view import View
from lbcf.core.model import conditions
from lbcf.core.model.names import ANNOTATION_ABANDON
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.drivers.pool import DriverPool
from lbcf.executor.object_events import AbandonmentReporter
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import NotFound
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import DRIVERS
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.limiter import Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import RequeueAfter, Result
from tests.builders import a_driver, a_key, a_load_balancer
from tests.controller.views import show
from tests.ctl.servers import put
from tests.drivers.servers import BESIDE_US, read_request, response, serving
from tests.e2e import objects
from tests.kube.tiny_api import TinyApi


NOBODY = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("namespace", "name", "scope", "is_told"),
    [
        ("shop", "memory", ("team",), True),
        ("shop", "memory", ("*",), True),
        ("shop", "lbcf-memory", ("team",), True),
        ("kube-system", "memory", ("team",), True),
        ("kube-system", "lbcf-memory", ("team",), False),
        ("shop", "memory", (), False),
        ("shop", "memory", None, False),
    ],
)
def test_scope_is_for_drivers_that_others_can_name(
    namespace: str, name: str, scope: tuple[str, ...] | None, *, is_told: bool
) -> None:
    """Elsewhere it has no effect, and that is told with what to do."""
    driver = attrs.evolve(a_driver(name, namespace=namespace), scope=scope)
    told = judge_scope(driver)

    assert is_told == (told is not None)
    if told is not None:
        assert (False, Reason.SCOPE_NOT_ALLOWED) == (told.status, told.reason)
        assert f"{namespace}/{name} cannot. Take spec.scope out" in told.message


@attrs.frozen
class Care:
    """A driver in the namespace of the tests, and what looks after it."""

    client: KubeClient
    view: View
    reconciler: DriverReconciler

    async def driver(self) -> LoadBalancerDriver:
        """Read it."""
        return await self.client.get(DRIVERS, a_key("memory"))

    async def look(self) -> Result:
        """Look at it as it is now."""
        show(self.view, await self.driver())
        return await self.reconciler.reconcile(a_key("memory"))


@contextlib.asynccontextmanager
async def looking_after(url: str, **spec: object) -> AsyncIterator[Care]:
    """Make a driver that is asked how it is."""
    api, view, clock = TinyApi(), View(), SystemClock()
    client = KubeClient(api)
    put(api, DRIVERS, objects.a_driver(url, webhooks=[{"name": "healthz"}], **spec))
    queue: WorkQueue[ObjectKey] = WorkQueue("drivers", clock)
    recorder = EventRecorder(client, clock, controller="test", instance="test")
    writer = ObjectWriter(client, DRIVERS, view.drivers)
    holds = DriverFinalizer(
        view, writer, queue, AbandonmentReporter(recorder, None), client
    )
    async with DriverPool(clock, CollectorRegistry(), allowlist=BESIDE_US) as pool:
        reconciler = DriverReconciler(
            view, writer, pool, holds, clock, queue=queue, shares=Shares(64)
        )
        yield Care(client, view, reconciler)


async def looked_after(**spec: object) -> LoadBalancerDriver:
    """Have a driver looked after once."""
    async with looking_after(NOBODY, **spec) as care:
        await care.look()
        return await care.driver()


async def test_driver_with_such_a_scope_says_so_and_is_called() -> None:
    """What there is goes on: it is still asked how it is."""
    found = await looked_after(scope=["team"])

    said = {one.type: (one.status, one.reason) for one in found.conditions}
    assert (False, Reason.SCOPE_NOT_ALLOWED) == said[conditions.ACCEPTED]
    assert (False, "DriverUnreachable") == said[conditions.HEALTHY]


async def test_driver_without_one_is_accepted() -> None:
    """An empty one is what it has anyway."""
    found = await looked_after(scope=[])

    told = conditions.find(found.conditions, conditions.ACCEPTED)
    assert told is not None
    assert (True, "Accepted") == (told.status, told.reason)


async def test_driver_that_declares_no_healthz_any_more_is_not_said_to_be_ill() -> None:
    """What it said once is nobody's word by now: no alert goes on for it."""
    async with looking_after(NOBODY) as care:
        await care.look()
        assert conditions.find((await care.driver()).conditions, conditions.HEALTHY)
        await care.client.patch(DRIVERS, a_key("memory"), {"spec": {"webhooks": []}})
        await care.look()
        found = await care.driver()

    assert [conditions.ACCEPTED] == [one.type for one in found.conditions]


async def test_driver_that_is_not_well_is_asked_again_sooner() -> None:
    """What a first question met is soon put right; who stays away is asked by the period."""
    well = False

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        if well:
            writer.write(
                response(b'{"healthy": true}', headers=b"Connection: close\r\n")
            )
            await writer.drain()

    async def rest() -> float:
        result = await care.look()
        assert isinstance(result, RequeueAfter)
        return result.delay.total_seconds()

    async with serving(talk) as url, looking_after(url) as care:
        rests = [await rest() for _ in range(6)]
        assert max(rests) <= 15
        assert rests[0] < 2
        assert rests[5] >= 7.5
        well = True
        assert 15 == await rest()
        found = await care.driver()
        told = conditions.find(found.conditions, conditions.HEALTHY)
        assert told is not None
        assert told.status is True
        well = False
        assert await rest() < 2


@pytest.mark.parametrize("empty", ["", " "])
async def test_driver_that_is_needed_is_let_go_for_a_reason_alone(empty: str) -> None:
    """A template may have left the annotation empty: that is no order."""
    key = a_key("memory")
    async with looking_after(NOBODY) as care:
        await care.look()
        show(care.view, a_load_balancer(driver="memory"))
        found = await care.driver()
        await care.client.delete(DRIVERS, key, uid=found.meta.uid)

        await care.client.patch(DRIVERS, key, _abandoned(empty))
        await care.look()
        kept = await care.driver()
        await care.client.patch(DRIVERS, key, _abandoned("burnt down"))
        await care.look()
        with pytest.raises(NotFound):
            await care.driver()

    told = conditions.find(kept.conditions, conditions.ACCEPTED)
    assert told is not None
    assert Reason.IN_USE == told.reason


def _abandoned(why: str) -> dict[str, object]:
    """Change the annotation that lets a driver go."""
    return {"metadata": {"annotations": {ANNOTATION_ABANDON: why}}}
