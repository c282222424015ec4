"""A run has another name at the Lease of each shard, and works under that of its own."""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Mapping, Sequence

import attrs

from lbcf.core.model.shards import lease_name
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.leases import LEASES
from lbcf.process import Dependencies, Follower
from lbcf.process.dependencies import build_dependencies
from lbcf.process.host import Host
from lbcf.runtime.flags import BindAddress
from lbcf.runtime.health import Check
from lbcf.runtime.journal import Predecessor
from lbcf.settings import Settings
from tests.kube.tiny_api import TinyApi
from tests.monitoring.registries import NOWHERE


@attrs.define
class Waiter:
    """A program that reads nothing, and works until it is told to stop."""

    informers: Sequence[Follower] = ()
    ready: Mapping[str, Check] = attrs.Factory(dict)

    @contextlib.asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Do nothing beside."""
        yield

    async def work(
        self, stop: asyncio.Event, predecessor: Predecessor | None = None, /
    ) -> None:
        """Wait."""
        del predecessor
        await stop.wait()


async def _leading(parts: Dependencies, number: int) -> tuple[str, str]:
    """Lead the one shard that is free: the name in its Lease, and that of the work."""
    client = KubeClient(TinyApi())
    taken = {
        "metadata": {"name": lease_name("deregistrar", 1 - number)},
        "spec": {"holderIdentity": "host_other", "leaseDurationSeconds": 60},
    }
    await client.create(LEASES, parts.settings.namespace, taken)
    names: asyncio.Queue[str] = asyncio.Queue()

    def build(of_shard: Dependencies) -> Waiter:
        """Tell under which name a shard's work begins."""
        names.put_nowait(of_shard.incarnation)
        return Waiter()

    host = Host(attrs.evolve(parts, elections=client), build, asyncio.Event())
    running = asyncio.create_task(host.run())
    name = await names.get()
    key = ObjectKey(parts.settings.namespace, lease_name("deregistrar", number))
    lease = await client.get(LEASES, key)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return lease.run, name


async def test_what_is_noted_of_one_shard_is_no_word_on_another() -> None:
    """A Lease that it holds without its knowing has a name under which it never called."""
    nowhere = BindAddress("127.0.0.1", 0)
    settings = Settings("deregistrar", shards=2, probes=nowhere, metrics=nowhere)
    async with build_dependencies(settings, NOWHERE) as parts:
        first, second = [await _leading(parts, number) for number in (0, 1)]

    assert first[0] == first[1]
    assert second[0] == second[1]
    assert first != second
