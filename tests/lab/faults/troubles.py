"""What may go wrong between a process and the API server, and whether it is due.

`plans` chooses, `gateway` asks at each request and each event.
"""

import asyncio
import contextlib
import time

from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum


class Trouble(StrEnum):
    """What goes wrong."""

    HOLD_WATCH = "hold-watch"
    """Watches stand still, and then tell all at once."""
    CUT_WATCH = "cut-watch"
    """Watches are reset."""
    UNOBSERVED = "unobserved"
    """Events are never told; then the watch ends, and its version is too old."""
    HALF_LINE = "half-line"
    """A watch ends in the middle of an event."""
    OLD_LIST = "old-list"
    """The process is killed; the next one's first lists are older than what it did."""
    GONE = "gone"
    """Watches end, and their versions are too old: 410."""
    THROTTLED = "throttled"
    """429, nothing was looked at."""
    APPLIED_504 = "applied-504"
    """A write takes place, and its answer is a time-out."""
    RESET_BODY = "reset-body"
    """An answer is reset in the middle."""


class Troubles:
    """Those of one gateway.

    Attributes:
        swallows: events are lost.
        met: how often each trouble was met by a request or an event.
    """

    def __init__(self) -> None:
        self.swallows = False
        self.met: Counter[Trouble] = Counter()
        self._due: Counter[Trouble] = Counter()
        self._open: set[Callable[[], None]] = set()
        self._held_until = 0.0

    @property
    def open_watches(self) -> int:
        """How many watches can be cut."""
        return len(self._open)

    def expect(self, trouble: Trouble, times: int) -> None:
        """Let the next requests or events meet it."""
        self._due[trouble] += times

    def take(self, trouble: Trouble) -> bool:
        """Say whether this request, or this event, meets it."""
        if not self._due[trouble]:
            return False
        self._due[trouble] -= 1
        self.met[trouble] += 1
        return True

    def cut(self, trouble: Trouble = Trouble.CUT_WATCH) -> None:
        """Reset all open watches."""
        for abort in list(self._open):
            self.met[trouble] += 1
            abort()

    def hold(self, seconds: float) -> None:
        """Let watches stand still from now on."""
        self._held_until = time.monotonic() + seconds

    def end(self) -> None:
        """Let go of everything."""
        self._held_until = 0.0
        self._due.clear()
        self.swallows = False

    async def flowing(self) -> None:
        """Wait as long as watches stand still."""
        while (rest := self._held_until - time.monotonic()) > 0:
            self.met[Trouble.HOLD_WATCH] += 1
            await asyncio.sleep(min(rest, 0.1))

    @contextlib.contextmanager
    def cutting(self, abort: Callable[[], None]) -> Iterator[None]:
        """Have a watch cut by `cut` as long as it is open."""
        self._open.add(abort)
        try:
            yield
        finally:
            self._open.discard(abort)

    async def befall(self, trouble: Trouble, seconds: float, times: int) -> None:
        """Bring a trouble on, and wait until it is over; old lists are not made here.

        Args:
            trouble: which.
            seconds: how long a watch is held, or deaf.
            times: how many requests or events meet it.
        """
        match trouble:
            case Trouble.HOLD_WATCH:
                self.hold(seconds)
                await asyncio.sleep(seconds)
            case Trouble.CUT_WATCH:
                for _ in range(times):
                    self.cut()
                    await asyncio.sleep(seconds / times)
            case Trouble.UNOBSERVED:
                self.swallows = True
                await asyncio.sleep(seconds)
                self.expect(Trouble.GONE, self.open_watches)
                self.cut(trouble)
                self.swallows = False
            case Trouble.GONE:
                self.expect(trouble, self.open_watches)
                self.cut(trouble)
            case _:
                self.expect(trouble, times)
