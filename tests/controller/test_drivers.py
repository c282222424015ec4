"""What a driver is told of itself: its scope, where nobody else could name it."""

import attrs
import pytest

from prometheus_client import CollectorRegistry

from lbcf.controller.drivers import DriverFinalizer, DriverReconciler, judge_scope
from lbcf.controller.view import View
from lbcf.core.model import conditions
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.drivers.pool import DriverPool
from lbcf.executor.object_events import AbandonmentReporter
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import DRIVERS
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.limiter import Shares
from lbcf.runtime.queue import WorkQueue
from tests.builders import a_driver, a_key
from tests.controller.views import show
from tests.ctl.servers import put
from tests.drivers.servers import BESIDE_US
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


async def looked_after(**spec: object) -> LoadBalancerDriver:
    """Have a driver of the namespace of the tests looked after once."""
    api, view, clock = TinyApi(), View(), SystemClock()
    client = KubeClient(api)
    put(api, DRIVERS, objects.a_driver(NOBODY, webhooks=[{"name": "healthz"}], **spec))
    driver = await client.get(DRIVERS, a_key("memory"))
    show(view, driver)
    queue: WorkQueue[ObjectKey] = WorkQueue("drivers", clock)
    recorder = EventRecorder(client, clock, controller="test", instance="test")
    writer = ObjectWriter(client, DRIVERS, view.drivers)
    holds = DriverFinalizer(view, writer, queue, AbandonmentReporter(recorder, None))
    async with DriverPool(clock, CollectorRegistry(), allowlist=BESIDE_US) as pool:
        care = DriverReconciler(
            view, writer, pool, holds, clock, queue=queue, shares=Shares(64)
        )
        await care.reconcile(a_key("memory"))
    return await client.get(DRIVERS, a_key("memory"))


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
