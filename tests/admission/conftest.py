"""What the tests of the webhook share."""

from asyncio import AbstractEventLoop
from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], AbstractEventLoop]]:
    """Use the loop that the processes use; TLS and broken connections are its own."""
    return {"uvloop": uvloop.new_event_loop}
