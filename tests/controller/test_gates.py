"""The controller opens gates: when it looks, what it writes, and how often."""

import asyncio

from contextlib import suppress
from datetime import timedelta
from typing import cast

import attrs
import msgspec
import pytest

from lbcf.controller.bind_view import BindView
from lbcf.controller.first_checks import FirstChecks
from lbcf.controller.gates import ReadinessGates
from lbcf.controller.group_reader import GroupReader
from lbcf.controller.view import View
from lbcf.core.lifecycle.in_service import GRACE
from lbcf.core.model.cluster import Pod
from lbcf.core.model.names import API_GROUP
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, RecordSpec
from lbcf.core.model.values import Gate, ObjectKey
from lbcf.core.selection.plan import plan_group
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Conflict, Unavailable
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import PODS
from lbcf.kube.list_watch import Removed
from lbcf.kube.requests import ApiRequest
from lbcf.runtime.metrics import Metrics
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, RequeueAfter, Result
from lbcf.wire.kube import parse_pod
from lbcf.wire.metadata import identity_of
from tests.builders import (
    a_driver,
    a_group,
    a_load_balancer,
    a_pod,
    a_record,
    a_snapshot,
)
from tests.controller.views import everyday, obscure, show
from tests.e2e import objects
from tests.fakes.clock import VirtualClock
from tests.kube.tiny_api import Fault, TinyApi
from tests.kube.tiny_rules import Json


