"""Following a process by a connection: its end is noticed, a closed connection is none."""

import asyncio
import contextlib
import subprocess
import sys

from collections.abc import AsyncIterator
from datetime import timedelta

import attrs
import pytest

from lbcf.runtime.clock import SystemClock
from lbcf.runtime.process_identity import until_refused


SERVE = """
import asyncio, sys

async def taken(reader, writer):
    print("taken", flush=True)
    if sys.argv[1] == "closes":
        writer.close()
    else:
        await asyncio.sleep(3600)

async def main():
    server = await asyncio.start_server(taken, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@attrs.frozen
class Server:
    """A process that takes connections."""

    process: asyncio.subprocess.Process
    port: int

    async def heard(self) -> None:
        """Wait until it has taken a connection."""
        assert self.process.stdout is not None
        assert b"taken\n" == await self.process.stdout.readline()


@contextlib.asynccontextmanager
async def serving(how: str) -> AsyncIterator[Server]:
    """Run a process that takes connections."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVE, how, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield Server(process, int(await process.stdout.readline()))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.mark.parametrize("how", ["keeps", "closes"])
async def test_process_that_is_killed_is_noticed(how: str) -> None:
    """Also where the server closes what is idle: it takes the next connection."""
    async with serving(how) as server:
        following = asyncio.create_task(
            until_refused("127.0.0.1", server.port, SystemClock())
        )
        await server.heard()
        if how == "closes":
            await server.heard()
        assert not following.done()
        server.process.kill()
        await following


async def test_port_that_never_took_a_connection_says_nothing() -> None:
    """Nobody has listened there, or a firewall refuses: neither is an end."""
    async with serving("keeps") as server:
        server.process.kill()
        await server.process.wait()
        following = asyncio.create_task(
            until_refused("127.0.0.1", server.port, SystemClock())
        )
        done, _ = await asyncio.wait({following}, timeout=2.5)
        assert not done
        following.cancel()


class PatientClock(SystemClock):
    """Sleeps for nothing, and notes for how long it was asked to."""

    def __init__(self, server: asyncio.Server, most: int) -> None:
        self.pauses: list[float] = []
        self._server = server
        self._most = most

    async def sleep(self, duration: timedelta) -> None:
        """Note it; after so many sleeps the server listens no more."""
        self.pauses.append(duration.total_seconds())
        if len(self.pauses) == self._most:
            self._server.close()
            await self._server.wait_closed()


async def test_port_that_still_took_a_connection_is_tried_again_very_soon() -> None:
    """As that of a process being killed; more and more seldom where it goes on like that."""

    async def close(
        _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    clock = PatientClock(server, 7)
    await until_refused("127.0.0.1", server.sockets[0].getsockname()[1], clock)

    assert [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0] == clock.pauses
