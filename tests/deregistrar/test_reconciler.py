"""What a deregistrar remembers of a record."""

from collections.abc import Callable, Mapping
from datetime import timedelta

import attrs
import pytest

from prometheus_client import CollectorRegistry

from lbcf.core.model.access import Secret
from lbcf.core.model.conditions import REACHABLE, Condition
from lbcf.core.model.names import FINALIZER_RECORD
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.deregistrar.cut_drains import CutDrains
from lbcf.deregistrar.metrics import DeletionMetrics
from lbcf.deregistrar.noted_calls import NotedCalls
from lbcf.deregistrar.reconciler import Deregistrar
from lbcf.deregistrar.successors import Successors, holder_of
from lbcf.drivers.client import DriverClient
from lbcf.drivers.errors import TimedOut
from lbcf.drivers.pool import DriverPool
from lbcf.executor.object_events import AbandonmentReporter
from lbcf.executor.perform import Executor
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import RECORDS
from lbcf.kube.list_watch import Put, Removed
from lbcf.kube.store import Store
from lbcf.runtime.limiter import Shares
from lbcf.runtime.metrics import Metrics
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, RequeueAfter, Result
from lbcf.wire.metadata import identity_of
from tests.builders import a_driver, a_load_balancer
from tests.fakes.clock import VirtualClock
from tests.fakes.journal import FakeJournal
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import TinyApi


KEY = ObjectKey("shop", "web-1")
SPEC = {
    "lbName": "front",
    "lbDriver": "proxy",
    "lbInfo": {"id": "front"},
    "staticAddr": "10.0.0.1:80",
    "backendAddr": "10.0.0.1:80",
}
BODY = {
    "metadata": {
        "generation": 2,
        "finalizers": [FINALIZER_RECORD],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": SPEC,
}


class _NoAnswer(DriverClient):
    """Something happens during each call, which then has no answer."""

    def __init__(self, during: Callable[[], None]) -> None:
        self._during = during

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    async def post(
        self,
        name: str,
        operation: Operation,
        body: bytes,  # noqa: ARG002 - nobody reads it
        timeout: timedelta,  # noqa: ARG002, ASYNC109 - as the real one has it
        headers: Mapping[str, str] | None = None,  # noqa: ARG002 - nobody looks
    ) -> bytes:
        """Take one call."""
        self._during()
        raise TimedOut(f"{operation} of {name}: no answer")


class _Drivers(DriverPool):
    """The real pool over such a driver."""

    def __init__(self, during: Callable[[], None]) -> None:
        super().__init__(VirtualClock(), CollectorRegistry())
        self._during = during

    def _connect(
        self, _driver: LoadBalancerDriver, _secrets: Mapping[str, Secret]
    ) -> DriverClient:
        return _NoAnswer(self._during)


class Scene:
    """A deregistrar with one record that ends; something happens during its driver's calls."""

    def __init__(self, during: "Callable[[Scene], None]") -> None:
        clock, client = VirtualClock(), KubeClient(api := TinyApi())
        api.put(RECORDS.path(KEY), BODY)
        self.client = client
        self.records: Store[BackendRecord] = Store(
            {"holder": holder_of, "driver": lambda record: [record.driver_key]}
        )
        drivers: Store[LoadBalancerDriver] = Store()
        drivers.apply(Put(a_driver()))
        noted = NotedCalls(FakeJournal())
        noted.begin("me", None)
        recorder = EventRecorder(client, clock, controller="d", instance="me")
        telling: WorkQueue[ObjectKey] = WorkQueue("successors", clock)
        writer = ObjectWriter(client, RECORDS, self.records)
        self.queue: WorkQueue[ObjectKey] = WorkQueue("deletions", clock)
        self.deregistrar = Deregistrar(
            self.records,
            drivers,
            self.queue,
            Executor(
                client,
                _Drivers(lambda: during(self)),
                clock,
                records=self.records,
            ),
            incarnation="me",
            noted=noted,
            successors=Successors(self.records, telling, writer, clock, noted),
            series=DeletionMetrics(self.records, clock, Metrics()),
            abandonments=AbandonmentReporter(recorder, None),
            cuts=CutDrains(recorder, clock, Metrics()),
            shares=Shares(8),
            limit=lambda _: None,
        )
        self.records.on_change(self.deregistrar.record_changed)

    async def turn(self) -> Result:
        """Let the watch tell of the record, and give it a turn."""
        self.records.apply(Put(await self.client.get(RECORDS, KEY)))
        assert 1 == len(self.deregistrar)
        return await self.deregistrar.reconcile(KEY)

    def end(self) -> None:
        """Let the watch tell that another deregistrar has released the record."""
        found = self.records.get(KEY)
        assert found is not None
        identity = attrs.evolve(identity_of(found.meta), version="99")
        self.records.apply(Removed(identity))


def test_record_that_another_one_released_during_a_call_is_forgotten() -> None:
    """The call has no answer; nobody would ever take out what was learnt of that."""
    scene = Scene(Scene.end)

    assert Done() == run_virtual(scene.turn())
    assert 0 == len(scene.deregistrar)


def test_record_whose_call_had_no_answer_is_remembered() -> None:
    """The call may take effect late."""
    scene = Scene(lambda _: None)

    assert isinstance(run_virtual(scene.turn()), RequeueAfter)
    assert 1 == len(scene.deregistrar)


@pytest.mark.parametrize(("name", "is_asked"), [("front", True), ("other", False)])
def test_call_that_failed_is_made_when_its_load_balancer_is_back(
    name: str, *, is_asked: bool
) -> None:
    """Before the pause ends, which has grown with the outage."""
    scene = Scene(lambda _: None)
    away, back = (
        attrs.evolve(
            a_load_balancer(name),
            conditions=(Condition(REACHABLE, status, Reason.REACHABLE),),
        )
        for status in (False, True)
    )
    run_virtual(scene.turn())
    run_virtual(_emptied(scene.queue))

    scene.deregistrar.load_balancer_changed(away, away)
    assert not len(scene.queue)
    scene.deregistrar.load_balancer_changed(away, back)

    assert is_asked == bool(len(scene.queue))


async def _emptied(queue: WorkQueue[ObjectKey]) -> None:
    while len(queue):
        queue.done(await queue.get())
