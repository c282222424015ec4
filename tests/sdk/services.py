"""Drivers for tests, served on real sockets, and calls of them as raw as can be."""

import asyncio
import contextlib
import io
import json

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import cast

import aiohttp

from aiohttp import web

from lbcf import sdk
from lbcf.sdk import DeregisterBackendRequest, EnsureBackendRequest, Running, Succ
from lbcf.sdk.server import Service


Json = dict[str, object]
GRACE = timedelta(seconds=20)


class PlainDriver(sdk.Driver):
    """Serves only what each driver must; answers what the test says.

    Attributes:
        begun: addresses, in the order in which their operations began.
        ended: the same for their ends.
        on_ensure: what ensureBackend does between the two.
    """

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.on_ensure: Callable[[EnsureBackendRequest], Awaitable[Succ | Running]]
        self.on_ensure = _succeed

    async def ensure_backend(self, request: EnsureBackendRequest) -> Succ | Running:
        """Note the call's beginning and end around what the test wants."""
        self.begun.append(request.retry_id)
        result = await self.on_ensure(request)
        self.ended.append(request.retry_id)
        return result

    async def deregister_backend(
        self, request: DeregisterBackendRequest
    ) -> Succ | Running:
        """Note the call."""
        self.begun.append(request.retry_id)
        self.ended.append(request.retry_id)
        return Succ()


async def _succeed(_request: EnsureBackendRequest) -> Succ | Running:
    """Be done at once."""
    return Succ()


@contextlib.asynccontextmanager
async def serving(service: Service, *, cancelling: bool = False) -> AsyncIterator[str]:
    """Serve on the loopback interface; give the URL.

    With `cancelling`, aiohttp cancels its own task when a caller hangs up.
    """
    runner = web.AppRunner(
        service.application(), shutdown_timeout=0.1, handler_cancellation=cancelling
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0]
    try:
        yield f"http://{host}:{port}"
    finally:
        await service.drain(timedelta())
        await runner.cleanup()


async def post(url: str, operation: str, body: bytes | io.BytesIO) -> tuple[int, Json]:
    """Call with any body; return status and answer."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/{operation}", data=body) as response,
    ):
        return response.status, cast("Json", await response.json())


async def call(url: str, operation: str, **fields: object) -> Json:
    """Call an operation on a member; return the answer to what must be a 200."""
    said = {"recordID": "r", "backendAddr": "192.0.2.1:80"} | fields
    status, answer = await post(url, operation, json.dumps(said).encode())
    assert 200 == status, answer
    return answer


async def settle() -> None:
    """Let what was sent over the loopback interface arrive and be acted on."""
    for _ in range(20):
        await asyncio.sleep(0.002)
