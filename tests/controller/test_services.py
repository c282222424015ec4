"""Services in the controller: which are looked at, and which are let go of."""

import attrs
import msgspec
import pytest

from lbcf.controller.addresses import Addresses
from lbcf.controller.services import Services
from lbcf.controller.view import View
from lbcf.core.model import conditions, names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.nodes import NodePortService
from lbcf.core.model.resources import Meta
from lbcf.core.model.services import Exposure, GivenAddress, LoadBalancerClass
from lbcf.core.model.shards import Shard
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import ConditionReason, Reason
from lbcf.executor.services import ClassWriter, ServiceWriter
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import CLASSES, GROUPS, LOAD_BALANCERS, SERVICES
from lbcf.kube.list_watch import Removed
from lbcf.runtime.queue import WorkQueue
from lbcf.wire.kube import parse_service
from lbcf.wire.metadata import identity_of
from tests.builders import a_group, a_key, a_load_balancer, a_meta
from tests.controller.views import show
from tests.fairness.world import World
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import TinyApi
from tests.kube.tiny_rules import Json


SERVICE = "/api/v1/namespaces/shop/services/web"


def a_service(name: str, reason: ConditionReason) -> NodePortService:
    """A Service that says why it is where it is."""
    said = Condition(conditions.LOAD_BALANCER_READY, None, reason, "told", 1)
    exposure = Exposure(is_balanced=True, conditions=(said,))
    return NodePortService(a_meta(name), "LoadBalancer", exposure=exposure)


def services(view: View, queue: WorkQueue[ObjectKey], api: TinyApi) -> Services:
    """Make what takes Services through their life."""
    client, clock = KubeClient(api), VirtualClock()
    writer = ServiceWriter(
        ObjectWriter(client, SERVICES, view.services),
        ObjectWriter(client, LOAD_BALANCERS, view.load_balancers),
        ObjectWriter(client, GROUPS, view.groups),
    )
    classes = ClassWriter(ObjectWriter(client, CLASSES, view.classes))
    return Services(
        view,
        writer,
        client,
        EventRecorder(client, clock, controller="test", instance="test"),
        clock,
        addresses=Addresses(view, classes, client),
        queue=queue,
    )


def test_who_waits_for_an_address_is_looked_at_when_a_load_balancer_with_one_goes() -> (
    None
):
    """Its class may be gone, so that no record of it says that the address is back."""

    async def story() -> None:
        balancers = [
            attrs.evolve(a_load_balancer("with"), address="192.0.2.1"),
            a_load_balancer("without"),
        ]
        view = show(
            View(),
            a_service("served", Reason.READY),
            a_service("waits", Reason.ADDRESSES_EXHAUSTED),
            *balancers,
        )
        queue: WorkQueue[ObjectKey] = WorkQueue("services", VirtualClock())
        services(view, queue, TinyApi()).listen()
        while len(queue):
            queue.done(await queue.get())
        view.load_balancers.apply(Removed(identity_of(balancers[1].meta)))
        assert 0 == len(queue)
        view.load_balancers.apply(Removed(identity_of(balancers[0].meta)))
        assert 1 == len(queue)
        assert "waits" == (await queue.get()).name

    run_virtual(story())


def test_services_are_looked_at_that_are_gone_and_have_left_something() -> None:
    """They may have gone when nobody listened."""

    async def story() -> set[str]:
        view = View()
        balancer = attrs.evolve(a_load_balancer(), meta=exposes("a"))
        view.load_balancers.place(balancer)
        view.groups.place(attrs.evolve(a_group(), meta=exposes("b")))
        given = GivenAddress("192.0.2.1", a_key("c"), Uid("uid-c"))
        view.classes.place(LoadBalancerClass(a_meta("lb"), "proxy", given=(given,)))
        queue: WorkQueue[ObjectKey] = WorkQueue("services", VirtualClock())
        services(view, queue, TinyApi()).listen()
        return {(await queue.get()).name for _ in range(len(queue))}

    assert {"a", "b", "c"} == run_virtual(story())


def exposes(service: str) -> Meta:
    """Return the metadata of something that is derived from a Service."""
    return a_meta(f"of-{service}", labels={names.LABEL_EXPOSES: service})


@pytest.mark.parametrize(("kind", "left"), [("LoadBalancerReady", 0), ("Other", 1)])
def test_service_that_ends_is_let_go_of_though_somebody_took_the_mark_off(
    kind: str, left: int
) -> None:
    """What its status says of us shows whose finalizer that is; it may be a provider's."""

    async def story() -> None:
        api, view = TinyApi(), View()
        metadata = {
            "name": "web",
            "namespace": "shop",
            "uid": "u",
            "finalizers": [names.FINALIZER_SERVICE],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        }
        said = {"type": kind, "status": "True", "reason": "Ready", "message": "told"}
        spec = {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}]}
        whole: Json = {
            "metadata": metadata,
            "spec": spec,
            "status": {"loadBalancer": {}, "conditions": [said]},
        }
        show(view, parse_service(msgspec.json.encode(api.put(SERVICE, whole))))
        queue: WorkQueue[ObjectKey] = WorkQueue("services", VirtualClock())

        await services(view, queue, api).reconcile(ObjectKey("shop", "web"))

        assert left == [*api.objects].count(SERVICE)

    run_virtual(story())


@pytest.mark.parametrize("count", [2, 4])
def test_service_is_balanced_though_it_is_called_like_what_all_namespaces_share(
    count: int,
) -> None:
    """It is its namespace's: the shard that its name falls to does not see it."""
    service = ObjectKey("kube-system", "lbcf-web")
    shards = [Shard(number, count) for number in range(count)]
    assert not any(s.has(service) and s.has_namespace(service[0]) for s in shards)

    async def story() -> None:
        async with World() as world:
            kind = {"metadata": {"name": "lb"}, "spec": {"driver": "x", "lbSpec": {}}}
            world.api.put(CLASSES.path(ObjectKey("", "lb")), kind)
            ports = [{"port": 80, "protocol": "TCP", "targetPort": 80}]
            spec = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": ports}
            named = {"loadBalancerClass": f"{names.API_GROUP}/lb", **spec}
            world.api.put(SERVICES.path(service), {"metadata": {}, "spec": named})
            for shard in shards:
                world.lead(world.stand_by("controller", shard=shard))
            derived = LOAD_BALANCERS.path(ObjectKey(service[0], "svc-lbcf-web-80-tcp"))
            await world.until(lambda: derived in world.api.objects, 60)

    run_virtual(story())
