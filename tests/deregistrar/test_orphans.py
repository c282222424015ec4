"""Members that a person has confirmed to be nobody's are taken out, and no others."""

import asyncio

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

import attrs

from prometheus_client import CollectorRegistry

from lbcf.core.lifecycle.orphans import confirmation
from lbcf.core.model.access import Secret
from lbcf.core.model.names import ANNOTATION_REMOVE_ORPHANS
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import MemberKey
from lbcf.deregistrar.orphans import OrphanRemoval
from lbcf.drivers.client import DriverClient
from lbcf.drivers.errors import TimedOut
from lbcf.drivers.pool import DriverPool
from lbcf.executor import LoadBalancerCalls
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import RECORDS
from lbcf.kube.list_watch import Put
from lbcf.kube.store import Store
from lbcf.wire.driver import parse_request, render_answer
from lbcf.wire.driver_answers import (
    BackendAnswer,
    BackendState,
    ListBackendsAnswer,
    ListedBackend,
    Status,
)
from lbcf.wire.driver_requests import DeregisterBackendRequest
from tests.builders import a_driver, a_load_balancer, a_meta, seconds
from tests.ctl.servers import put
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import Fault, TinyApi


ORPHAN, OTHER, STRANGER = "uid-a", "uid-b", "uid-stranger"
LISTING = {Operation.LIST_BACKENDS.value: seconds(10)}
DRIVER = attrs.evolve(a_driver(), timeouts=LISTING)


class Wire(DriverClient):
    """The way to the driver of a scene."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    async def post(
        self,
        name: str,
        operation: Operation,
        body: bytes,
        timeout: timedelta,  # noqa: ASYNC109 - as the real one has it
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """List the members, or take one out."""
        assert name
        assert timeout
        assert headers
        scene, request = self._scene, parse_request(operation, body)
        await asyncio.sleep(0.1)
        if isinstance(request, DeregisterBackendRequest):
            scene.calls.append(request)
            scene.on_deregister()
            status = scene.answers.pop(request.record_id, Status.SUCC)
            if status is Status.SUCC:
                scene.members.pop(request.record_id, None)
            return render_answer(BackendAnswer(status=status, msg="as asked"))
        scene.lists += 1
        scene.on_list()
        backends = [
            ListedBackend(backend_addr=a, record_id=r, state=BackendState.ACTIVE)
            for r, a in scene.members.items()
        ]
        return render_answer(ListBackendsAnswer(epoch="e1", backends=backends))


class Pool(DriverPool):
    """The pool, with a scene's driver at the other end."""

    def __init__(self, scene: "Scene") -> None:
        super().__init__(scene.clock, CollectorRegistry())
        self._scene = scene

    def _connect(
        self, _driver: LoadBalancerDriver, _secrets: Mapping[str, Secret]
    ) -> DriverClient:
        """Return the wire to it."""
        return Wire(self._scene)


