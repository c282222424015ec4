"""The HAProxy of the quickstart, first process of its container, when its pod is deleted."""

import asyncio
import contextlib
import json
import os
import re
import signal
import tarfile

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import attrs
import pytest
import yaml

from aiohttp import ClientSession

from tests.haproxy.waiting import until
from tests.haproxy.web import WebServer, ask
from tests.lab.cluster.ports import free_ports
from tests.lab.installed.images import haproxy
from tests.lab.installed.install import MANIFESTS
from tests.patience import PATIENCE


pytestmark = pytest.mark.haproxy

EXAMPLE = MANIFESTS / "quickstart" / "example-haproxy.yaml"
HARD_STOP = re.compile(r"hard-stop-after (\d+)s")


def objects() -> dict[str, Any]:
    """Return HAProxy's own objects of the example, by kind."""
    every = yaml.safe_load_all(EXAMPLE.read_text())
    return {one["kind"]: one for one in every if one["metadata"]["name"] == "haproxy"}


def stop_signal(folder: Path) -> signal.Signals:
    """Return what the nodes' image of HAProxy is sent when its pod is deleted."""
    with tarfile.open(haproxy(folder, "haproxy:test")) as archive:

        def read(name: str) -> Any:
            content = archive.extractfile(name)
            assert content is not None
            return json.load(content)

        [manifest] = read("manifest.json")
        config = read(manifest["Config"])["config"]
    return signal.Signals[config.get("StopSignal", "SIGTERM")]


@attrs.define(eq=False)
class Container:
    """HAProxy as the first process of a PID namespace, which heeds no default action.

    Attributes:
        web, runtime: its ports on 127.0.0.1.
    """

    web: int
    runtime: int
    _signal: signal.Signals
    _unshare: asyncio.subprocess.Process

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls, folder: Path, server: str, hard_stop: str = ""
    ) -> AsyncIterator[Self]:
        """Run what the example runs, in front of one server.

        Args:
            folder: for its configuration.
            server: its address.
            hard_stop: in the place of what the example says; empty: that.
        """
        found, (web, runtime) = objects(), free_ports(2)
        text = found["ConfigMap"]["data"]["haproxy.cfg"]
        for port, free in ((8080, web), (9999, runtime)):
            text = text.replace(f"*:{port}", f"127.0.0.1:{free}")
        text = HARD_STOP.sub(hard_stop, text) if hard_stop else text
        path = folder / "haproxy.cfg"
        path.write_text(f"{text}  server one {server}\n")
        [spec] = found["Deployment"]["spec"]["template"]["spec"]["containers"]
        command = [
            str(path) if one.endswith(".cfg") else one for one in spec["command"]
        ]
        unshare = await asyncio.create_subprocess_exec(
            *("unshare", "--pid", "--fork", "--kill-child", "--", *command)
        )
        container = cls(web, runtime, stop_signal(folder), unshare)
        try:
            await until(container.takes_connections)
            yield container
        finally:
            with contextlib.suppress(ProcessLookupError):
                unshare.kill()
            await unshare.wait()

    async def takes_connections(self) -> bool:
        """Return whether it listens."""
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.web)
        except OSError:
            return False
        writer.close()
        await writer.wait_closed()
        return True

    async def has_closed(self) -> bool:
        """Return whether it listens no more."""
        return not await self.takes_connections()

    def stop(self) -> None:
        """Delete the pod."""
        pid = self._unshare.pid
        [first] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(int(first), self._signal)

    async def ended(self) -> None:
        """Wait until it has ended by itself."""
        async with asyncio.timeout(PATIENCE):
            await self._unshare.wait()


async def test_requests_end_and_then_it_does(tmp_path: Path) -> None:
    """It takes no new ones, and waits for nobody who has sent none."""
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(WebServer.running("s", "127.0.1.1"))
        running = Container.running(tmp_path, server.address)
        container = await stack.enter_async_context(running)
        client = await stack.enter_async_context(ClientSession())
        url = f"http://127.0.0.1:{container.web}"
        under_way = asyncio.create_task(ask(client, f"{url}/slow"))

        async def is_held() -> bool:
            return server.waiting == 1

        await until(is_held)
        _, idle = await asyncio.open_connection("127.0.0.1", container.web)
        stack.callback(idle.close)
        container.stop()
        await until(container.has_closed)
        server.release()

        assert "s" == await under_way
        await container.ended()


async def test_who_holds_on_is_cut_off_before_the_pod_is_killed(tmp_path: Path) -> None:
    """Such as somebody with a prompt at the runtime API."""
    found = objects()
    [after] = HARD_STOP.findall(found["ConfigMap"]["data"]["haproxy.cfg"])
    spec = found["Deployment"]["spec"]["template"]["spec"]
    assert int(after) < spec["terminationGracePeriodSeconds"]

    async with Container.running(tmp_path, "127.0.1.1:1", "hard-stop-after 1s") as one:
        reader, writer = await asyncio.open_connection("127.0.0.1", one.runtime)
        with contextlib.closing(writer):
            writer.write(b"prompt\n")
            assert await reader.readuntil(b"> ")
            one.stop()

            await one.ended()
