"""The API server restarts under an informer; it has a control plane of its own."""

import asyncio

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import connect
from lbcf.kube.errors import Expired, KubeError
from lbcf.kube.informer import Informer
from lbcf.kube.list_watch import Selection, lines_of, parse_event
from lbcf.runtime.clock import SystemClock
from tests.kube.builders import CONFIG_MAPS
from tests.kube.test_real_api import SILENCE, named
from tests.lab.cluster import Cluster, up


pytestmark = pytest.mark.cluster


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A control plane that nobody else needs."""
    cluster = up(tmp_path / "cluster", nodes=0)
    yield cluster
    cluster.down()


@pytest.fixture(name="client")
async def _client(cluster: Cluster) -> AsyncIterator[KubeClient]:
    """A client of it."""
    connection = await connect(str(cluster.kubeconfig))
    async with connected(connection, SystemClock()) as client:
        yield client


async def create(client: KubeClient, name: str) -> None:
    """Create a ConfigMap as soon as the server is back."""
    while True:
        try:
            await client.create(CONFIG_MAPS, "default", named(name))
        except KubeError:
            await asyncio.sleep(0.2)
        else:
            return


async def follow_version_one(client: KubeClient) -> None:
    """Watch from the beginning of time."""
    watching = client.watch(
        CONFIG_MAPS, Selection("default"), version="1", seconds=5, silence=SILENCE
    )
    async with watching as chunks:
        async for line in lines_of(chunks):
            parse_event(CONFIG_MAPS, line)


async def test_informer_lives_through_a_restart(
    cluster: Cluster, client: KubeClient
) -> None:
    """It goes on by itself; a version from before is forgotten by the new server."""
    await create(client, "before")
    informer = Informer(
        client, CONFIG_MAPS, SystemClock(), selection=Selection("default")
    )
    arrived = asyncio.Event()
    after = ObjectKey("default", "after")
    informer.store.on_change(
        lambda _old, new: arrived.set() if new and new.meta.key == after else None
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.synced.wait()
        await asyncio.to_thread(cluster.hold, "kube-apiserver")
        await asyncio.to_thread(cluster.release, "kube-apiserver")
        await create(client, "after")
        await arrived.wait()
        task.cancel()

    assert informer.store.get(ObjectKey("default", "before")) is not None
    with pytest.raises(Expired):
        await follow_version_one(client)
