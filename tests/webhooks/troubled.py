"""One operation while something is wrong, and again until it has come to its end.

What the fault tests of all drivers share: they set a fault, ask once, look at what was
said and at what is there, take the fault away, ask again as the controller does.
"""

import asyncio

from collections.abc import Awaitable, Callable

import pytest

from lbcf.sdk import (
    Driver,
    EnsureBackendRequest,
    ListBackendsAnswer,
    Refusal,
    Running,
    Succ,
)
from tests.patience import PATIENCE
from tests.webhooks.requests import a_deregister, a_drain, a_list


OPERATIONS = ("ensure", "drain", "deregister", "list")


PAUSE = 0.02
"""Seconds between two questions."""

Ask = Callable[[], Awaitable[Succ | Running | ListBackendsAnswer]]


def asking(driver: Driver, operation: str, ensure: EnsureBackendRequest) -> Ask:
    """Return an operation on the member that is, or was, ensured so."""
    lb_info, address, record = ensure.lb_info, ensure.backend_addr, ensure.record_id
    asks: dict[str, Ask] = {
        "ensure": lambda: driver.ensure_backend(ensure),
        "drain": lambda: driver.drain_backend(a_drain(lb_info, address, record)),
        "deregister": lambda: driver.deregister_backend(
            a_deregister(lb_info, address, record)
        ),
        "list": lambda: driver.list_backends(a_list(lb_info)),
    }
    return asks[operation]


async def refused(ask: Ask) -> Refusal:
    """Ask once; return what the driver raises."""
    with pytest.raises(Refusal) as caught:
        await ask()
    return caught.value


async def told(ask: Ask) -> str:
    """Ask once; return what the driver says is wrong."""
    return (await refused(ask)).msg


async def settled(ask: Ask) -> ListBackendsAnswer | None:
    """Ask until it is done; return the list where that is what was asked for.

    Raises:
        TimeoutError: it is not done in time; says what the driver said last.
    """
    said = "nothing"
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    answer = await ask()
                    said = str(answer)
                except Refusal as refusal:
                    answer, said = Running(), refusal.msg
                if isinstance(answer, ListBackendsAnswer):
                    return answer
                if isinstance(answer, Succ):
                    return None
                await asyncio.sleep(PAUSE)
    except TimeoutError as error:
        raise TimeoutError(f"not done, the driver said last: {said}") from error
