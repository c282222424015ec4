"""The driver as a process of its own."""

import asyncio
import contextlib
import json
import sys

from collections.abc import AsyncIterator

import attrs

from aiohttp import ClientSession

from tests.haproxy.waiting import until


HERE = ("--allow-addresses", "127.0.0.0/8")


@attrs.frozen
class RunningDriver:
    """A running driver and where it listens."""

    child: asyncio.subprocess.Process
    url: str


async def started(*flags: str) -> asyncio.subprocess.Process:
    """Start the driver with these flags."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "webhooks.haproxy", *flags, stderr=asyncio.subprocess.PIPE
    )


@contextlib.asynccontextmanager
async def serving(*flags: str) -> AsyncIterator[RunningDriver]:
    """Run the driver on a free port."""
    child = await started("--bind-address", "127.0.0.1:0", *flags)
    assert child.stderr is not None
    try:
        event = json.loads(await child.stderr.readline())
        yield RunningDriver(child, f"http://{event['addresses'][0]}")
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def asked(client: ClientSession, url: str, body: dict[str, object]) -> str:
    """Ask the driver until it is done; return its answer's status."""
    status = ""

    async def is_over() -> bool:
        nonlocal status
        async with client.post(url, json=body) as response:
            status = str((await response.json())["status"])
        return status != "Running"

    await until(is_over)
    return status