class Scene:
    """A load balancer with three members, an API server without a record, a deregistrar.

    Attributes:
        members: addresses by record.
        answers: what the driver says once instead of a success, by record.
        calls: of deregisterBackend.
        lists: how often members were listed.
    """

    def __init__(self, driver: LoadBalancerDriver = DRIVER) -> None:
        self.clock, self.api = VirtualClock(), TinyApi()
        self.members = {
            ORPHAN: "10.0.0.1:80",
            OTHER: "10.0.0.2:80",
            STRANGER: "10.0.0.3:80",
        }
        self.answers: dict[str, Status] = {}
        self.calls: list[DeregisterBackendRequest] = []
        self.lists = 0
        self.on_list: Callable[[], None] = lambda: None
        self.on_deregister: Callable[[], None] = lambda: None
        self._version = 1
        self.balancers: Store[LoadBalancer] = Store()
        self.drivers: Store[LoadBalancerDriver] = Store()
        self.drivers.apply(Put(driver))
        client = KubeClient(self.api)
        self.recorder = EventRecorder(
            client, self.clock, controller="test", instance="test"
        )
        self.removal = OrphanRemoval(
            client,
            self.balancers,
            self.drivers,
            LoadBalancerCalls(Pool(self), self.clock),
            recorder=self.recorder,
            clock=self.clock,
            metrics=None,
        )
        self.balancers.on_change(self.removal.load_balancer_changed)

    def order(self, *records: str, deleting: bool = False) -> None:
        """Let the watch tell of the annotation; of none where nothing is named."""
        self._version += 1
        said = {ANNOTATION_REMOVE_ORPHANS: confirmation(records)} if records else {}
        meta = a_meta(
            "front", version=self._version, annotations=said, deleting=deleting
        )
        self.balancers.apply(Put(attrs.evolve(a_load_balancer(), meta=meta)))

    def record(self, uid: str, namespace: str = "shop") -> None:
        """Let there be a record."""
        metadata = {"name": uid, "uid": uid, "namespace": namespace}
        spec = {"lbName": "front", "lbDriver": "proxy", "staticAddr": "10.0.0.1:80"}
        put(self.api, RECORDS, {"metadata": metadata, "spec": spec})

    @property
    def removed(self) -> list[str]:
        """The records whose members the driver was asked to take out."""
        return [call.record_id for call in self.calls]

    async def events(self) -> list[tuple[Any, ...]]:
        """Types, reasons and notes of the Events that were written."""
        await self.recorder.flush()
        found: list[Any] = [e for e in self.api.objects.values() if "note" in e]
        return [(e["type"], e["reason"], e["note"]) for e in found]


def played(
    story: Callable[[Scene], Awaitable[None]], driver: LoadBalancerDriver = DRIVER
) -> None:
    """Play a story in virtual time."""

    async def play() -> None:
        scene = Scene(driver)
        scene.removal.start()
        try:
            await story(scene)
        finally:
            await scene.removal.stop(seconds(0))

    run_virtual(play())


def test_exactly_what_was_confirmed_is_taken_out() -> None:
    """With the id, the address and the identity of the load balancer; told once."""

    async def story(scene: Scene) -> None:
        scene.order(ORPHAN, OTHER)
        await asyncio.sleep(5)

        assert {STRANGER} == set(scene.members)
        assert [ORPHAN, OTHER] == scene.removed
        call = scene.calls[0]
        assert ("10.0.0.1:80", {"id": "front"}, False) == (
            call.backend_addr,
            call.lb_info,
            call.drained,
        )
        assert call.not_after is not None
        note = "2 members were taken out: 10.0.0.1:80 of uid-a, 10.0.0.2:80 of uid-b"
        assert [("Normal", "OrphansRemoved", note)] == await scene.events()

    played(story)


def test_nothing_is_asked_without_an_order() -> None:
    """Nor of a load balancer that is being deleted: a driver might make it anew."""

    async def story(scene: Scene) -> None:
        scene.order()
        scene.order(ORPHAN, deleting=True)
        await asyncio.sleep(300)
        assert 0 == scene.lists

    played(story)


def test_member_of_a_record_that_exists_stays() -> None:
    """In any namespace: several LoadBalancers may be of one load balancer."""

    async def story(scene: Scene) -> None:
        scene.record(ORPHAN, "another")
        scene.order(ORPHAN, OTHER)
        await asyncio.sleep(300)

        assert [OTHER] == scene.removed
        assert {ORPHAN, STRANGER} == set(scene.members)

    played(story)


def test_records_are_listed_after_the_members() -> None:
    """Whoever is in the list of members had a record by then."""

    async def story(scene: Scene) -> None:
        scene.on_list = lambda: scene.record(ORPHAN)
        scene.order(ORPHAN)
        await asyncio.sleep(5)
        assert [] == scene.removed

    played(story)


