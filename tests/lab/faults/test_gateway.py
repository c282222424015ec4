"""The gateway on a real API server: a clean mirror, and each trouble as it should be."""

import asyncio
import contextlib

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import attrs
import pytest

from lbcf.core.model.names import API_GROUP
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import Connection, connect
from lbcf.kube.errors import Expired, Unavailable
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import Resource
from lbcf.kube.list_watch import Selection
from lbcf.runtime.clock import SystemClock
from tests.e2e.objects import Whole, parse_whole
from tests.lab.cluster import Cluster
from tests.lab.faults.gateway import Gateway, asked_for, opened
from tests.lab.faults.history import Journal
from tests.lab.faults.troubles import Trouble
from tests.patience import PATIENCE


# ruff: noqa: ASYNC110 - what is waited for has no event

pytestmark = pytest.mark.cluster

MAPS = Resource("", "v1", "configmaps", "ConfigMap", parse_whole)
ROOT_CA = "kube-root-ca.crt"
"""A map that each namespace gets."""
SILENCE = timedelta(seconds=20)


@attrs.frozen
class Scene:
    """A process's way to the API server, and the one beside it."""

    namespace: str
    gateway: Gateway
    process: KubeClient
    direct: KubeClient

    def key(self, name: str) -> ObjectKey:
        """Name a map."""
        return ObjectKey(self.namespace, name)

    async def create(self, name: str, client: KubeClient | None = None) -> None:
        """Create a map; directly, if not said otherwise."""
        body = {"metadata": {"name": name}}
        await (client or self.direct).create(MAPS, self.namespace, body)

    async def names(self) -> list[str]:
        """What the process sees in all namespaces."""
        page = await self.process.list(MAPS)
        found = [whole.meta.key.name for whole in page.objects]
        return [name for name in found if name != ROOT_CA]

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[Informer[Whole]]:
        """Let the process follow its namespace."""
        informer = Informer(self.process, MAPS, SystemClock())
        task = asyncio.create_task(informer.run())
        try:
            async with asyncio.timeout(PATIENCE):
                await informer.synced.wait()
                while not self.gateway.troubles.open_watches:
                    await asyncio.sleep(0.02)
            yield informer
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def seen(self, informer: Informer[Whole], name: str) -> None:
        """Wait until the process has seen a map."""
        async with asyncio.timeout(PATIENCE):
            while informer.store.get(self.key(name)) is None:
                await asyncio.sleep(0.02)


@pytest.fixture(name="scene")
async def _scene(control_plane: Cluster, namespace: str) -> AsyncIterator[Scene]:
    """Return a namespace and two ways to it."""
    real = await connect(str(control_plane.kubeconfig))
    clock = SystemClock()
    async with (
        opened(real, namespace, Journal()) as gateway,
        connected(Connection(gateway.url), clock) as process,
        connected(real, clock) as direct,
    ):
        yield Scene(namespace, gateway, process, direct)


@pytest.mark.parametrize(
    ("path", "narrowed", "about"),
    [
        ("/api/v1/pods", "/api/v1/namespaces/n/pods", ("pods", "", "")),
        (
            f"/apis/{API_GROUP}/v1beta1/backendrecords",
            f"/apis/{API_GROUP}/v1beta1/namespaces/n/backendrecords",
            ("backendrecords", "", ""),
        ),
        (
            f"/apis/{API_GROUP}/v1beta1/namespaces/n/backendrecords/r/status",
            f"/apis/{API_GROUP}/v1beta1/namespaces/n/backendrecords/r/status",
            ("backendrecords", "r", "status"),
        ),
        ("/api/v1/nodes", "/api/v1/nodes", ("nodes", "", "")),
    ],
)
def test_paths_are_narrowed_to_the_namespace(
    path: str, narrowed: str, about: tuple[str, str, str]
) -> None:
    """All namespaces become the one; what is in one, or in none, stays."""
    asked = asked_for("GET", path, watch=False, namespace="n")

    assert (narrowed, *about) == (asked.path, asked.resource, asked.name, asked.sub)


