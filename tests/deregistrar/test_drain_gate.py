"""Pods that wait are answered when no record names them any more, and not before."""

import asyncio

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from lbcf.core.model.names import FINALIZER_RECORD, LABEL_POD_UID
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import Uid
from lbcf.deregistrar.drain_gate import DrainGate, GateMetrics, pod_of
from lbcf.kube.client import KubeClient
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import RECORDS
from lbcf.kube.requests import ApiRequest
from lbcf.kube.store import Store
from lbcf.runtime.metrics import Metrics
from lbcf.wire.metadata import render_finalizer_removed
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import Fault, TinyApi


POD = Uid("11111111-2222-3333-4444-555555555555")
LONG = timedelta(seconds=50)


class FarApi(TinyApi):
    """An API server whose answers take a while to come back.

    Attributes:
        way: how many seconds.
    """

    way = 0.0

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Carry a request out at once; the answer is that of this moment."""
        answer = await super().send(request, within)
        await asyncio.sleep(self.way)
        return answer


class Scene:
    """An API server in memory, and a gate; the watch of its replica is begun by `follow`."""

    def __init__(self) -> None:
        self.api = FarApi()
        self.client = KubeClient(self.api)
        self.clock = VirtualClock()
        self.records: Store[BackendRecord] = Store(
            {"pod": pod_of}, keep=lambda record: record.is_deleting
        )
        metrics = Metrics()
        self.registry = metrics.registry
        series = GateMetrics(metrics)
        self.gate = DrainGate(self.client, self.records, self.clock, series)
        self.records.on_change(self.gate.record_changed)
        self._tasks = [asyncio.create_task(self.gate.run())]

    def follow(self) -> None:
        """Let the replica watch the records."""
        informer = Informer(self.client, RECORDS, self.clock, store=self.records)
        self._tasks.append(asyncio.create_task(informer.run()))

    async def create(self, name: str = "web-1", pod: str = POD) -> BackendRecord:
        """Create a record of a pod, as the controller does."""
        backend = {"name": "web", "uid": pod, "port": {"portNumber": 80}}
        body = {
            "metadata": {
                "name": name,
                "labels": {LABEL_POD_UID: pod},
                "finalizers": [FINALIZER_RECORD],
            },
            "spec": {"lbName": "front", "lbDriver": "memory", "podBackend": backend},
        }
        return await self.client.create(RECORDS, "shop", body)

    async def release(self, record: BackendRecord) -> None:
        """Take the finalizer off, as another replica does."""
        now = await self.client.get(RECORDS, record.meta.key)
        body = render_finalizer_removed(now.meta, FINALIZER_RECORD)
        await self.client.patch(RECORDS, now.meta.key, body)

    def ask(self, pod: Uid = POD, within: timedelta = LONG) -> "asyncio.Task[bool]":
        """Let a container wait."""
        return asyncio.create_task(self.gate.drained(pod, within))

    @property
    def lists(self) -> int:
        """How many LISTs of records there were."""
        return self.api.requests.count(f"GET {RECORDS.collection()}")

    def answers(self, said: str) -> float:
        """How often something was answered."""
        found = self.registry.get_sample_value(
            "lbcf_drain_gate_answers_total", {"answer": said}
        )
        return found or 0.0

    @property
    def waiting(self) -> float:
        """How many pods wait."""
        return self.registry.get_sample_value("lbcf_drain_gate_pods_waiting") or 0.0

    async def end(self) -> None:
        """End what runs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def played(story: Callable[[Scene], Awaitable[None]]) -> None:
    """Play a story in virtual time."""

    async def play() -> None:
        scene = Scene()
        try:
            await story(scene)
        finally:
            await scene.end()

    run_virtual(play())


def test_pod_without_records_ends_at_once() -> None:
    """One LIST says so; that no watch was begun does not matter."""

    async def story(scene: Scene) -> None:
        assert await scene.ask()
        assert 1 == scene.lists
        assert 1.0 == scene.answers("Drained")

    played(story)


