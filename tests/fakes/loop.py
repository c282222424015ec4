"""An event loop in which waiting costs nothing: its time jumps to the next timer.

Sweeps over hours of draining and backoff run in milliseconds, always in the same
order. It has no sockets, no threads, no signals: only tasks, futures and timers.
"""

import asyncio
import selectors

from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar


T = TypeVar("T")


class StalledError(Exception):
    """Everybody waits and no timer is set: in real life this would hang for ever."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose `time()` starts at zero and moves only when nobody can run."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        super().__init__(_JumpingSelector(self))
        # Floats near a day have a grain of about 1e-11 s; timers closer than this
        # fire in the same turn.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._elapsed

    def jump(self, seconds: float) -> None:
        """Move the time on, as the selector does when nothing else can happen."""
        self._elapsed += seconds


class _JumpingSelector(selectors.BaseSelector):
    """Stands where the loop would sleep: instead of waiting it moves the time on."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """Jump by the timeout; without one take what is there, the loop's wake-up pipe.

        Whoever writes there has put his callback among what is ready before.
        """
        if timeout is None:
            there = self._real.select(0)
            if not there:
                raise StalledError("every task waits, and no timer is set to wake one")
            return there
        if timeout > 0:
            self._loop.jump(timeout)
        return []

    def register(
        self, fileobj: Any, events: int, data: object = None
    ) -> selectors.SelectorKey:
        """Watch a file; only the loop's own pipe comes here."""
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Watch a file no longer."""
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return the files watched."""
        return self._real.get_map()

    def close(self) -> None:
        """Give back the system's resource."""
        self._real.close()


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a fresh virtual loop, as `asyncio.run` does.

    Raises:
        StalledError: the coroutine waits for something that nobody will bring.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
