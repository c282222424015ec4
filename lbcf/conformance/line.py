"""HTTP to the driver as it is, with every exchange kept.

`lbcf.conformance.bench` decides what is sent and what the answer means. Unlike the
controller's client this one raises nothing: what goes wrong is what is looked for.
"""

import asyncio

from types import SimpleNamespace
from typing import Self

import aiohttp
import yarl

from lbcf.conformance.findings import Exchange
from lbcf.conformance.target import Target
from lbcf.drivers.client import LARGEST_LIST
from lbcf.runtime.clock import Clock


class Line:
    """Connections to one driver. Make it and close it in one event loop.

    Attributes:
        exchanges: what was said, in the order in which it ended.
    """

    def __init__(self, target: Target, clock: Clock) -> None:
        self.exchanges: list[Exchange] = []
        self._target = target
        self._clock = clock
        headers = {"Content-Type": "application/json", "User-Agent": "lbcf-conformance"}
        if target.token:
            headers["Authorization"] = f"Bearer {target.token}"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=2.0, ssl=target.tls or True
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            timeout=aiohttp.ClientTimeout(),
            trace_configs=[_write_watch()],
        )

    async def __aenter__(self) -> Self:
        """Use it for a block."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close all connections."""
        await self._session.close()

    async def send(
        self, operation: str, body: bytes, written: asyncio.Event | None = None
    ) -> Exchange:
        """Send a body; return what came back, or why nothing did.

        `written` is set as soon as the body has gone out.
        """
        began = self._clock.monotonic()
        exchange = await self._sent(operation, body, written)
        seconds = self._clock.monotonic() - began
        kept = Exchange(
            operation, body, exchange.status, exchange.answer, exchange.trouble, seconds
        )
        self.exchanges.append(kept)
        return kept

    async def _sent(
        self, operation: str, body: bytes, written: asyncio.Event | None
    ) -> Exchange:
        """Send it within the time-out."""
        limit = self._target.timeout.total_seconds()
        try:
            async with asyncio.timeout(limit):
                return await self._answered(operation, body, written)
        except TimeoutError:
            trouble = f"no whole answer within {limit:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            trouble = f"no answer: {str(error) or type(error).__name__}"
        return Exchange(operation, body, trouble=trouble)

    async def _answered(
        self, operation: str, body: bytes, written: asyncio.Event | None
    ) -> Exchange:
        """Send it and read the answer, as far as answers may go and one byte."""
        url = yarl.URL(self._target.url) / operation
        async with self._session.post(
            url, data=body, allow_redirects=False, trace_request_ctx=written
        ) as response:
            answer = bytearray()
            async for chunk in response.content.iter_any():
                answer += chunk
                if len(answer) > LARGEST_LIST:
                    response.close()
                    break
            return Exchange(operation, body, response.status, bytes(answer))


def _write_watch() -> aiohttp.TraceConfig:
    """Return the hook that tells when a request has gone out."""
    watch = aiohttp.TraceConfig()

    async def written(
        _session: aiohttp.ClientSession, context: SimpleNamespace, _params: object
    ) -> None:
        """Tell whoever waits for it."""
        if context.trace_request_ctx is not None:
            context.trace_request_ctx.set()

    watch.on_request_chunk_sent.append(written)
    return watch
