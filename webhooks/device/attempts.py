"""One attempt at an operation: how long it may take, and what its errors become.

Every operation of a driver runs inside `attempt`. What it raises leaves as a word of
the SDK: `RetryAfter` where asking again is all that is needed, `Fail` for all else.
"""

import asyncio

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from lbcf.sdk import Clock, Fail, RetryAfter
from webhooks.device.errors import (
    Busy,
    DeviceError,
    NoAnswer,
    Uncertain,
    Unreachable,
)


ASK_AGAIN = timedelta(seconds=1)
"""What was uncertain or too slow may be settled so soon."""

BUSY_PAUSE = timedelta(seconds=5)
"""What a busy device is left alone for, unless it says more."""

PATIENCE = timedelta(seconds=8)
"""An operation ends within it, whatever devices do: callers wait 10 s by default."""

SHORTEST = timedelta(milliseconds=200)
"""Less than this is not worth beginning."""

BEGINNING = 0.75
"""The part of an attempt's time in which something long may be begun: the rest is kept for
bringing that to its end, and for answering."""


@asynccontextmanager
async def attempt(
    clock: Clock, not_after: datetime | None = None, patience: timedelta = PATIENCE
) -> AsyncIterator[float]:
    """Turn what goes wrong into an answer, and end before the call's `notAfter`.

    An operation that went on after it could add a member whose record is long gone.

    Args:
        clock: for what is left until `notAfter`.
        not_after: of the request; None: it has none.
        patience: the longest time in any case.

    Yields:
        Monotonic seconds after which nothing long is to be begun.

    Raises:
        RetryAfter: busy, too slow, or a change was sent and not answered.
        Fail: all else.
    """
    left = patience if not_after is None else min(patience, not_after - clock.now())
    if left < SHORTEST:
        raise RetryAfter(ASK_AGAIN, "its notAfter is too near: nothing was begun")
    try:
        async with asyncio.timeout(left.total_seconds()):
            yield clock.monotonic() + BEGINNING * left.total_seconds()
    except TimeoutError as error:
        text = (
            f"the device is too slow: not finished within {left.total_seconds():.3g} s"
        )
        raise RetryAfter(ASK_AGAIN, text) from error
    except Busy as error:
        raise RetryAfter(error.retry_after or BUSY_PAUSE, str(error)) from error
    except Uncertain as error:
        raise RetryAfter(ASK_AGAIN, str(error)) from error
    except DeviceError as error:
        raise Fail(str(error)) from error


@asynccontextmanager
async def validation(
    clock: Clock, patience: timedelta = PATIENCE
) -> AsyncIterator[None]:
    """Turn what goes wrong in a validation into an answer: an outage is no refusal.

    Args:
        clock: for the time that is left.
        patience: the longest time.

    Raises:
        RetryAfter: the device cannot be asked now.
        Fail: all else.
    """
    async with attempt(clock, patience=patience):
        try:
            yield
        except (Unreachable, NoAnswer) as error:
            raise Busy(str(error)) from error
