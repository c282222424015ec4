"""The driver as a process, and calls that go on until they are done or it has died."""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Sequence

import aiohttp
import msgspec

from tests.envoy.stage import Stage
from tests.webhooks.processes import Running, running


@contextlib.asynccontextmanager
async def process(
    stage: Stage, die_at: int = -1, flags: Sequence[str] = ()
) -> AsyncIterator[Running]:
    """Run the driver as a process for a block, with more flags."""
    async with running(
        "tests.envoy.crashing",
        *("--state-directory", str(stage.folder)),
        *("--xds-address", f"127.0.0.1:{stage.port}"),
        *("--allow-listeners", "*", "--allow-addresses", "127.0.0.0/8"),
        *("--die-at", str(die_at), *flags),
    ) as child:
        yield child


async def call(
    client: aiohttp.ClientSession, url: str, name: str, request: object
) -> bool:
    """Call an operation until it is done, or a drain waits; False: the driver died."""
    body = msgspec.json.encode(request)
    while True:
        try:
            async with client.post(f"{url}/{name}", data=body) as response:
                answer = await response.json()
        except aiohttp.ClientError:
            return False
        if answer["status"] == "Succ" or "left: " in answer.get("msg", ""):
            return True
        await asyncio.sleep(0.02)
