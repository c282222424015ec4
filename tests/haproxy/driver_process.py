"""The driver as a process of its own."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from aiohttp import ClientSession

from tests.haproxy.waiting import until
from tests.webhooks.processes import Running, running


DRIVER = "webhooks.haproxy"
HERE = ("--allow-addresses", "127.0.0.0/8")


def serving(*flags: str) -> AbstractAsyncContextManager[Running]:
    """Run the driver on a free port for a block."""
    return running(DRIVER, *flags)


async def asked(client: ClientSession, url: str, body: Mapping[str, object]) -> str:
    """Ask the driver until it is done; return its answer's status."""
    status = ""

    async def is_over() -> bool:
        nonlocal status
        async with client.post(url, json=body) as response:
            status = str((await response.json())["status"])
        return status != "Running"

    await until(is_over)
    return status
