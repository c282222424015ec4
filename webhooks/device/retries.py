"""Asks again where a device was only busy, a few times and not for long.

All real retrying is the caller's: the protocol wants an answer soon. What is bridged
here is the moment in which a management interface has no worker free.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import tenacity

from lbcf.sdk import Clock
from webhooks.device.errors import Busy


TRIES = 4
FIRST_PAUSE = timedelta(milliseconds=250)
"""Between the first two tries; then twice as long each time: 1.75 s in all."""

_T = TypeVar("_T")


async def until_free(clock: Clock, ask: Callable[[], Awaitable[_T]]) -> _T:
    """Return what the device answers once it is not busy.

    `ask` is called anew each time, so it must be safe to repeat.

    Raises:
        Busy: it still is, after all tries.
    """
    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(Busy),
        stop=tenacity.stop_after_attempt(TRIES),
        wait=tenacity.wait_exponential(multiplier=FIRST_PAUSE.total_seconds()),
        sleep=lambda seconds: clock.sleep(timedelta(seconds=seconds)),
        reraise=True,
    )

    async def asked() -> _T:
        """Ask; tenacity awaits only what was defined with `async`."""
        return await ask()

    return await retrying(asked)