def test_pod_waits_for_the_last_of_its_records() -> None:
    """Live ones and those that drain hold it; no other pod's do."""

    async def story(scene: Scene) -> None:
        scene.follow()
        one, two = await scene.create("one"), await scene.create("two")
        await scene.create("other", "99999999-2222-3333-4444-555555555555")
        waiting = scene.ask()
        await asyncio.sleep(3)
        for record in (one, two):
            assert not waiting.done()
            await scene.client.delete(RECORDS, record.meta.key)
            await asyncio.sleep(3)
            assert not waiting.done()
            await scene.release(record)
            await asyncio.sleep(0.1)
        assert waiting.done()
        assert await waiting

    played(story)


def test_pod_is_asked_for_no_more_while_its_record_is_on_its_way_out() -> None:
    """The watch tells of the end; thousands that drain cost no requests."""

    async def story(scene: Scene) -> None:
        scene.follow()
        record = await scene.create()
        await scene.client.delete(RECORDS, record.meta.key)
        await asyncio.sleep(1)
        before = scene.lists
        waiting = scene.ask()
        await asyncio.sleep(30)
        assert before == scene.lists
        await scene.release(record)
        assert await waiting

    played(story)


def test_end_that_no_watch_told_of_is_found() -> None:
    """A replica whose watch hangs answers some seconds later."""

    async def story(scene: Scene) -> None:
        record = await scene.create()
        waiting = scene.ask()
        await asyncio.sleep(1)
        await scene.client.delete(RECORDS, record.meta.key)
        await scene.release(record)
        await asyncio.sleep(5)
        assert await waiting

    played(story)


def test_many_pods_are_asked_for_together() -> None:
    """A LIST has a hundred of them."""

    async def story(scene: Scene) -> None:
        pods = [Uid(f"{number:08x}-0000") for number in range(250)]
        assert all(await asyncio.gather(*(scene.ask(pod) for pod in pods)))
        assert 3 == scene.lists

    played(story)


def test_containers_of_one_pod_are_answered_together() -> None:
    """Each has a connection of its own, and all ask the same."""

    async def story(scene: Scene) -> None:
        assert all(await asyncio.gather(scene.ask(), scene.ask()))
        assert 1 == scene.lists

    played(story)


def test_request_ends_before_the_pod_is_drained() -> None:
    """The answer is no, and the pod asks again."""

    async def story(scene: Scene) -> None:
        await scene.create()
        assert not await scene.ask(within=timedelta(seconds=10))
        assert 1.0 == scene.answers("Waiting")

    played(story)


@pytest.mark.parametrize("fault", [Fault.UNSENT, Fault.STALLED, Fault.CUT])
def test_no_answer_of_the_api_server_is_no_empty_list(fault: Fault) -> None:
    """Who cannot ask answers nothing, and goes on asking."""

    async def story(scene: Scene) -> None:
        scene.api.fault = fault
        waiting = scene.ask()
        await asyncio.sleep(20)
        assert not waiting.done()
        scene.api.fault = None
        assert await waiting

    played(story)


def test_answer_is_of_a_list_that_was_sent_after_the_question() -> None:
    """A record that came while an older LIST was under way holds the pod."""

    async def story(scene: Scene) -> None:
        first = scene.ask()
        while not scene.lists:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
        await scene.create()  # its LIST is sent, and not read yet
        assert await first
        assert not await scene.ask(within=timedelta(seconds=2))

    played(story)


def test_who_asks_while_a_list_is_under_way_is_not_answered_from_it() -> None:
    """The first container is restarted in a pod that lives; the other's pod is deleted."""

    async def story(scene: Scene) -> None:
        scene.api.way = 1.0
        first = scene.ask()
        await asyncio.sleep(0.1)  # its LIST is sent, and not read yet
        scene.api.way = 0.0
        record = await scene.create()
        later = scene.ask(within=timedelta(seconds=20))
        assert await first
        await asyncio.sleep(2)
        assert not later.done()
        await scene.client.delete(RECORDS, record.meta.key)
        await scene.release(record)
        assert await later
        assert 0 == scene.waiting

    played(story)
