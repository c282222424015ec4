"""What a plan creates: written at once, unless somebody else keeps deleting it."""

import contextlib

from collections.abc import Iterator
from datetime import timedelta

import attrs
import pytest

from lbcf.controller.apply import Applier, Written
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.core.selection.plan import Plan, Removal, plan_group
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import RECORDS
from lbcf.kube.store import Store
from tests.builders import a_pod, a_snapshot
from tests.fakes.clock import VirtualClock
from tests.kube.tiny_api import TinyApi


class Nobody:
    """Takes records up, and does nothing."""

    @contextlib.contextmanager
    def expecting(self, key: ObjectKey) -> Iterator[None]:
        """Leave a record alone: that is all."""
        _ = key
        yield

    def take_up(self, written: Written) -> None:
        """Go on with nothing."""


@attrs.define
class Scene:
    """A group, in an API server and in a view of it."""

    api: TinyApi = attrs.Factory(TinyApi)
    client: KubeClient = attrs.field(init=False)
    records: Store[BackendRecord] = attrs.Factory(Store)
    clock: VirtualClock = attrs.Factory(VirtualClock)
    applier: Applier = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.client = KubeClient(self.api)
        self.applier = Applier(
            ObjectWriter(self.client, RECORDS, self.records), self.clock, Nobody()
        )

    def plan(self, *pods: str) -> Plan:
        """Decide about the group while these pods are ready."""
        view = tuple(self.records.values())
        return plan_group(a_snapshot(*map(a_pod, pods), records=view))

    async def apply(self, *pods: str) -> timedelta | None:
        """Plan, and write what is to be created."""
        plan = self.plan(*pods)
        self.applier.withdraw(plan.removals)
        return await self.applier.apply(plan)

    async def delete_all(self) -> None:
        """Delete every record, as another controller does or a user."""
        for record in self.live():
            left = await self.client.delete(
                RECORDS, record.meta.key, uid=record.meta.uid
            )
            assert left is not None
            self.records.observe(left)

    def live(self) -> list[BackendRecord]:
        """Return the records that nobody has deleted."""
        return [r for r in self.records.values() if not r.is_deleting]

    def live_pods(self) -> set[str]:
        """Say which pods have one."""
        return {getattr(record.spec.backend, "name", "") for record in self.live()}


@pytest.fixture(name="scene")
def _scene() -> Scene:
    """Give a scene."""
    return Scene()


async def test_deleted_record_is_created_again_at_once(scene: Scene) -> None:
    """As it is after `kubectl delete br`."""
    await scene.apply("a")
    await scene.delete_all()

    assert await scene.apply("a") is None
    assert {"a"} == scene.live_pods()


async def test_record_that_is_deleted_again_and_again_waits(scene: Scene) -> None:
    """It alone: what else the plan creates is created, and it is itself in time."""
    for _ in range(2):
        await scene.apply("a")
        await scene.delete_all()

    rest = await scene.apply("a", "b")
    meanwhile = scene.live_pods()
    assert rest is not None
    scene.clock.advance(rest)
    again = await scene.apply("a", "b")

    assert {"b"} == meanwhile
    assert rest < timedelta(seconds=2)
    assert again is None
    assert {"a", "b"} == scene.live_pods()


async def test_record_that_the_plan_itself_removes_never_waits(scene: Scene) -> None:
    """Its pod flaps."""
    for _ in range(9):
        assert await scene.apply("a") is None
        assert {"a"} == scene.live_pods()
        assert await scene.apply() is None
        await scene.delete_all()


async def test_removal_with_a_successor_never_waits(scene: Scene) -> None:
    """One plan has both where a pod has got another address."""
    for number in range(9):
        pod = attrs.evolve(a_pod("a"), address=f"10.0.0.{number}")
        view = tuple(scene.records.values())
        plan = plan_group(a_snapshot(pod, records=view))
        scene.applier.withdraw(plan.removals)
        assert await scene.applier.apply(plan) is None
        for removal in plan.removals:
            await remove(scene, removal)
        assert 1 == len(scene.live())


async def remove(scene: Scene, removal: Removal) -> None:
    """Delete a record that a plan removes."""
    meta = removal.record.meta
    left = await scene.client.delete(RECORDS, meta.key, uid=meta.uid)
    assert left is not None
    scene.records.observe(left)
