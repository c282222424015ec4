"""An event loop whose time stands still while the machine does not let it run.

For tests in which both ends of each connection are tasks of one loop, and short times decide
what comes first. By the machine's clock, a process that had to wait for its turn finds that all
of its timers are due at once, however far apart they were set.
"""

import asyncio
import selectors

from collections.abc import Coroutine
from typing import Any, TypeVar


T = TypeVar("T")

GRAIN = 1e-5
"""Seconds for each turn in which there is something to do: less than any turn takes."""


class SteadyLoop(asyncio.SelectorEventLoop):
    """A loop whose `time()` counts what it has waited for in vain, and hardly anything else."""

    def __init__(self) -> None:
        self._waited = 0.0
        super().__init__(_WatchedSelector(self))

    def time(self) -> float:
        """Return the seconds in which there was nothing to do."""
        return self._waited

    def count(self, seconds: float) -> None:
        """Have that much time be over."""
        self._waited += seconds


class _WatchedSelector(selectors.DefaultSelector):
    """Tells the loop what each of its waits counts for."""

    def __init__(self, loop: SteadyLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait; what ends by a timer has lasted as long as it was to."""
        found = super().select(timeout)
        self._loop.count(GRAIN if found else max(timeout or 0.0, GRAIN))
        return found


def run_steadily(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a fresh loop of this kind, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=SteadyLoop) as runner:
        return runner.run(main)
