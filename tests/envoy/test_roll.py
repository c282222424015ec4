"""Envoys that are replaced one after the other: ready when they serve, and gone without a cut."""

import asyncio
import contextlib
import json
import re

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import attrs
import pytest

from aiohttp import ClientSession

from lbcf.sdk import RetryAfter
from tests.envoy.conftest import StartServer
from tests.envoy.proxy import Envoy
from tests.envoy.rig import BRIEF
from tests.envoy.shipped import (
    Probe,
    container,
    envoy_argv,
    objects,
    pod,
    probe,
    write_certificates,
)
from tests.envoy.stage import Stage
from tests.haproxy.waiting import until
from tests.haproxy.web import ask
from tests.lab.cluster.ports import free_ports
from webhooks.envoy.management import Files


FETCH = 30.0
"""Seconds after which Envoy goes on without clusters and listeners, where nothing is said."""


@attrs.define(eq=False)
class Rolled:
    """The Envoy of a pod, as the manifests start it.

    Attributes:
        child: its process.
        folder: of its files.
        ready, stop: what the kubelet asks it.
    """

    child: asyncio.subprocess.Process
    folder: Path
    ready: Probe
    stop: Probe

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, folder: Path, driver: int) -> AsyncIterator["Rolled"]:
        """Run it for a block; the driver is at a port of this machine."""
        (port,) = free_ports(1)
        where = f"socket_address: {{address: 127.0.0.1, port_value: {driver}}}"
        argv = envoy_argv(folder, where, port)
        said = container()
        with (folder / "log").open("wb") as log:
            child = await asyncio.create_subprocess_exec(*argv, stdout=log, stderr=log)
        hook = said["lifecycle"]["preStop"]["httpGet"]
        ready = probe(said["readinessProbe"]["httpGet"], port)
        try:
            yield cls(child, folder, ready, probe(hook, port))
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()

    @property
    def envoy(self) -> Envoy:
        """Whom to ask what it has."""
        return Envoy(self.folder, "n1")

    async def is_ready(self) -> bool:
        """Ask as the kubelet does."""
        assert self.child.returncode is None, self.envoy.log
        async with ClientSession() as kubelet:
            return await ask(kubelet, self.ready.url) == ""

    async def uptime(self) -> float:
        """How long it has run, in seconds."""
        with contextlib.suppress(aiohttp.ClientError):
            told = json.loads(await self.envoy.ask("/server_info"))
            return float(told["uptime_current_epoch"].rstrip("s"))
        return 0.0


def _files(folder: Path) -> Files:
    """Write certificates; return those of the driver."""
    write_certificates(folder)
    return Files(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")


async def _known(stage: Stage, address: str, owner: str = "lb") -> None:
    """Have a load balancer with a member in the driver's state; no Envoy is there yet."""
    driver = await stage.driver(patience=BRIEF)
    with pytest.raises(RetryAfter):
        await driver.create_load_balancer(stage.create(owner))
    with pytest.raises(RetryAfter):
        await driver.ensure_backend(stage.ensure("one", address))
    await driver.stop()


@pytest.mark.envoy
async def test_an_envoy_is_ready_with_its_configuration(
    stage: Stage, start_server: StartServer, client: ClientSession, tmp_path: Path
) -> None:
    """Not while the driver is away, and then with open ports; it stays so without the driver."""
    files = _files(tmp_path)
    await _known(stage, (await start_server("one")).address)

    async with Rolled.running(tmp_path, stage.relay.port) as rolled:

        async def has_waited() -> bool:
            return await rolled.uptime() > FETCH + 1

        await until(has_waited)
        assert not await rolled.is_ready()
        driver = await stage.driver(files=files)
        await until(rolled.is_ready)
        assert "one" == await ask(client, stage.url)
        mode = rolled.envoy.admin.stat().st_mode
        await driver.stop()

        async def is_alone() -> bool:
            told = await rolled.envoy.ask("/stats?filter=control_plane.connected_state")
            return "connected_state: 0" in told

        await until(is_alone)
        assert await rolled.is_ready()
        assert "one" == await ask(client, stage.url)

    assert 0o600 == mode & 0o777


@pytest.mark.envoy
async def test_a_port_that_is_taken_holds_up_no_readiness(
    stage: Stage, start_server: StartServer, client: ClientSession, tmp_path: Path
) -> None:
    """That load balancer is told; the others of the node are served."""
    files, server = _files(tmp_path), await start_server("one")
    await _known(stage, server.address)
    good = stage.listen
    taken = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    stage.listen = f"127.0.0.1:{taken.sockets[0].getsockname()[1]}"
    await _known(stage, server.address, "other")
    await stage.driver(files=files)

    async with Rolled.running(tmp_path, stage.relay.port) as rolled:
        await until(rolled.is_ready)
        assert "one" == await ask(client, f"http://{good}/")
    taken.close()


@pytest.mark.envoy
async def test_an_envoy_that_ends_cuts_no_request(
    stage: Stage, start_server: StartServer, client: ClientSession, tmp_path: Path
) -> None:
    """New connections are refused, so that they go elsewhere; the hook lasts meanwhile."""
    files, server = _files(tmp_path), await start_server("one")
    await _known(stage, server.address)
    await stage.driver(files=files)

    async with Rolled.running(tmp_path, stage.relay.port) as rolled:
        await until(rolled.is_ready)
        stranger = await ask(client, rolled.stop.url)
        slow = asyncio.create_task(client.get(f"{stage.url}slow"))

        async def is_held() -> bool:
            return server.waiting == 1

        await until(is_held)
        hook = asyncio.create_task(
            client.get(rolled.stop.url, headers=rolled.stop.headers)
        )

        async def is_closed() -> bool:
            async with ClientSession() as other:
                return await ask(other, stage.url) == "ClientConnectorError"

        await until(is_closed)
        is_ready, is_over = await rolled.is_ready(), hook.done()
        server.release()
        answer = await slow
        text, said = await answer.text(), await hook
        rolled.child.terminate()
        ended = await rolled.child.wait()

    assert "404" == stranger
    assert not is_ready
    assert not is_over
    assert "one" == text
    assert "close" == answer.headers["Connection"]
    assert 200 == said.status
    assert 0 == ended


def test_the_grace_period_is_longer_than_the_hook() -> None:
    """Else the kubelet ends Envoy in the middle of it."""
    text = objects("proxies.yaml")["ConfigMap"]["data"]["envoy.yaml"]
    (seconds,) = re.findall(r"fixed_delay: (\d+)s", text)
    grace = pod(objects("proxies.yaml")["DaemonSet"])["terminationGracePeriodSeconds"]

    assert int(seconds) + 5 < grace
