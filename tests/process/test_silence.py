"""When a process is to be started again because its watches tell nothing."""

import asyncio

from datetime import timedelta

import aiohttp
import pytest

from lbcf.kube.client import KubeClient
from lbcf.kube.connection import Connection
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import DRIVERS
from lbcf.kube.transport import Transport
from lbcf.process import silence_of
from lbcf.runtime.clock import SystemClock
from tests.fakes.clock import VirtualClock
from tests.monitoring.registries import a_host


@pytest.mark.parametrize(
    ("heard", "passed", "told"),
    [
        (False, 3600, None),
        (True, 299, None),
        (True, 301, "nothing heard from the API server for 301 s"),
    ],
    ids=["never", "lately", "long ago"],
)
def test_silent_watch_fails_the_probe(
    heard: bool, passed: float, told: str | None
) -> None:
    """A watch has bookmarks every minute, and is opened anew after 90 s without one."""
    clock = VirtualClock()
    nowhere = Transport(Connection("http://127.0.0.1:1"), clock)
    informer = Informer(KubeClient(nowhere), DRIVERS, clock)
    informer.last_heard = clock.monotonic() if heard else None
    clock.advance(timedelta(seconds=passed))

    assert told == silence_of(informer, clock)


@pytest.mark.parametrize("process", ["controller", "deregistrar"])
async def test_each_watch_is_behind_healthz(process: str) -> None:
    """One that fell silent is enough to have the process started again, and is named."""
    async with a_host(process) as host:
        beating = asyncio.create_task(host.loop_watch.run())
        await asyncio.sleep(0)
        async with host.probes() as bound, aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{bound.probes}/healthz"
            assert host.program is not None
            for informer in host.program.informers:
                assert isinstance(informer, Informer)
                now = SystemClock().monotonic()
                informer.last_heard = now
                async with session.get(url) as answer:
                    assert 200 == answer.status, await answer.text()

                informer.last_heard = now - 301
                async with session.get(url) as answer:
                    assert 500 == answer.status
                    said = await answer.text()
                assert f"[-]watch-{informer.resource.plural} failed" in said
                informer.last_heard = now
        beating.cancel()
