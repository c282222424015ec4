"""Marks on records whose backend is gone: only by what the API server itself says."""

import attrs
import msgspec
import pytest

from lbcf.controller.backend_reader import BackendReader
from lbcf.controller.gone_backends import GoneBackends
from lbcf.controller.view import View
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.core.selection.plan import plan_group
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Conflict, Unavailable
from lbcf.kube.kinds import RECORDS
from lbcf.runtime.queue import WorkQueue
from lbcf.wire.kube import parse_pod
from lbcf.wire.records import render_new_record
from tests.builders import a_pod, a_snapshot
from tests.controller.views import show
from tests.fakes.clock import VirtualClock
from tests.kube.tiny_api import Fault, TinyApi


DRAIN = {"startedAt": "2026-01-01T00:00:00Z", "deadline": "2026-01-01T00:05:00Z"}
POD = "/api/v1/namespaces/shop/pods/web-1"


@attrs.define
class Scene:
    """A pod and its record, which is being drained, in an API server and in the view."""

    api: TinyApi = attrs.Factory(TinyApi)
    view: View = attrs.Factory(View)
    queue: WorkQueue[ObjectKey] = attrs.Factory(
        lambda: WorkQueue("gone", VirtualClock())
    )
    key: ObjectKey = attrs.field(init=False)
    marks: GoneBackends = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.marks = GoneBackends(
            self.view,
            BackendReader(KubeClient(self.api), self.view),
            ObjectWriter(KubeClient(self.api), RECORDS, self.view.records),
            self.queue,
        )
        self.marks.listen()

    async def begin(self) -> None:
        """Put the pod there, and its record, and let its drain wait."""
        client, pod = KubeClient(self.api), a_pod()
        status = {"podIP": "10.0.0.1", "phase": "Running"}
        named = {"name": "web-1", "namespace": "shop", "uid": pod.meta.uid}
        whole: dict[str, object] = {"metadata": named, "status": status}
        show(self.view, parse_pod(msgspec.json.encode(self.api.put(POD, whole))))
        create = plan_group(a_snapshot(pod)).creates[0]
        body = render_new_record(create.desired, create.name)
        record = await client.create(RECORDS, "shop", body)
        self.key = record.meta.key
        await client.delete(RECORDS, self.key)
        waiting = {"status": {"drain": DRAIN}}
        self.view.records.observe(
            await client.patch(RECORDS, self.key, waiting, subresource="status")
        )

    def lose_from_view(self) -> None:
        """Let the watch tell that the pod is gone."""
        self.view.pods.observe_gone(next(iter(self.view.pods.values())).meta)

    async def work(self) -> None:
        """Work on all that is in the queue."""
        while len(self.queue):
            key = await self.queue.get()
            try:
                await self.marks.reconcile(key)
            finally:
                self.queue.done(key)

    def seen(self) -> BackendRecord:
        """Return the record as the view has it."""
        found = self.view.records.get(self.key)
        assert found is not None
        return found

    def stored(self) -> dict[str, object]:
        """Return the record's status as the API server has it."""
        (whole,) = [w for p, w in self.api.objects.items() if "backendrecords" in p]
        status = whole["status"]
        assert isinstance(status, dict)
        return status


@pytest.fixture(name="scene")
async def _scene() -> Scene:
    """Give a scene."""
    scene = Scene()
    await scene.begin()
    return scene


async def test_pod_that_is_gone_is_written_down(scene: Scene) -> None:
    """Once; the rest of the status stays."""
    scene.api.remove(POD)
    scene.lose_from_view()
    await scene.work()

    assert scene.stored() == {"drain": DRAIN, "backendGone": True}
    assert scene.seen().status.backend_gone
    written = len(scene.api.requests)
    scene.marks.record_changed(None, scene.seen())
    await scene.work()
    assert written == len(scene.api.requests)


async def test_pod_that_is_there_costs_nothing(scene: Scene) -> None:
    """As long as the view shows it nobody is asked."""
    before = list(scene.api.requests)

    scene.marks.record_changed(None, scene.seen())
    await scene.work()

    assert before == scene.api.requests


async def test_view_that_is_wrong_marks_nothing(scene: Scene) -> None:
    """The pod is there, and terminates: the API server says so."""
    scene.lose_from_view()
    await scene.work()

    assert scene.stored() == {"drain": DRAIN}


async def test_namesake_is_another_pod(scene: Scene) -> None:
    """It has another uid."""
    scene.api.remove(POD)
    scene.api.put(POD, {"metadata": {}, "status": {"podIP": "10.0.0.1"}})
    scene.lose_from_view()
    await scene.work()

    assert scene.stored()["backendGone"] is True


async def test_api_server_that_cannot_be_asked_marks_nothing(scene: Scene) -> None:
    """The drain goes on to its deadline, and it is tried again."""
    scene.api.remove(POD)
    scene.lose_from_view()
    scene.api.fault = Fault.UNSENT

    with pytest.raises(Unavailable):
        await scene.work()
    assert scene.stored() == {"drain": DRAIN}


async def test_what_another_wrote_meanwhile_is_kept(scene: Scene) -> None:
    """The mark is written over the version that was read, or not at all."""
    client = KubeClient(scene.api)
    newer = {"status": {"drain": {**DRAIN, "activeConnections": 2}}}
    await client.patch(RECORDS, scene.key, newer, subresource="status")
    scene.api.remove(POD)
    scene.lose_from_view()

    with pytest.raises(Conflict):
        await scene.work()
    await scene.work()
    await scene.marks.reconcile(scene.key)

    assert scene.stored() == {**newer["status"], "backendGone": True}
