"""The quota of records: how many a namespace may have, and who gets room first."""

import asyncio

from datetime import timedelta

import attrs
import pytest

from lbcf.controller.record_quota import RecordQuota
from lbcf.core.errors import LbcfError
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.core.selection.plan import Plan, plan_group
from lbcf.kube.list_watch import Put, Removed
from lbcf.kube.store import Store
from lbcf.runtime.metrics import Metrics
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Failed, Result, Workers
from lbcf.wire.metadata import identity_of
from tests.builders import a_key, a_pod, a_record, a_snapshot
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual


WEB, API, OTHER = a_key("web"), a_key("api"), ObjectKey("elsewhere", "web")


def wanting(count: int) -> Plan:
    """Make a plan that creates so many records."""
    return plan_group(a_snapshot(*(a_pod(f"p{number}") for number in range(count))))


@attrs.define
class Scene:
    """A quota of four records, and whom it has looked at again."""

    most: int = 4
    records: Store[BackendRecord] = attrs.Factory(Store)
    looked: list[ObjectKey] = attrs.Factory(list)
    after: list[timedelta] = attrs.Factory(list)
    metrics: Metrics = attrs.Factory(Metrics)
    quota: RecordQuota = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        def look_after(group: ObjectKey, after: timedelta) -> None:
            self.looked.append(group)
            self.after.append(after)

        self.quota = RecordQuota(self.records, self.most, look_after, self.metrics)

    def come(self, *names: str) -> None:
        """Let the watch tell of records."""
        for name in names:
            self.records.apply(Put(a_record(name)))

    def go(self, *names: str) -> None:
        """Let the watch tell of their ends."""
        for name in names:
            found = self.records.get(a_key(name))
            assert found is not None
            self.records.apply(Removed(identity_of(found.meta)))

    def made(self, group: ObjectKey, count: int) -> int:
        """Say how many of so many records a group may create."""
        plan, _ = self.quota.consider(group, wanting(count))
        return len(plan.creates)

    def beyond(self, group: ObjectKey) -> float | None:
        """Read the metric."""
        labels = {"namespace": group.namespace, "group": group.name}
        return self.metrics.registry.get_sample_value(
            "lbcf_records_beyond_quota", labels
        )


def test_what_is_beyond_is_not_made_and_is_told() -> None:
    """The message names the namespace, both numbers, the flag, and what to do."""
    scene = Scene()
    scene.come("a")

    plan, (doubt,) = scene.quota.consider(WEB, wanting(5))

    assert 3 == len(plan.creates)
    assert Reason.RECORD_QUOTA_EXCEEDED == doubt.reason
    assert (
        "namespace shop has 1 BackendRecords; 2 of this group are not made, because "
        "--max-records-per-namespace allows 4: delete groups, or have the operator "
        "raise it"
    ) == doubt.message
    assert 2 == scene.beyond(WEB)


def test_what_is_there_stays() -> None:
    """A namespace that has more than is allowed loses none; it gets no more."""
    scene = Scene()
    scene.come("a", "b", "c", "d", "e", "f")
    updates = attrs.evolve(wanting(2), kept=6)

    plan, _ = scene.quota.consider(WEB, updates)

    assert () == plan.creates
    assert 6 == plan.kept


def test_namespaces_do_not_share() -> None:
    """A full namespace leaves another one all of its own."""
    scene = Scene()
    scene.come("a", "b", "c", "d")

    assert 0 == scene.made(WEB, 1)
    assert 4 == scene.made(OTHER, 4)


def test_groups_that_are_written_side_by_side_share() -> None:
    """What one group is creating is no room for another, until it is done."""
    scene = Scene()
    with scene.quota.booked(WEB, 3):
        assert 1 == scene.made(API, 2)
        assert [] == scene.looked
    # None of the three came about.

    assert [API] == scene.looked
    assert scene.after[0] > timedelta(0)
    assert 2 == scene.made(API, 2)


def test_who_waited_longest_gets_the_room_of_who_left() -> None:
    """One record goes, one group is looked at; with room left over the next one is."""
    scene = Scene()
    scene.come("a", "b", "c", "d")
    for group in (WEB, OTHER, API):
        scene.made(group, 5)
    scene.looked.clear()

    scene.go("a", "b")
    assert {WEB} == set(scene.looked)
    assert scene.quota.is_waiting(WEB)

    assert 1 == scene.made(WEB, 1)
    assert not scene.quota.is_waiting(WEB)
    assert API == scene.looked[-1]


def test_a_group_that_is_gone_waits_no_more() -> None:
    """Its series is gone, and the next one has its turn."""
    scene = Scene()
    scene.come("a", "b", "c", "d")
    scene.made(WEB, 1)
    scene.made(API, 1)
    scene.quota.forget(WEB)

    assert scene.beyond(WEB) is None
    assert 1 == scene.beyond(API)
    scene.go("a")
    assert [API] == scene.looked


@pytest.mark.parametrize("group", [WEB, OTHER], ids=str)
def test_no_quota_at_all(group: ObjectKey) -> None:
    """0 allows any number."""
    scene = Scene(most=0)
    scene.come("a", "b", "c", "d")

    assert 9 == scene.made(group, 9)
    assert () == scene.quota.consider(group, wanting(9))[1]


def test_creates_that_fail_are_not_repeated_without_a_pause() -> None:
    """Two groups that are refused wait for their own pauses, and for each other's room."""
    clock, scene = VirtualClock(), Scene()
    turns: list[ObjectKey] = []

    async def play() -> None:
        queue: WorkQueue[ObjectKey] = WorkQueue("groups", clock)
        quota = RecordQuota(scene.records, 4, queue.add_after, None)

        async def reconcile(group: ObjectKey) -> Result:
            turns.append(group)
            plan, _ = quota.consider(group, wanting(5))
            with quota.booked(group, len(plan.creates)):
                await asyncio.sleep(0.01)
            return Failed(LbcfError("403 Forbidden"))

        workers = Workers(queue, reconcile, 2, clock)
        workers.start()
        queue.add(WEB)
        queue.add(API)
        await asyncio.sleep(60)
        await workers.stop(timedelta(seconds=1))

    scene.come("a")
    run_virtual(play())

    assert {WEB, API} == set(turns)
    assert len(turns) < 40
