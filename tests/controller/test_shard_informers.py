"""A shard follows its own namespaces, and the records at its shared load balancers."""

import asyncio

from datetime import timedelta
from typing import NoReturn

import attrs

from lbcf.controller.shard_informers import informers_of_shard
from lbcf.controller.view import View
from lbcf.core.model.shards import Shard
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import GROUPS, LOAD_BALANCERS, NAMESPACES, PODS, RECORDS
from lbcf.kube.requests import ApiRequest
from tests.e2e import objects
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import TinyApi


COUNT = 2
OWN, OTHER = (
    next(f"n{i}" for i in range(99) if Shard(shard, COUNT).has_namespace(f"n{i}"))
    for shard in range(COUNT)
)
SHARED = next(
    f"lbcf-{i}"
    for i in range(99)
    if Shard(0, COUNT).has(ObjectKey("kube-system", f"lbcf-{i}"))
)


class SlowPods(TinyApi):
    """Answers for a namespace's pods after all else."""

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Let a list of pods take a second."""
        if request.method == "GET" and request.path.endswith("/pods"):
            await asyncio.sleep(1)
        return await super().send(request, within)


@attrs.define
class Stage:
    """An API server that a shard follows."""

    api: TinyApi = attrs.Factory(TinyApi)
    view: View = attrs.Factory(lambda: View(Shard(0, COUNT)))
    client: KubeClient = attrs.field(init=False)
    clock: VirtualClock = attrs.Factory(VirtualClock)
    tasks: "list[asyncio.Task[NoReturn]]" = attrs.Factory(list)

    def __attrs_post_init__(self) -> None:
        self.client = KubeClient(self.api)

    async def put(self, namespace: str) -> None:
        """Create a namespace with a pod and a group."""
        await self.client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        await self.client.create(PODS, namespace, objects.a_pod("a"))
        await self.client.create(GROUPS, namespace, objects.a_group())

    async def follow(self) -> None:
        """Follow until all has been read."""
        informers = informers_of_shard(self.view, self.client, self.clock)
        # Held: the loop does not.
        self.tasks = [asyncio.create_task(one.run()) for one in informers]
        for one in informers:
            await one.synced.wait()

    async def passes(self) -> None:
        """Let watches tell."""
        await self.clock.sleep(timedelta(seconds=5))


def test_only_own_namespaces_are_held_also_those_that_come_later() -> None:
    """And nothing is left of one that is gone."""

    async def play() -> None:
        stage = Stage()
        await stage.put(OWN)
        await stage.put(OTHER)
        await stage.follow()
        assert [ObjectKey(OWN, "a")] == [p.meta.key for p in stage.view.pods.values()]
        assert [ObjectKey(OWN, "web")] == [
            g.meta.key for g in stage.view.groups.values()
        ]

        later = next(
            f"m{i}" for i in range(99) if Shard(0, COUNT).has_namespace(f"m{i}")
        )
        await stage.put(later)
        await stage.passes()
        assert {OWN, later} == {
            pod.meta.key.namespace for pod in stage.view.pods.values()
        }

        await stage.client.delete(NAMESPACES, ObjectKey("", later))
        await stage.passes()
        assert {OWN} == {pod.meta.key.namespace for pod in stage.view.pods.values()}

    run_virtual(play())


def test_groups_of_a_namespace_are_seen_after_its_pods() -> None:
    """A group without the pods that are there would lose its records."""

    async def play() -> None:
        stage = Stage(SlowPods())
        await stage.follow()
        seen: list[int] = []
        stage.view.groups.on_change(
            lambda _old, _new: seen.append(len(stage.view.pods))
        )
        await stage.put(OWN)
        await stage.passes()

        assert [1] == seen

    run_virtual(play())


def test_records_of_others_are_held_beside_where_the_load_balancer_is_ours() -> None:
    """Those of its name alone, and none of its own namespaces."""

    async def play() -> None:
        stage = Stage()
        await stage.put(OWN)
        await stage.put(OTHER)
        await stage.client.create(
            LOAD_BALANCERS, "kube-system", objects.a_load_balancer(SHARED, SHARED)
        )
        for namespace, balancer in ((OWN, SHARED), (OTHER, SHARED), (OTHER, "front")):
            await stage.client.create(RECORDS, namespace, _record(balancer))
        await stage.follow()
        key = ObjectKey("kube-system", SHARED)

        assert [ObjectKey(OTHER, f"r-{SHARED}")] == [
            one.meta.key for one in stage.view.others.values()
        ]
        assert {OWN, OTHER} == {
            one.meta.key.namespace for one in stage.view.records_at(key)
        }

    run_virtual(play())


def _record(balancer: str) -> dict[str, object]:
    """A record as it is created."""
    return {
        "metadata": {
            "name": f"r-{balancer}",
            "labels": {"lbcf.tkestack.io/lb-name": balancer},
        },
        "spec": {
            "lbName": balancer,
            "lbDriver": balancer,
            "lbInfo": {},
            "staticAddr": "10.0.0.1:80",
            "backendAddr": "10.0.0.1:80",
        },
    }
