"""What the processes run in, on both of the loops: tools use asyncio's own."""

import asyncio

from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[
    str, Callable[[], asyncio.AbstractEventLoop]
]:
    """Run each test by the loop of the processes, and by that of everybody else."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
