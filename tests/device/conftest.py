"""The loop of tests that serve what they call."""

import asyncio

from collections.abc import Callable

from tests.steady import SteadyLoop


def pytest_asyncio_loop_factories() -> dict[
    str, Callable[[], asyncio.AbstractEventLoop]
]:
    """Use one in which nothing is late because the machine is busy."""
    return {"steady": SteadyLoop}
