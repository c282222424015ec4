"""Removals: each record on its own, and only what the latest plan still wants."""

import asyncio

import attrs
import pytest

from lbcf.controller.removals import Removals
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.core.selection.plan import Removal, plan_group
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Conflict, Unavailable
from lbcf.kube.kinds import RECORDS
from lbcf.kube.store import Store
from lbcf.runtime.queue import WorkQueue
from lbcf.wire.records import render_new_record
from tests.builders import a_key, a_pod, a_snapshot
from tests.fakes.clock import VirtualClock
from tests.kube.tiny_api import Fault, TinyApi


@attrs.define
class Scene:
    """Live records, in an API server and in the view."""

    api: TinyApi = attrs.Factory(TinyApi)
    client: KubeClient = attrs.field(init=False)
    records: Store[BackendRecord] = attrs.Factory(Store)
    queue: WorkQueue[ObjectKey] = attrs.Factory(
        lambda: WorkQueue("removals", VirtualClock())
    )
    again: list[ObjectKey] = attrs.Factory(list)
    told: list[Removal] = attrs.Factory(list)
    removals: Removals = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.client = KubeClient(self.api)
        self.removals = Removals(
            ObjectWriter(self.client, RECORDS, self.records),
            self.queue,
            self.again.append,
            self.told.append,
        )

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
    scene: Scene,
) -> None:
    """Which of two is one too many may change in between: both would go."""
    first, second = await scene.made("a", "one"), await scene.made("a", "two")
    scene.decide(first, second, wanted=(first,))
    removing = asyncio.create_task(scene.removals.reconcile(first.meta.key))
    await asyncio.sleep(0)
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


async def test_duplicate_whose_deletion_failed_is_tried_again(scene: Scene) -> None:
    """A plan that came while it was under way says the same, and takes nothing back."""
    record = await scene.made("a")
    removals = [Removal(record, Reason.DUPLICATE, "")]
    scene.removals.decided([record], removals)
    scene.api.fault = Fault.UNANSWERED
    removing = asyncio.create_task(scene.removals.reconcile(record.meta.key))
    await asyncio.sleep(0)
    scene.removals.decided([record], removals)
    with pytest.raises(Unavailable):
        await removing
    scene.api.fault = None
    await scene.removals.reconcile(record.meta.key)

    assert not scene.is_live(record)
