"""Reloads of a HAProxy while people send requests: what fails, and for how long."""

import asyncio
import contextlib
import itertools
import tempfile
import time

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import attrs

from aiohttp import ClientSession
from yarl import URL

from tests.haproxy.driver_process import asked
from tests.haproxy.proxy import Haproxy
from tests.haproxy.waiting import until
from tests.haproxy.web import ask
from tests.lab.cluster.ports import free_ports


MOST_UNDER_WAY = 300
"""Requests at a time."""

PAUSE = 1.5
"""Seconds between reloads: the driver has seen which members pass their checks."""


@attrs.define(eq=False)
class SteadyTraffic:
    """Requests at a rate, also while others wait; most on new connections.

    Attributes:
        url: where to.
        rate: requests per second.
        answers: how often each answer came: a server's name, `503`, an error's name.
        seconds: how long each answer took.
        under_way: how many are to be answered.
    """

    url: str
    rate: float
    answers: Counter[str] = attrs.field(factory=Counter)
    seconds: list[float] = attrs.field(factory=list)
    under_way: int = 0

    @property
    def failed(self) -> int:
        """How many requests no server has answered."""
        return sum(
            count for answer, count in self.answers.items() if not answer.islower()
        )

    @contextlib.asynccontextmanager
    async def flowing(self) -> AsyncIterator[None]:
        """Send requests until the block ends, and wait for their answers."""
        url = URL(self.url)
        async with ClientSession() as kept, asyncio.TaskGroup() as group:
            ways = [partial(ask, kept, self.url), *[partial(_asked, url)] * 9]
            sender = group.create_task(self._send(group, ways))
            try:
                yield
            finally:
                sender.cancel()

    async def _send(
        self, group: asyncio.TaskGroup, ways: Sequence[Callable[[], Awaitable[str]]]
    ) -> None:
        """Begin one request after the other, until cancelled.

        A machine that is too busy for the rate gets less: what was not sent in time is
        not sent later, or nobody would measure anything but the machine.
        """
        for way in itertools.cycle(ways):
            began = time.monotonic()
            if self.under_way < MOST_UNDER_WAY:
                group.create_task(self._request(way))
            await asyncio.sleep(1 / self.rate - (time.monotonic() - began))

    async def _request(self, way: Callable[[], Awaitable[str]]) -> None:
        """Send one request."""
        began = time.monotonic()
        self.under_way += 1
        self.answers[await way()] += 1
        self.under_way -= 1
        self.seconds.append(time.monotonic() - began)


async def _asked(url: URL) -> str:
    """Send one request on a connection of its own; return what `ask` returns.

    Several hundred of these a second leave time for what is measured.
    """
    try:
        reader, writer = await asyncio.open_connection(url.host, url.port)
        try:
            writer.write(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
            head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        finally:
            writer.close()
    except OSError as error:
        return type(error).__name__
    status = head[9:12]
    return body if status == "200" else status or "Empty"


ORIGIN = """\
defaults
  mode http
  timeout client 60s
frontend origin
{binds}
  http-request return status 200 content-type text/plain string member
"""


@contextlib.asynccontextmanager
async def members(number: int) -> AsyncIterator[Sequence[str]]:
    """Have so many web servers answer `member`, in a process of their own."""
    [port] = free_ports(1)
    addresses = [f"127.0.2.{one + 1}:{port}" for one in range(number)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "origin.cfg"
        binds = "\n".join(f"  bind {address}" for address in addresses)
        path.write_text(ORIGIN.format(binds=binds))
        process = await asyncio.create_subprocess_exec("haproxy", "-db", "-f", path)
        try:
            yield addresses
        finally:
            process.kill()
            await process.wait()


@attrs.frozen
class Reload:
    """What one reload took.

    Attributes:
        seconds: from the signal until all members were in the new process.
        gap: from its first answer until then.
    """

    seconds: float
    gap: float


async def reload(proxy: Haproxy, backend: str, names: Sequence[str]) -> Reload:
    """Reload a HAProxy, and wait until these servers are in it and in service."""
    before = await proxy.worker()
    answered = 0.0

    async def are_back() -> bool:
        nonlocal answered
        if not answered and await proxy.answering() not in {0, before}:
            answered = time.monotonic()
        rows = await proxy.rows(backend) if answered else {}
        return all(
            name in rows and rows[name]["srv_admin_state"] == "0" for name in names
        )

    await proxy.ask_to_reload()
    began = time.monotonic()
    await until(are_back)
    now = time.monotonic()
    return Reload(now - began, now - answered)


async def register(
    driver_url: str, lb_info: dict[str, str], addresses: Sequence[str]
) -> Sequence[str]:
    """Register members with the driver; return their servers' names."""
    async with ClientSession() as client:
        for number, address in enumerate(addresses):
            body: dict[str, object] = {
                "recordID": f"m{number}",
                "retryID": "1",
                "lbInfo": lb_info,
                "backendAddr": address,
            }
            await asked(client, f"{driver_url}/ensureBackend", body)
    return [f"lbcf-m{number}" for number in range(len(addresses))]


async def reload_under(
    proxy: Haproxy, traffic: SteadyTraffic, names: Sequence[str], times: int
) -> Sequence[Reload]:
    """Reload so many times under requests, with a pause before and after each."""
    backend = next(one for one in proxy.ports if traffic.url == proxy.url_of(one))
    reloads: list[Reload] = []

    async def serve() -> bool:
        rows = await proxy.rows(backend)
        return all(rows[name]["srv_op_state"] == "2" for name in names)

    await until(serve)
    async with traffic.flowing():
        for _ in range(times):
            await asyncio.sleep(PAUSE)
            reloads.append(await reload(proxy, backend, names))
        await asyncio.sleep(PAUSE)
    return reloads
