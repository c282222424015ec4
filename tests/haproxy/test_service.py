"""The driver as a process: flags, HTTP, an orderly end."""

import asyncio
import contextlib
import signal

from pathlib import Path

import pytest

from aiohttp import ClientSession

from tests.haproxy.conftest import StartServer
from tests.haproxy.driver_process import DRIVER, HERE, asked
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import NO_CHECK, an_identity
from tests.haproxy.web import ask
from tests.webhooks.processes import running
from tests.webhooks.requests import RECORD


@pytest.mark.haproxy
async def test_a_life_over_http(
    proxy: Haproxy, start_server: StartServer, client: ClientSession
) -> None:
    """A member is registered, drained and deregistered by a process of its own."""
    server = await start_server("served")
    body: dict[str, object] = {
        "recordID": RECORD,
        "retryID": "1",
        "lbInfo": an_identity(proxy),
        "backendAddr": server.address,
        "parameters": NO_CHECK,
    }
    seen = []
    async with running(DRIVER, *HERE, "--allow-sockets", proxy.socket) as driver:
        for operation in ("ensureBackend", "drainBackend", "deregisterBackend"):
            url = f"{driver.url}/{operation}"
            seen.append(await asked(client, url, body | {"drained": True}))
            seen.append(await ask(client, proxy.url))
        driver.child.send_signal(signal.SIGTERM)
        status = await driver.child.wait()

    assert ["Succ", "served", "Succ", "503", "Succ", "503"] == seen
    assert [] == await proxy.ours()
    assert 0 == status


@pytest.mark.haproxy
async def test_another_prefix(proxy: Haproxy, client: ClientSession) -> None:
    """The prefix of the flag is that of the servers' names."""
    body = {"recordID": RECORD, "lbInfo": an_identity(proxy)}
    flags = (*HERE, "--allow-sockets", "/tmp/*/admin.sock", "--name-prefix", "team_a")
    async with running(DRIVER, *flags) as driver:
        url = f"{driver.url}/ensureBackend"
        await asked(client, url, body | {"backendAddr": "127.0.1.1:1"})

    assert [f"team_a-{RECORD}"] == await proxy.ours()


async def test_other_sockets_are_not_opened(client: ClientSession) -> None:
    """Without a flag, a load balancer can name sockets of HAProxy's folder alone."""
    body = {"lbSpec": {"sockets": "/var/run/docker.sock", "backend": "web"}}
    async with running(DRIVER) as driver:
        url = f"{driver.url}/validateLoadBalancer"
        async with client.post(url, json=body) as response:
            answer = await response.json()

    assert not answer["succ"]
    assert "--allow-sockets" in answer["msg"]


async def test_without_haproxy_tests_fail_and_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without HAProxy does not skip these tests: it is told what to do."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(FileNotFoundError, match="run `make packages`"):
        await Haproxy.start(tmp_path)


@pytest.mark.haproxy
async def test_a_haproxy_that_answers_nobody_is_ended(proxy: Haproxy) -> None:
    """It alone: these tests do not need to ask it who its worker is."""
    async with contextlib.AsyncExitStack() as stack:
        held = []
        for _ in range(10):
            reader, writer = await asyncio.open_unix_connection(proxy.socket)
            stack.callback(writer.close)
            held.append(reader)

        await proxy.stop()
        left = [await _rest(reader) for reader in held]

    assert [b""] * 10 == left


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """Read to the end; one that was never taken is reset where it waited."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
