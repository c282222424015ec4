"""Requests through a HAProxy while something goes on: `python -m tests.lab.batches.traffic`.

A process of its own, so that what goes on takes no turn of its event loop. It prints where its
web server listens; then it reads a URL, and names of phases, one a line. At the end of its
input it prints how long requests took in each phase.
"""

import asyncio
import contextlib
import json
import sys
import time

from collections.abc import AsyncIterator, Mapping, Sequence
from statistics import quantiles
from typing import Self

import attrs

from aiohttp import ClientSession

from tests.haproxy.web import WebServer, ask


PEOPLE = 4
PAUSE = 0.005
"""Seconds between two requests of one of them."""


@attrs.frozen
class Latency:
    """How long the requests of a phase took.

    Attributes:
        count: how many there were.
        failed: those that no server answered.
        p50: milliseconds.
        p99: milliseconds.
    """

    count: int
    failed: int
    p50: float
    p99: float


@attrs.define(eq=False)
class Traffic:
    """The process, as whoever started it sees it.

    Attributes:
        address: of its web server.
    """

    address: str
    _child: asyncio.subprocess.Process

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls) -> AsyncIterator[Self]:
        """Start it for a block."""
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, stdin=pipe, stdout=pipe
        )
        assert child.stdout is not None
        try:
            yield cls((await child.stdout.readline()).decode().strip(), child)
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()

    def say(self, line: str) -> None:
        """Send the URL, or the name of the phase that begins."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"{line}\n".encode())

    async def end(self) -> Mapping[str, Latency]:
        """End it; return how long requests took, by phase."""
        said, _ = await self._child.communicate(b"")
        return {name: Latency(**one) for name, one in json.loads(said).items()}


def told(latencies: Mapping[str, Latency]) -> str:
    """Return what is to be printed of phases, the first of which is the quiet one."""
    quiet = next(iter(latencies.values()))
    return "; ".join(
        f"{name}: p50 {one.p50:.2f} ms, p99 {one.p99:.2f} ms "
        f"({one.p99 / quiet.p99:.2f} times), {one.count} requests, {one.failed} failed"
        for name, one in latencies.items()
    )


def summed(samples: Sequence[float], failed: int) -> Latency:
    """Return what samples in seconds come to."""
    points = quantiles([1000 * one for one in samples], n=100)
    return Latency(len(samples), failed, points[49], points[98])


async def main() -> None:
    """Serve, ask, and tell."""
    samples: dict[str, list[float]] = {}
    failed: dict[str, int] = {}
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    phase = ""

    async def person(session: ClientSession, url: str) -> None:
        while True:
            now, began = phase, time.perf_counter()
            answer = await ask(session, url)
            samples.setdefault(now, []).append(time.perf_counter() - began)
            failed[now] = failed.get(now, 0) + (not answer.islower())
            await asyncio.sleep(PAUSE)

    async with (
        WebServer.running("server", "127.0.0.1") as server,
        ClientSession() as session,
    ):
        print(server.address, flush=True)
        url = (await lines.readline()).decode().strip()
        people = [asyncio.create_task(person(session, url)) for _ in range(PEOPLE)]
        while line := await lines.readline():
            phase = line.decode().strip()
        for one in people:
            one.cancel()
        await asyncio.gather(*people, return_exceptions=True)
    found = {n: summed(s, failed[n]) for n, s in samples.items() if n}
    print(json.dumps({name: attrs.asdict(one) for name, one in found.items()}))


if __name__ == "__main__":
    asyncio.run(main())
