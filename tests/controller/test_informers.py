"""A shard follows its own namespaces, and the records at its shared load balancers."""

import asyncio

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import NoReturn

import attrs

from lbcf.controller.informers import informers_of
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
(OWN, OWN_LATER), (OTHER, OTHER_LATER) = (
    [f"n{i}" for i in range(99) if Shard(shard, COUNT).has_namespace(f"n{i}")][:2]
    for shard in range(COUNT)
)
SHARED = next(
    f"lbcf-{i}"
    for i in range(99)
    if Shard(0, COUNT).has(ObjectKey("kube-system", f"lbcf-{i}"))
)


class Watched(TinyApi):
    """Notes what its watches tell."""

    told = b""

    @asynccontextmanager
    async def stream(
        self, request: ApiRequest, silence: timedelta
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch."""
        async with super().stream(request, silence) as chunks:

            async def noted() -> AsyncIterator[bytes]:
                async for chunk in chunks:
                    self.told += chunk
                    yield chunk

            yield noted()


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
        informers = informers_of(self.view, self.client, self.clock)
        # Held: the loop does not.
        self.tasks = [asyncio.create_task(one.run()) for one in informers]
        for one in informers:
            await one.synced.wait()

    def held(self) -> set[str]:
        """Return the namespaces of pods, and those of groups: they are the same."""
        pods = {pod.meta.key.namespace for pod in self.view.pods.values()}
        assert pods == {group.meta.key.namespace for group in self.view.groups.values()}
        return pods

    async def passes(self) -> None:
        """Let watches tell."""
        await self.clock.sleep(timedelta(seconds=5))


def test_only_own_namespaces_are_held_also_those_that_come_later() -> None:
    """Of a namespace of another shard that comes later watches tell; nothing is held."""

    async def play() -> None:
        stage = Stage()
        await stage.put(OWN)
        await stage.put(OTHER)
        await stage.follow()
        assert {OWN} == stage.held()

        await stage.put(OWN_LATER)
        await stage.put(OTHER_LATER)
        await stage.passes()
        assert {OWN, OWN_LATER} == stage.held()

        await stage.client.delete(PODS, ObjectKey(OWN_LATER, "a"))
        await stage.client.delete(GROUPS, ObjectKey(OWN_LATER, "web"))
        await stage.passes()
        assert {OWN} == stage.held()

    run_virtual(play())


def test_nothing_is_sent_of_other_namespaces_that_were_there() -> None:
    """Each list and each watch names them as left out, beside what it leaves out anyway."""

    async def play() -> None:
        api = Watched()
        stage = Stage(api)
        await stage.put(OWN)
        await stage.put(OTHER)
        await stage.follow()
        for namespace in (OWN, OTHER):
            await stage.client.create(PODS, namespace, objects.a_pod("later"))
        ended = {**objects.a_pod("ended"), "status": {"phase": "Failed"}}
        await stage.client.create(PODS, OWN, ended)
        await stage.passes()

        assert f'"namespace":"{OWN}"'.encode() in api.told
        assert f'"namespace":"{OTHER}"'.encode() not in api.told
        assert b'"ended"' not in api.told

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
