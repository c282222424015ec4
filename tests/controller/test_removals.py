"""Removals: each record on its own, and only what the latest plan still wants."""

import asyncio

from datetime import timedelta
from typing import cast

import attrs
import msgspec
import pytest

from lbcf.controller.backend_reader import BackendReader
from lbcf.controller.group_reader import GroupReader
from lbcf.controller.removal_check import RemovalCheck
from lbcf.controller.removals import Removals
from lbcf.controller.view import View
from lbcf.core.model.cluster import Pod
from lbcf.core.model.names import API_GROUP
from lbcf.core.model.node_backends import ServiceRef
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey, Port
from lbcf.core.reasons import Reason
from lbcf.core.selection.plan import Removal, plan_group
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Conflict, Unavailable
from lbcf.kube.kinds import RECORDS
from lbcf.kube.requests import ApiRequest
from lbcf.kube.store import Store
from lbcf.runtime.queue import WorkQueue
from lbcf.wire.kube import parse_pod
from lbcf.wire.records import render_new_record
from tests.builders import a_group, a_key, a_pod, a_snapshot
from tests.controller.views import show
from tests.e2e import objects
from tests.fakes.clock import VirtualClock
from tests.kube.tiny_api import Fault, Json, TinyApi


@attrs.define
class Scene:
    """Live records, in an API server and in the view."""

    api: TinyApi = attrs.Factory(TinyApi)
    client: KubeClient = attrs.field(init=False)
    view: View = attrs.Factory(View)
    queue: WorkQueue[ObjectKey] = attrs.Factory(
        lambda: WorkQueue("removals", VirtualClock())
    )
    again: list[ObjectKey] = attrs.Factory(list)
    told: list[Removal] = attrs.Factory(list)
    check: RemovalCheck = attrs.field(init=False)
    removals: Removals = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.client = KubeClient(self.api)
        self.check = RemovalCheck(
            self.view,
            BackendReader(self.client, self.view),
            GroupReader(self.client, self.view),
        )
        self.removals = Removals(
            ObjectWriter(self.client, RECORDS, self.records),
            self.queue,
            self.check,
            self.again.append,
            self.told.append,
        )

    @property
    def records(self) -> Store[BackendRecord]:
        """Return what the view has of records."""
        return self.view.records

    async def made(self, pod: str, name: str = "") -> BackendRecord:
        """Make the record of a pod."""
        create = plan_group(a_snapshot(a_pod(pod))).creates[0]
        body = render_new_record(create.desired, name or create.name)
        record = await self.client.create(RECORDS, "shop", body)
        self.records.observe(record)
        return record

    def decide(
        self, *considered: BackendRecord, wanted: tuple[BackendRecord, ...] = ()
    ) -> None:
        """Take in a plan that removes some of what it considers."""
        self.removals.decided(
            considered, [Removal(r, Reason.POD_GONE, "") for r in wanted]
        )

    async def due(self) -> list[ObjectKey]:
        """Take all keys out of the queue."""
        found = []
        while len(self.queue):
            found.append(await self.queue.get())
            self.queue.done(found[-1])
        return found

    def is_live(self, record: BackendRecord) -> bool:
        """Tell whether the view shows a record that nobody has deleted."""
        found = self.records.get(record.meta.key)
        return found is not None and not found.is_deleting