def test_nothing_is_taken_out_while_records_cannot_be_listed() -> None:
    """Or one of them cannot be read: it may be the one that is named."""

    async def story(scene: Scene) -> None:
        scene.api.fault = Fault.UNSENT
        scene.order(ORPHAN)
        await asyncio.sleep(60)
        assert 1 < scene.lists
        scene.api.fault = None
        broken = {"metadata": {"name": "x", "uid": "x", "generation": "one"}}
        put(scene.api, RECORDS, {**broken, "spec": {}})
        await asyncio.sleep(300)
        assert [] == scene.removed
        scene.api.objects.clear()
        await asyncio.sleep(300)
        assert [ORPHAN] == scene.removed

    played(story)


def test_refused_member_is_asked_for_again_and_holds_up_no_other() -> None:
    """With pauses; the driver's words are told."""

    async def story(scene: Scene) -> None:
        scene.answers = {ORPHAN: Status.FAIL, OTHER: Status.RUNNING}
        scene.order(ORPHAN, OTHER)
        await asyncio.sleep(60)

        assert {STRANGER} == set(scene.members)
        assert [ORPHAN, OTHER] == scene.removed[:2]
        told = [reason for _, reason, _ in await scene.events()]
        assert "OrphansRemoved" in told

    played(story)


def test_driver_that_does_not_answer_is_asked_again() -> None:
    """Once at a time: the others would wait for the same time-out."""

    async def story(scene: Scene) -> None:
        def silent() -> None:
            raise TimedOut("no whole answer")

        scene.on_deregister = silent
        scene.order(ORPHAN, OTHER)
        await asyncio.sleep(1)
        assert [ORPHAN] == scene.removed
        [(kind, reason, note)] = await scene.events()
        assert ("Warning", "DriverTimedOut") == (kind, reason)
        assert "orphans stay: driver shop/proxy at deregisterBackend" in note
        scene.on_deregister = lambda: None
        await asyncio.sleep(10)
        assert {STRANGER} == set(scene.members)

    played(story)


def test_member_that_comes_back_is_taken_out_as_long_as_the_order_stands() -> None:
    """A registration without an answer may land late; without the order it is left."""

    async def story(scene: Scene) -> None:
        scene.order(ORPHAN)
        await asyncio.sleep(5)
        scene.members[ORPHAN] = "10.0.0.1:80"
        await asyncio.sleep(120)
        assert ORPHAN not in scene.members
        scene.order()
        scene.members[ORPHAN] = "10.0.0.1:80"
        await asyncio.sleep(300)
        assert [ORPHAN, ORPHAN] == scene.removed

    played(story)


def test_new_order_is_heeded_at_once() -> None:
    """Not after the pause of the one before."""

    async def story(scene: Scene) -> None:
        scene.order(ORPHAN)
        await asyncio.sleep(5)
        scene.order(OTHER)
        await asyncio.sleep(5)
        assert [ORPHAN, OTHER] == scene.removed

    played(story)


def test_order_that_is_taken_back_ends_at_once() -> None:
    """Who sees a mistake takes the annotation off."""

    async def story(scene: Scene) -> None:
        scene.on_deregister = scene.order
        scene.order(ORPHAN, OTHER)
        await asyncio.sleep(300)
        assert [ORPHAN] == scene.removed

    played(story)


def test_where_members_are_known_by_address_nothing_is_taken_out() -> None:
    """That is told once, and again for another order."""

    async def story(scene: Scene) -> None:
        scene.order(ORPHAN)
        await asyncio.sleep(1)
        await scene.recorder.flush()
        await asyncio.sleep(1000)
        [(kind, reason, note)] = await scene.events()
        assert "series" not in str(scene.api.objects)
        assert ("Warning", "OrphansKept") == (kind, reason)
        assert "(memberKey: Address)" in note
        assert 0 == scene.lists
        scene.order(OTHER)
        await asyncio.sleep(1)
        assert [] == scene.removed

    played(story, attrs.evolve(DRIVER, member_key=MemberKey.ADDRESS))