POD = "/api/v1/namespaces/shop/pods/web-1"
KEY = ObjectKey("shop", "web-1")
OURS = "lbcf.tkestack.io/registered"
EARLIER = {"type": "ContainersReady", "status": "True"}
WAITING = {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"}


@attrs.define
class Scene:
    """A pod with our gate, in an API server and in the view of a group's cluster."""

    api: TinyApi = attrs.Factory(TinyApi)
    view: View = attrs.Factory(everyday)
    clock: VirtualClock = attrs.Factory(VirtualClock)
    metrics: Metrics = attrs.Factory(Metrics)
    queue: WorkQueue[ObjectKey] = attrs.field(init=False)
    checks: FirstChecks = attrs.field(init=False)
    gates: ReadinessGates = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        client = KubeClient(self.api)
        self.queue = WorkQueue("gates", self.clock)
        self.checks = FirstChecks(self.view, self.clock)
        self.gates = ReadinessGates(
            self.view,
            ObjectWriter(client, PODS, self.view.pods),
            self.queue,
            groups=GroupReader(client, self.view),
            checks=self.checks,
            recorder=EventRecorder(
                client, self.clock, controller="test", instance="test"
            ),
            clock=self.clock,
            metrics=self.metrics,
        )
        self.gates.listen()

    def put(self, **labels: str) -> Pod:
        """Let the pod run, its containers ready."""
        metadata = {
            "name": "web-1",
            "namespace": "shop",
            "uid": a_pod().meta.uid,
            "labels": labels or {"app": "web"},
        }
        status = {
            "podIP": "10.0.0.1",
            "phase": "Running",
            "conditions": [EARLIER, WAITING],
        }
        spec = {"readinessGates": [{"conditionType": OURS}]}
        whole: Json = {"metadata": metadata, "spec": spec, "status": status}
        pod = parse_pod(msgspec.json.encode(self.api.put(POD, whole)))
        show(self.view, pod)
        return pod

    def register(self) -> None:
        """Let the pod's record be registered."""
        show(self.view, a_record(spec=self.spec(), registered=True, version=3))

    def write(self) -> BackendRecord:
        """Let the pod's record be written."""
        record = a_record(spec=self.spec(), version=2)
        show(self.view, record)
        return record

    def listed(self, word: str) -> None:
        """Let the load balancer be read: it says this of all its members."""
        key = a_load_balancer().meta.key
        words = {r.meta.uid: word for r in self.view.members_of(key)}
        self.checks.listed(key, words)

    def spec(self) -> RecordSpec:
        """Return what the pod is to be registered as."""
        pod = self.view.pods.get(KEY)
        assert pod is not None
        return plan_group(a_snapshot(pod)).creates[0].desired.spec

    async def work(self) -> list[Result]:
        """Work on all that is in the queue."""
        found = []
        while len(self.queue):
            key = await self.queue.get()
            try:
                found.append(await self.gates.reconcile(key))
            finally:
                self.queue.done(key)
        return found

    def conditions(self) -> list[Json]:
        """Return the pod's conditions as the API server has them."""
        status = cast("Json", self.api.objects[POD]["status"])
        return cast("list[Json]", status["conditions"])

    def reason(self) -> object:
        """Return why the gate is open, None where it is shut."""
        found = [c for c in self.conditions() if c["type"] == OURS]
        return found[0]["reason"] if found else None


@pytest.fixture(name="scene")
def _scene() -> Scene:
    return Scene()


async def test_gate_opens_with_the_last_registration(scene: Scene) -> None:
    """One write, which leaves the kubelet's conditions alone."""
    scene.put()
    scene.write()
    assert isinstance((await scene.work())[0], RequeueAfter)

    scene.register()
    before = scene.api.history.version
    await scene.work()

    assert "AllRegistered" == scene.reason()
    assert [EARLIER, WAITING] == scene.conditions()[:2]
    assert before + 1 == scene.api.history.version


async def test_open_gate_is_never_looked_at_again(scene: Scene) -> None:
    """The store has what was written, before the watch tells of it."""
    scene.put()
    scene.register()
    await scene.work()
    before = scene.api.history.version

    show(scene.view, a_record(spec=scene.spec(), version=4))

    assert [] == await scene.work()
    assert before == scene.api.history.version


async def test_pod_that_no_group_selects_is_freed(scene: Scene) -> None:
    """At once, when its containers are ready."""
    scene.put(app="other")
    await scene.work()

    assert "NoGroupSelects" == scene.reason()


@pytest.mark.parametrize("what", ["group", "load balancer"])
async def test_change_of_mind_frees_a_pod(scene: Scene, what: str) -> None:
    """Whoever made it wait may say that it need not."""
    scene.put()
    await scene.work()
    group = attrs.evolve(a_group(version=5, generation=2), gate=Gate.OPTIONAL)
    before = a_load_balancer(version=5, generation=2)
    balancer = attrs.evolve(before, gate=Gate.OPTIONAL)
    show(scene.view, group if what == "group" else balancer)
    await scene.work()

    assert "NothingRequired" == scene.reason()


async def test_group_that_is_gone_frees_a_pod(scene: Scene) -> None:
    """Nobody wants it any more."""
    scene.put()
    await scene.work()
    scene.view.groups.apply(Removed(identity_of(a_group().meta)))
    await scene.work()

    assert "NoGroupSelects" == scene.reason()


async def test_group_that_cannot_be_read_frees_nobody(scene: Scene) -> None:
    """It may select the pod."""
    obscure(scene.view.groups, ObjectKey("shop", "another"))
    scene.put(app="other")
    results = await scene.work()

    assert isinstance(results[0], RequeueAfter)
    assert scene.reason() is None


async def test_gate_opens_by_time_with_an_event(scene: Scene) -> None:
    """It is counted, for the alert."""
    scene.put()
    result = (await scene.work())[0]
    assert isinstance(result, RequeueAfter)

    scene.clock.advance(result.delay)
    scene.queue.add(KEY)
    assert [Done()] == await scene.work()

    assert "GateTimedOut" == scene.reason()
    labels = {"reason": "GateTimedOut"}
    assert 1 == scene.metrics.registry.get_sample_value(
        "lbcf_readiness_gates_opened_total", labels
    )


async def test_waiting_pods_are_counted(scene: Scene) -> None:
    """By namespace, and none once the gate is open."""
    scene.put()
    labels = {"namespace": "shop"}
    assert 1 == scene.metrics.registry.get_sample_value(
        "lbcf_readiness_gates_waiting", labels
    )

    scene.register()
    await scene.work()
    assert (
        scene.metrics.registry.get_sample_value("lbcf_readiness_gates_waiting", labels)
        is None
    )


async def test_pod_that_changed_meanwhile_is_read_again(scene: Scene) -> None:
    """The kubelet writes the same status: a conflict is no second write."""
    scene.put()
    scene.register()
    scene.api.put(POD, {**scene.api.objects[POD], "annotations": {}})

    with pytest.raises(Conflict):
        await scene.work()
    scene.queue.add(KEY)
    await scene.work()

    assert "AllRegistered" == scene.reason()


async def test_write_without_an_answer_is_not_repeated(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next look meets what was written."""
    scene.put()
    scene.register()
    send = scene.api.send

    async def without_answer(
        request: ApiRequest, within: timedelta | None = None
    ) -> bytes:
        """Lose the answer to a write."""
        answer = await send(request, within)
        if request.method == "PATCH":
            raise Unavailable(f"{request}: cut", sent=None)
        return answer

    with monkeypatch.context() as patches:
        patches.setattr(scene.api, "send", without_answer)
        with pytest.raises(Unavailable):
            await scene.work()
    written = scene.api.history.version
    for _ in range(2):
        scene.queue.add(KEY)
        with suppress(Conflict):
            await scene.work()

    assert "AllRegistered" == scene.reason()
    assert written == scene.api.history.version


@pytest.fixture(name="deaf")
def _deaf() -> Scene:
    """A scene in which no watch has told of any group or Bind."""
    view = View()
    BindView(view).listen()
    return Scene(view=show(view, a_driver(), a_load_balancer()))


GROUP = f"/apis/{API_GROUP}/v1beta1/namespaces/shop/backendgroups/web"
BIND = f"/apis/{API_GROUP}/v1/namespaces/shop/binds/both"


@pytest.mark.parametrize(
    ("path", "body"),
    [(GROUP, objects.a_group()), (BIND, objects.a_bind())],
    ids=["group", "Bind"],
)
async def test_group_that_no_watch_has_told_of_is_waited_for(
    deaf: Scene, path: str, body: Json
) -> None:
    """It was there before the pod; the view has it from then on."""
    deaf.api.put(path, body)
    deaf.put()
    await deaf.work()

    assert deaf.reason() is None
    assert 1 == len(deaf.view.groups)


async def test_second_group_that_no_watch_has_told_of_is_waited_for(
    scene: Scene,
) -> None:
    """Although the pod is registered wherever the first one wants it."""
    scene.put()
    scene.api.put(GROUP.replace("web", "side"), objects.a_group("side", lbs=("back",)))
    scene.register()
    await scene.work()

    assert scene.reason() is None


async def test_group_without_meaning_that_no_watch_has_told_of_frees_nobody(
    deaf: Scene,
) -> None:
    """It may select the pod."""
    deaf.api.put(GROUP, {"metadata": {}, "spec": ["not", "a", "spec"]})
    deaf.put()
    results = await deaf.work()

    assert isinstance(results[0], RequeueAfter)
    assert deaf.reason() is None


async def test_gate_stays_shut_while_groups_cannot_be_read(scene: Scene) -> None:
    """Nobody knows who wants the pod; it is tried again."""
    scene.put()
    scene.register()
    scene.api.fault = Fault.UNSENT
    with pytest.raises(Unavailable):
        await scene.work()
    scene.api.fault = None
    assert scene.reason() is None

    scene.queue.add(KEY)
    await scene.work()
    assert "AllRegistered" == scene.reason()


async def test_gates_of_a_namespace_are_decided_from_one_read(scene: Scene) -> None:
    """A rollout of many pods does not ask for each of them."""
    scene.put()
    scene.register()
    asks = (scene.gates.reconcile(KEY) for _ in range(3))
    # The first write is the only one that meets the version that all have read.
    await asyncio.gather(*asks, return_exceptions=True)

    assert "AllRegistered" == scene.reason()
    assert 1 == scene.api.requests.count(f"GET {GROUP.rpartition('/')[0]}")


@pytest.fixture(name="lister")
def _lister(scene: Scene) -> Scene:
    """A load balancer that tells of its members."""
    timeouts = {Operation.LIST_BACKENDS.value: timedelta(seconds=10)}
    show(scene.view, attrs.evolve(a_driver(version=9), timeouts=timeouts))
    return scene


async def test_gate_waits_for_first_checks_without_a_write(lister: Scene) -> None:
    """Until the load balancer lists the member as in service."""
    lister.put()
    lister.checks.answered(lister.write(), in_service=False)
    lister.register()
    await lister.work()
    lister.listed("DOWN")
    assert [] == await lister.work()
    assert lister.reason() is None
    before = lister.api.history.version

    lister.listed("")
    await lister.work()

    assert "AllRegistered" == lister.reason()
    assert before + 1 == lister.api.history.version


@pytest.mark.parametrize("said", [None, True])
async def test_gate_does_not_wait_where_no_checks_are_awaited(
    lister: Scene, said: bool | None
) -> None:
    """The driver said that the member serves, or nothing."""
    lister.put()
    lister.checks.answered(lister.write(), in_service=said)
    lister.register()
    await lister.work()

    assert "AllRegistered" == lister.reason()


async def test_nobody_waits_for_checks_that_nobody_tells_of(scene: Scene) -> None:
    """Without listBackends the end of the checks would never be heard."""
    scene.put()
    scene.checks.answered(scene.write(), in_service=False)
    scene.register()
    await scene.work()

    assert "AllRegistered" == scene.reason()


@pytest.mark.parametrize("is_listed", [True, False])
async def test_new_leader_reads_the_load_balancer_before_it_opens_a_gate(
    lister: Scene, is_listed: bool
) -> None:
    """It has not heard what the driver said; where no list comes, it waits no longer than 30 s."""
    lister.put()
    registered = a_record(spec=lister.spec(), registered=True, version=3)
    said = attrs.evolve(registered.status.conditions[-1], since=lister.clock.now())
    status = attrs.evolve(registered.status, conditions=(said,))
    show(lister.view, attrs.evolve(registered, status=status))
    result = (await lister.work())[0]
    assert RequeueAfter(GRACE) == result
    assert lister.reason() is None

    if is_listed:
        lister.listed("")
    else:
        lister.clock.advance(GRACE)
        lister.queue.add(KEY)
    await lister.work()

    assert "AllRegistered" == lister.reason()


async def test_member_that_was_heard_of_waits_longer_than_a_new_leader(
    lister: Scene,
) -> None:
    """Its driver said that it gets nothing yet: only its list, or the gate's time, ends that."""
    lister.put()
    lister.checks.answered(lister.write(), in_service=False)
    lister.register()
    await lister.work()
    lister.clock.advance(GRACE * 2)
    lister.queue.add(KEY)
    await lister.work()

    assert lister.reason() is None


async def test_nothing_is_kept_of_a_pod_that_is_gone(lister: Scene) -> None:
    """Of another pod of that name nothing was heard."""
    pod = lister.put()
    record = lister.write()
    lister.checks.answered(record, in_service=False)
    assert lister.checks.waits(record)
    lister.view.pods.apply(Removed(identity_of(pod.meta)))

    assert not lister.checks.waits(record)