async def test_process_sees_its_namespace_alone(
    scene: Scene, control_plane: Cluster
) -> None:
    """A list over all namespaces has only the one; so has a watch."""
    with control_plane.namespace() as other:
        await scene.direct.create(MAPS, other, {"metadata": {"name": "theirs"}})
        await scene.create("ours")
        async with scene.following() as informer:
            await scene.create("later")
            await scene.seen(informer, "later")
            assert informer.store.get(ObjectKey(other, "theirs")) is None

    assert ["later", "ours"] == sorted(await scene.names())


async def test_throttled_request_is_not_looked_at(scene: Scene) -> None:
    """429 comes first; the client's next attempt is passed on."""
    scene.gateway.troubles.expect(Trouble.THROTTLED, 1)

    await scene.create("a", scene.process)

    assert 1 == scene.gateway.troubles.met[Trouble.THROTTLED]


async def test_504_hides_a_write_that_took_place(scene: Scene) -> None:
    """The process does not know, and the object exists."""
    scene.gateway.troubles.expect(Trouble.APPLIED_504, 1)

    with pytest.raises(Unavailable) as trouble:
        await scene.create("a", scene.process)

    assert trouble.value.maybe_applied
    assert "a" == (await scene.direct.get(MAPS, scene.key("a"))).meta.key.name


async def test_reset_body_hides_a_write_that_took_place(scene: Scene) -> None:
    """Half an answer is none, and the object exists."""
    scene.gateway.troubles.expect(Trouble.RESET_BODY, 1)

    with pytest.raises(Unavailable) as trouble:
        await scene.create("a", scene.process)

    assert trouble.value.maybe_applied
    assert "a" == (await scene.direct.get(MAPS, scene.key("a"))).meta.key.name


async def test_old_list_is_told_once(scene: Scene) -> None:
    """The list after `age` is that of its moment; the next one is the present."""
    await scene.names()
    await scene.gateway.age()
    await scene.create("a")

    assert ([], ["a"]) == (await scene.names(), await scene.names())


async def test_watch_from_an_old_list_catches_up(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that starts in the past arrives in the present."""
    monkeypatch.setattr("tests.lab.faults.gateway.BEHIND", PATIENCE)
    await scene.names()
    await scene.gateway.age()
    await scene.create("a")
    async with scene.following() as informer:
        assert informer.store.get(scene.key("a")) is None
        scene.gateway.troubles.hold(0)
        await scene.seen(informer, "a")


async def test_held_watch_tells_later(scene: Scene) -> None:
    """Nothing is lost, everything is late."""
    async with scene.following() as informer:
        scene.gateway.troubles.hold(60)
        await scene.create("a")
        await asyncio.sleep(0.3)
        assert informer.store.get(scene.key("a")) is None
        scene.gateway.troubles.hold(0)
        await scene.seen(informer, "a")


async def test_unobserved_events_are_never_told(scene: Scene) -> None:
    """What came and went meanwhile was never there; what came and stayed is listed."""
    seen: set[str] = set()
    async with scene.following() as informer:
        informer.store.on_change(lambda _old, new: _remember(seen, new))
        scene.gateway.troubles.swallows = True
        await scene.create("short")
        await scene.direct.delete(MAPS, scene.key("short"))
        await scene.create("long")
        await scene.gateway.troubles.befall(Trouble.UNOBSERVED, 0.0, 1)
        await scene.seen(informer, "long")

    assert {"long"} == seen


def _remember(seen: set[str], new: Any) -> None:
    """Note the name of what is there."""
    if new is not None and new.meta.key.name != ROOT_CA:
        seen.add(new.meta.key.name)


@pytest.mark.parametrize(
    "trouble", [Trouble.CUT_WATCH, Trouble.GONE, Trouble.HALF_LINE]
)
async def test_broken_watch_goes_on(scene: Scene, trouble: Trouble) -> None:
    """Reset, too old, or cut in an event: the process sees what comes next."""
    async with scene.following() as informer:
        await scene.gateway.troubles.befall(trouble, 0.1, 1)
        await scene.create("a")
        await scene.create("b")
        await scene.seen(informer, "a")
        await scene.seen(informer, "b")

    assert scene.gateway.troubles.met[trouble]


async def test_too_old_watch_is_refused(scene: Scene) -> None:
    """410 as the API server would have it."""
    scene.gateway.troubles.expect(Trouble.GONE, 1)

    with pytest.raises(Expired):
        async with scene.process.watch(
            MAPS, Selection(), version="1", seconds=5, silence=SILENCE
        ):
            pass
