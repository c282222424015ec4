"""A group tells whether its members are sent traffic, with the rest of its status."""

import asyncio

from typing import Any

import attrs
import pytest
import structlog

from lbcf.controller.group_status import GroupStatusReconciler
from lbcf.controller.view import View
from lbcf.core.lifecycle.in_service import (
    in_service,
    with_in_service,
)
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendGroup, BackendRecord, GroupStatus
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import BINDS, GROUPS
from lbcf.kube.list_watch import Put
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Workers
from tests.builders import START, a_key, a_load_balancer, a_pod, a_record, seconds
from tests.e2e import objects
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import Fault, TinyApi


class Scene:
    """A group, its status, and the Events about it."""

    def __init__(self) -> None:
        self.api, self.clock, self.view = TinyApi(), VirtualClock(), View()
        self.client = KubeClient(self.api)
        self.version = 1
        self.recorder = EventRecorder(
            self.client, self.clock, controller="test", instance="test"
        )
        self.status = GroupStatusReconciler(
            self.view,
            ObjectWriter(self.client, GROUPS, self.view.groups),
            ObjectWriter(self.client, BINDS, self.view.binds),
            self.recorder,
            self.clock,
        )
        self.view.records.on_change(self.status.record_changed)

    async def begin(self, *pods: Any) -> None:
        """Let there be the group with these pods, behind a load balancer that answers."""
        group = await self.client.create(GROUPS, "shop", objects.a_group())
        self.view.groups.apply(Put(group))
        said = (Condition(conditions.REACHABLE, True, Reason.REACHABLE),)
        front = attrs.evolve(a_load_balancer(), conditions=said)
        self.view.load_balancers.apply(Put(front))
        for pod in pods:
            self.view.pods.apply(Put(pod))

    def told(self, name: str, word: str | None) -> None:
        """Let the load balancer say this of a member; None: it says nothing new."""
        self.version += 1
        record: BackendRecord = a_record(name, registered=True, version=self.version)
        if word is not None:
            record = with_in_service(record, in_service(record, word), START)
        self.view.records.apply(Put(attrs.evolve(record, group=a_key("web"))))

    async def written(self) -> GroupStatus:
        """Return what is written of the group next."""
        self.clock.advance(seconds(10))
        await self.status.reconcile(a_key("web"))
        await self.recorder.flush()
        found: BackendGroup = await self.client.get(GROUPS, a_key("web"))
        return found.status

    def events(self) -> list[tuple[Any, Any, Any]]:
        """Return type, reason and text of all Events that speak of being in service."""
        found = [dict(one) for one in self.api.objects.values() if "note" in one]
        return [
            (one["type"], one["reason"], one["note"])
            for one in found
            if str(one["reason"]).startswith("Members")
        ]


@pytest.fixture(name="scene")
def _scene() -> Scene:
    """Return one without objects."""
    return Scene()


async def test_members_in_service_are_counted_and_their_changes_told(
    scene: Scene,
) -> None:
    """Each once, as a Warning when they are down, and not where it was a flicker."""
    await scene.begin(a_pod("web-1"), a_pod("web-2"))
    scene.told("web-1", None)
    scene.told("web-2", None)
    assert 2 == (await scene.written()).in_service

    scene.told("web-1", "DOWN")
    assert 1 == (await scene.written()).in_service
    scene.told("web-1", "MAINT")
    scene.told("web-2", "DOWN")
    scene.told("web-2", "")
    await scene.written()
    scene.told("web-1", "")
    assert 2 == (await scene.written()).in_service

    name = "web-1:8080"
    assert [
        ("Warning", "MembersDown", f"1 backend out of service: {name}"),
        ("Normal", "MembersBack", f"1 backend back in service: {name}"),
    ] == scene.events()


async def test_group_without_anybody_in_service_says_so(scene: Scene) -> None:
    """And says it no more once somebody is."""
    await scene.begin(a_pod("web-1"))
    scene.told("web-1", "DOWN")
    found = (await scene.written()).conditions
    down = conditions.find(found, conditions.SERVING)
    scene.told("web-1", "")
    found = (await scene.written()).conditions
    back = conditions.find(found, conditions.SERVING)

    assert down is not None
    assert (False, "AllMembersDown") == (down.status, down.reason)
    assert back is not None
    assert (True, "Serving") == (back.status, back.reason)


async def test_pods_on_their_way_out_are_not_selected(scene: Scene) -> None:
    """A group of which only those are left selects nothing."""
    await scene.begin(a_pod("web-1"), a_pod("web-2", deleting=True))
    assert 1 == (await scene.written()).backends

    scene.view.pods.apply(Put(a_pod("web-1", deleting=True, version=2)))
    found = await scene.written()
    said = conditions.find(found.conditions, conditions.SERVING)

    assert 0 == found.backends
    assert said is not None
    assert (False, "NothingSelected") == (said.status, said.reason)


def test_status_that_cannot_be_written_is_tried_ever_more_seldom() -> None:
    """The pause that a group has after each write is no success."""

    async def story() -> None:
        scene = Scene()
        await scene.begin(a_pod("web-1"))
        scene.api.fault = Fault.UNSENT
        queue: WorkQueue[ObjectKey] = WorkQueue("group-statuses", scene.clock)
        workers = Workers(queue, scene.status.reconcile, 1, scene.clock)
        workers.start()
        queue.add(a_key("web"))
        await asyncio.sleep(600)
        await workers.stop(seconds(1))

    with structlog.testing.capture_logs() as logs:
        run_virtual(story())

    failed = [one for one in logs if one["event"] == "reconcile.failed"]
    assert 5 <= len(failed) <= 15
