"""Lets a process die, hang or go deaf at one chosen effect; off unless asked for.

    LBCF_FAILPOINT=N:MODE       at the N-th effect of this process, counted from 1

    crash-before            end on the spot, nothing is sent
    crash-after             end on the spot once it has been answered
    hang-before:SECONDS     send it that much later
    lose-answer             it takes effect, and no answer to it ever arrives

What counts: each read and write of a record and each call about a member that
`lbcf.executor` makes. Elections, watches, events and writes of other kinds do not. A process that hits
its failpoint logs `failpoint.hit`; one that ends by it has exit status 86.

For tests on real API servers, after gofail of etcd; never set it anywhere else. Where
it is not set, `through` hands back the very call it was given.
"""

import asyncio
import contextlib
import os

from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any, Final, Self, TypeVar

import attrs
import structlog


T = TypeVar("T")
Call = Coroutine[Any, Any, T]
Lost = Callable[[str], Exception]
"""Makes the error that a caller gets whose answer never comes."""

VARIABLE: Final = "LBCF_FAILPOINT"
EXIT_STATUS: Final = 86
_LOST: Final = f"no answer: lost by {VARIABLE}"

_log = structlog.get_logger(__name__)


class Mode(StrEnum):
    """What happens at the failpoint."""

    CRASH_BEFORE = "crash-before"
    CRASH_AFTER = "crash-after"
    HANG_BEFORE = "hang-before"
    LOSE_ANSWER = "lose-answer"


@attrs.frozen
class Failpoint:
    """Where and how.

    Attributes:
        number: of the effect, from 1.
        seconds: of a hang.
    """

    number: int
    mode: Mode
    seconds: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the variable.

        Raises:
            ValueError: it is not of the form N:MODE; says what was expected.
        """
        number, _, rest = text.partition(":")
        mode, colon, seconds = rest.partition(":")
        try:
            parsed = cls(int(number), Mode(mode), float(seconds or 0))
        except ValueError:
            parsed = None
        if (
            parsed is None
            or parsed.number < 1
            or not 0 <= parsed.seconds < float("inf")
        ):
            raise ValueError(_expected(text))
        if (parsed.mode is Mode.HANG_BEFORE) != bool(colon and seconds):
            raise ValueError(_expected(text))
        return parsed


def _expected(text: str) -> str:
    """Return the text of the error: what the variable may be."""
    modes = ", ".join(mode for mode in Mode if mode is not Mode.HANG_BEFORE)
    return (
        f"{VARIABLE}={text}: must be N:MODE, N a number from 1, MODE one of {modes} "
        "or hang-before:SECONDS"
    )


class Armed:
    """Counts effects, and acts at one of them.

    Args:
        failpoint: which one.
        exit_now: ends the process on the spot.
    """

    def __init__(
        self, failpoint: Failpoint, exit_now: Callable[[int], object] = os._exit
    ) -> None:
        self._failpoint = failpoint
        self._exit_now = exit_now
        self._passed = 0

    async def through(self, call: Call[T], lost: Lost) -> T:
        """Make the call, unless it is the one."""
        self._passed += 1
        if self._passed != self._failpoint.number:
            return await call
        name = getattr(call, "__qualname__", "")
        _log.warning("failpoint.hit", mode=self._failpoint.mode, effect=name)
        return await self._fail(call, lost)

    async def _fail(self, call: Call[T], lost: Lost) -> T:
        """Make the one call in its own way."""
        match self._failpoint.mode:
            case Mode.CRASH_BEFORE:
                call.close()
                self._exit_now(EXIT_STATUS)
                raise lost(_LOST)
            case Mode.HANG_BEFORE:
                await _held(call, self._failpoint.seconds)
                return await call
            case Mode.CRASH_AFTER:
                await _answered(call)
                self._exit_now(EXIT_STATUS)
                raise lost(_LOST)
            case Mode.LOSE_ANSWER:
                await _answered(call)
                raise lost(_LOST)


async def _held(call: Call[T], seconds: float) -> None:
    """Wait; a call whose caller goes away meanwhile is never made."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        call.close()
        raise


async def _answered(call: Call[T]) -> None:
    with contextlib.suppress(Exception):
        await call


_armed: Armed | None = None


def arm(text: str | None) -> None:
    """Take up the variable's text at the start of a process; nothing: no failpoint.

    Raises:
        ValueError: it cannot be understood; says what was expected.
    """
    global _armed  # noqa: PLW0603 - one per process, as its environment is
    _armed = Armed(Failpoint.parse(text)) if text else None
    if text:
        _log.warning("failpoint.armed", failpoint=text)


def through(call: Call[T], lost: Lost) -> Call[T]:
    """Pass an effect by the failpoint on its way.

    Args:
        call: the effect, not begun yet.
        lost: makes the error of an effect whose answer never comes.
    """
    return call if _armed is None else _armed.through(call, lost)