def watch_deletes(
    scene: Scene, patches: pytest.MonkeyPatch, *, answered: bool = True
) -> asyncio.Event:
    """Return what tells that a DELETE is on its way; its answer may be lost."""
    sent, send = asyncio.Event(), scene.api.send

    async def sending(request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Send a request."""
        if request.method != "DELETE":
            return await send(request, within)
        sent.set()
        await asyncio.sleep(0)
        answer = await send(request, within)
        if not answered:
            raise Unavailable(f"{request}: cut", sent=None)
        return answer

    patches.setattr(scene.api, "send", sending)
    return sent


@pytest.fixture(name="scene")
def _scene() -> Scene:
    """Give a scene."""
    return Scene()


async def test_what_a_plan_removes_is_deleted(scene: Scene) -> None:
    """The view knows it before the watch tells."""
    first, second = await scene.made("a"), await scene.made("b")
    scene.decide(first, second, wanted=(first,))
    due = await scene.due()
    await scene.removals.reconcile(due[0])

    assert [first.meta.key] == due
    assert [False, True] == [scene.is_live(first), scene.is_live(second)]
    assert [first.meta.uid] == [removal.record.meta.uid for removal in scene.told]


async def test_what_failed_is_tried_again_and_waits_out_its_pause(scene: Scene) -> None:
    """A plan that says the same does not bring it back earlier."""
    record = await scene.made("a")
    scene.decide(record, wanted=(record,))
    await scene.due()
    scene.api.fault = Fault.UNSENT
    with pytest.raises(Unavailable):
        await scene.removals.reconcile(record.meta.key)
    scene.decide(record, wanted=(record,))
    due = await scene.due()
    scene.api.fault = None
    await scene.removals.reconcile(record.meta.key)

    assert [] == due
    assert not scene.is_live(record)


async def test_what_is_wanted_no_more_is_left_alone(scene: Scene) -> None:
    """Its pod has come back before the next attempt."""
    record = await scene.made("a")
    scene.decide(record, wanted=(record,))
    scene.decide(record)
    await scene.removals.reconcile(record.meta.key)

    assert scene.is_live(record)


async def test_plan_about_others_takes_nothing_back(scene: Scene) -> None:
    """A turn looks at the pods that changed."""
    first, second = await scene.made("a"), await scene.made("b")
    scene.decide(first, wanted=(first,))
    scene.decide(second)
    await scene.removals.reconcile(first.meta.key)

    assert not scene.is_live(first)


async def test_group_that_cannot_be_judged_keeps_its_records(scene: Scene) -> None:
    """Another group's go on their way."""
    record = await scene.made("a")
    assert record.group is not None
    other = await scene.made("b")
    scene.decide(record, other, wanted=(record, other))
    scene.removals.undecided(a_key("other"))
    await scene.removals.reconcile(other.meta.key)
    scene.removals.undecided(record.group)
    await scene.removals.reconcile(record.meta.key)

    assert [True, False] == [scene.is_live(record), scene.is_live(other)]


async def test_namesake_is_not_deleted(scene: Scene) -> None:
    """It is looked at instead, and not tried again: another plan must want it."""
    record = await scene.made("a")
    scene.decide(record, wanted=(record,))
    scene.api.remove(RECORDS.path(record.meta.key))
    create = plan_group(a_snapshot(a_pod("a"))).creates[0]
    body = render_new_record(create.desired, record.meta.key.name)
    namesake = await scene.client.create(RECORDS, "shop", body)
    with pytest.raises(Conflict):
        await scene.removals.reconcile(record.meta.key)
    await scene.removals.reconcile(record.meta.key)

    assert namesake == scene.records.get(record.meta.key)
    assert 1 == sum(r.startswith("DELETE") for r in scene.api.requests)


async def test_duplicate_stays_until_the_other_ones_end_is_answered(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of two is one too many may change in between: both would go."""
    first, second = await scene.made("a", "one"), await scene.made("a", "two")
    scene.decide(first, second, wanted=(first,))
    sent = watch_deletes(scene, monkeypatch)
    removing = asyncio.create_task(scene.removals.reconcile(first.meta.key))
    await sent.wait()
    flipped = [Removal(second, Reason.DUPLICATE, "")]
    scene.removals.decided([first, second], flipped)
    await removing
    await scene.removals.reconcile(second.meta.key)
    still_there = scene.is_live(second)
    scene.removals.decided([second], flipped)
    await scene.removals.reconcile(second.meta.key)

    assert still_there
    assert not scene.is_live(second)


@pytest.mark.parametrize(
    ("reason", "by_readiness", "stays"),
    [
        (Reason.DUPLICATE, False, True),
        (Reason.POD_NOT_READY, True, True),
        (Reason.POD_GONE, False, False),
    ],
)
async def test_what_depends_on_the_moment_goes_as_it_was_seen_only(
    scene: Scene, reason: Reason, *, by_readiness: bool, stays: bool
) -> None:
    """Another leader has written the record since: its group is looked at again."""
    record = await scene.made("a")
    newer = {"status": {"backendAddr": "10.0.0.1:80"}}
    await scene.client.patch(RECORDS, record.meta.key, newer, subresource="status")
    scene.removals.decided([record], [Removal(record, reason, "", by_readiness)])

    if stays:
        with pytest.raises(Conflict):
            await scene.removals.reconcile(record.meta.key)
    else:
        await scene.removals.reconcile(record.meta.key)
    assert scene.is_live(record) == stays
    assert bool(scene.again) == stays

    present = scene.records.get(record.meta.key)
    assert present is not None
    scene.removals.decided([present], [Removal(present, reason, "", by_readiness)])
    await scene.removals.reconcile(record.meta.key)
    assert not scene.is_live(record)


async def test_duplicate_whose_deletion_failed_is_tried_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that came while it was under way says the same, and takes nothing back."""
    record = await scene.made("a")
    removals = [Removal(record, Reason.DUPLICATE, "")]
    scene.removals.decided([record], removals)
    with monkeypatch.context() as patches:
        sent = watch_deletes(scene, patches, answered=False)
        removing = asyncio.create_task(scene.removals.reconcile(record.meta.key))
        await sent.wait()
        scene.removals.decided([record], removals)
        with pytest.raises(Unavailable):
            await removing
    await scene.removals.reconcile(record.meta.key)

    assert not scene.is_live(record)


POD = "/api/v1/namespaces/shop/pods/a"
GROUP = f"/apis/{API_GROUP}/v1beta1/namespaces/shop/backendgroups/web"


async def test_pod_that_no_watch_has_told_of_keeps_its_record(scene: Scene) -> None:
    """The view has it from then on, and its group is looked at again."""
    record = await scene.made("a")
    show(scene.view, a_group())
    _put_pod(scene)
    scene.decide(record, wanted=(record,))
    await scene.due()
    await scene.removals.reconcile(record.meta.key)

    assert scene.is_live(record)
    assert [record.group] == scene.again
    assert scene.view.pods.get(ObjectKey("shop", "a")) is not None

    scene.decide(record, wanted=(record,))
    assert [record.meta.key] == await scene.due()
    await scene.removals.reconcile(record.meta.key)
    assert not scene.is_live(record)


async def test_group_that_no_watch_has_told_of_keeps_its_records(scene: Scene) -> None:
    """What is removed was decided by the group as it had been."""
    record = await scene.made("a")
    show(scene.view, a_group())
    show(scene.view, _put_pod(scene))
    changed = scene.api.put(GROUP, objects.a_group())
    metadata = {**cast("Json", changed["metadata"]), "uid": "uid-web", "generation": 2}
    scene.api.put(GROUP, {**changed, "metadata": metadata})
    scene.removals.decided([record], [Removal(record, Reason.UNSELECTED, "")])
    await scene.removals.reconcile(record.meta.key)

    assert scene.is_live(record)
    assert [record.group] == scene.again


async def test_newer_version_that_says_the_same_is_no_reason_to_decide_again(
    scene: Scene,
) -> None:
    """Nodes and pods get another one with each heartbeat and each probe."""
    record = await scene.made("a")
    show(scene.view, a_group())
    seen = _put_pod(scene)
    show(scene.view, seen)
    newer = _put_pod(scene)
    scene.removals.decided([record], [Removal(record, Reason.UNSELECTED, "")])
    await scene.removals.reconcile(record.meta.key)

    assert seen.meta.resource_version != newer.meta.resource_version
    assert not scene.is_live(record)
    assert [] == scene.again


async def test_all_is_read_at_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a node has no ready pod left, kube-proxy loses requests until it is out."""
    record = await scene.made("a")
    backend = ServiceRef("web", Port(80), 30080, "n1")
    of_node = attrs.evolve(record, spec=attrs.evolve(record.spec, backend=backend))
    asked, may_answer, send = set[str](), asyncio.Event(), scene.api.send

    async def sending(request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Answer when that is allowed."""
        asked.add(request.path.rpartition("/namespaces/")[2])
        await may_answer.wait()
        return await send(request, within)

    monkeypatch.setattr(scene.api, "send", sending)
    removal = Removal(of_node, Reason.NO_READY_LOCAL_ENDPOINT, "")
    checking = asyncio.create_task(scene.check.holds(removal))
    for _ in range(10):
        await asyncio.sleep(0)
    at_once = set(asked)
    may_answer.set()
    await checking

    own = {f"shop/{kind}" for kind in ("services/web", "backendgroups", "binds")}
    assert {"/api/v1/nodes/n1", *own} == at_once


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_pod_that_has_finished_is_gone(scene: Scene, phase: str) -> None:
    """The view has no place for it: no watch would ever tell its end."""
    record = await scene.made("a")
    _put_pod(scene, phase)
    scene.decide(record, wanted=(record,))
    await scene.removals.reconcile(record.meta.key)

    assert not scene.is_live(record)
    assert 0 == len(scene.view.pods)


async def test_pod_that_is_being_deleted_needs_no_read(scene: Scene) -> None:
    """Nothing brings it back, and every rollout has many."""
    record = await scene.made("a")
    _put_pod(scene)
    scene.removals.decided([record], [Removal(record, Reason.POD_TERMINATING, "")])
    await scene.removals.reconcile(record.meta.key)

    assert not scene.is_live(record)
    assert not any(r.startswith("GET") for r in scene.api.requests)


async def test_nothing_is_deleted_while_nobody_knows(scene: Scene) -> None:
    """It is tried again."""
    record = await scene.made("a")
    scene.decide(record, wanted=(record,))
    scene.api.fault = Fault.UNSENT
    with pytest.raises(Unavailable):
        await scene.removals.reconcile(record.meta.key)
    scene.api.fault = None
    await scene.removals.reconcile(record.meta.key)

    assert not scene.is_live(record)


def _put_pod(scene: Scene, phase: str = "Running") -> Pod:
    """Let there be the pod of the record."""
    metadata = {"name": "a", "namespace": "shop", "uid": a_pod("a").meta.uid}
    status = {"phase": phase, "podIP": "10.0.0.1"}
    whole = scene.api.put(POD, {"metadata": metadata, "status": status})
    return parse_pod(msgspec.json.encode(whole))
