"""Shipped drivers as processes of their own."""

import asyncio
import contextlib
import json
import os
import sys

from collections.abc import AsyncIterator, Mapping

import attrs


@attrs.frozen
class Running:
    """A running driver and where it listens."""

    child: asyncio.subprocess.Process
    url: str


async def started(
    module: str, *flags: str, environ: Mapping[str, str] | None = None
) -> asyncio.subprocess.Process:
    """Start a driver with these flags, and more variables."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *flags),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(environ or {})},
    )


@contextlib.asynccontextmanager
async def running(
    module: str, *flags: str, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Running]:
    """Run a driver on a free port for a block."""
    where = ("--bind-address", "127.0.0.1:0")
    child = await started(module, *where, *flags, environ=environ)
    assert child.stderr is not None
    try:
        event: dict[str, list[str]] = {}
        while "addresses" not in event:
            event = json.loads(await child.stderr.readline())
        yield Running(child, f"http://{event['addresses'][0]}")
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
