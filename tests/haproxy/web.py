"""Real web servers behind HAProxy, and the requests that people send through it."""

import asyncio
import contextlib
import socket

from collections import Counter
from collections.abc import AsyncIterator
from typing import Self

import attrs

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web


ANSWERED = ClientTimeout(total=600)
"""For requests that a test holds for as long as it takes."""


@attrs.define(eq=False)
class WebServer:
    """Answers its own name; `/slow` only once it is released; 404 at `/health` if it leaves.

    Attributes:
        name: what it answers.
        address: where it listens, as a backend's address.
        waiting: how many requests for `/slow` are held.
        leaves: whether it asks by its health for nobody new.
    """

    name: str
    address: str = ""
    waiting: int = 0
    leaves: bool = False
    _released: asyncio.Event = attrs.field(factory=asyncio.Event)
    _runner: web.AppRunner | None = None
    _socket: socket.socket | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls, name: str, host: str, port: int = 0, *, listens: bool = True
    ) -> AsyncIterator[Self]:
        """Listen on a port of the host.

        Args:
            name: what it answers.
            host: an address.
            port: 0: a free one.
            listens: from now on; else it refuses until `listen`, at an address that
                nobody else gets meanwhile.
        """
        server = cls(name)
        app = web.Application()
        app.router.add_get("/slow", server._slow)
        app.router.add_get("/health", server._health)
        app.router.add_get("/", server._fast)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        server._runner = runner
        server._socket = _bound(host, port)
        ip, port = server._socket.getsockname()[:2]  # the port that 0 became
        server.address = f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
        try:
            if listens:
                await server.listen()
            yield server
        finally:
            server.release()
            await runner.cleanup()
            server._socket.close()

    async def listen(self) -> None:
        """Take connections from now on."""
        assert self._runner is not None
        assert self._socket is not None
        # Inherited by what is taken: another may listen here while that hangs on.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        await web.SockSite(self._runner, self._socket).start()

    async def stop(self) -> None:
        """Die, as a process does."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def leave(self) -> None:
        """Listen no more; requests that are held hang on, as when a node is cut off."""
        if self._runner is not None:
            for site in list(self._runner.sites):
                await site.stop()

    def release(self) -> None:
        """Let the requests that are held be answered."""
        self._released.set()

    async def _fast(self, _: web.Request) -> web.Response:
        """Answer at once."""
        return web.Response(text=self.name)

    async def _health(self, _: web.Request) -> web.Response:
        """Answer whether it is to get new requests."""
        return web.Response(status=404 if self.leaves else 200)

    async def _slow(self, _: web.Request) -> web.Response:
        """Answer when released."""
        self.waiting += 1
        try:
            await self._released.wait()
        finally:
            self.waiting -= 1
        return web.Response(text=self.name)


@attrs.define(eq=False)
class Traffic:
    """People who send requests one after the other, some on new connections each time.

    Attributes:
        url: where to.
        answers: how often each answer came: a server's name, `503`, an error's name.
    """

    url: str
    answers: Counter[str] = attrs.field(factory=Counter)

    async def has_served(self, count: int) -> bool:
        """Tell whether so many requests were answered by a server."""
        return self.served >= count

    @contextlib.asynccontextmanager
    async def flowing(self, people: int = 6) -> AsyncIterator[None]:
        """Send requests, as fast as they are answered, until the block ends."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for number in range(people):
                group.create_task(self._person(stop, keep=bool(number % 2)))
            try:
                yield
            finally:
                stop.set()

    @property
    def served(self) -> int:
        """How many requests were answered by a server."""
        return sum(self.answers.values()) - self.failed

    @property
    def failed(self) -> int:
        """How many were not."""
        return sum(
            count for answer, count in self.answers.items() if not answer.islower()
        )

    async def _person(self, stop: asyncio.Event, *, keep: bool) -> None:
        """Send one request after the other."""
        connector = TCPConnector(force_close=not keep)
        async with ClientSession(connector=connector) as session:
            while not stop.is_set():
                self.answers[await ask(session, self.url)] += 1
                await asyncio.sleep(0.002)


async def ask(session: ClientSession, url: str) -> str:
    """Send one request; return the server's name, the bad status, or the error."""
    try:
        async with session.get(url, timeout=ANSWERED) as response:
            text = await response.text()
            return text if response.ok else str(response.status)
    except (ClientError, TimeoutError) as error:
        return type(error).__name__


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket at an address that refuses connections yet."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    # Not for a free port: others could get the same one as long as nobody listens.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, bool(port))
    made.bind((host, port))
    return made
