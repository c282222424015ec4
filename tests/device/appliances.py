"""A tiny appliance on a real socket: it answers whatever a test puts on its list."""

import contextlib
import ssl

from collections.abc import AsyncIterator, Awaitable, Callable

import attrs

from aiohttp import web

from webhooks.device.connection import Connection, Limits
from webhooks.device.devices import Device
from webhooks.device.trust import Trust, read_trust


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@attrs.define(eq=False)
class Appliance:
    """Answers all requests in the same way, and remembers them.

    Attributes:
        answer: what it does with a request.
        device: where it is.
        seen: `METHOD path?query` of each request.
        headers: of the last request.
    """

    answer: Answer
    device: Device = attrs.field(init=False)
    seen: list[str] = attrs.field(factory=list)
    headers: dict[str, str] = attrs.field(factory=dict)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        self.seen.append(f"{request.method} {request.raw_path}")
        self.headers = dict(request.headers)
        return await self.answer(request)


@contextlib.asynccontextmanager
async def an_appliance(
    answer: Answer, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Appliance]:
    """Serve one for a block, over https where a certificate is given."""
    appliance = Appliance(answer)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", appliance.serve)
    runner = web.AppRunner(app, shutdown_timeout=0, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        port = runner.addresses[0][1]
        appliance.device = Device("127.0.0.1", port, "https" if tls else "http")
        yield appliance
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def connected(
    appliance: Appliance,
    limits: Limits | None = None,
    tls: Trust | None = None,
) -> AsyncIterator[Connection]:
    """Give a connection to it for a block."""
    connection = Connection(appliance.device, tls or read_trust(), limits or Limits())
    try:
        yield connection
    finally:
        await connection.close()
