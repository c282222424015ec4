"""Says how far something long is: on a terminal in one line that is rewritten, in a log now and then."""

import shutil
import sys
import time

from collections.abc import Callable
from typing import TextIO

import attrs


BETWEEN_LINES = 30.0
"""Seconds between two lines in a log."""
_TELLING_STEPS = 20
_TELLING_SECONDS = 5.0
_MINUTE = 60


@attrs.define(eq=False)
class Progress:
    """Where the present state of something long is shown.

    Attributes:
        say: writes a line into a log.
        stream: rewritten if it is a terminal.
        clock: monotonic seconds.
    """

    say: Callable[[str], None]
    stream: TextIO = attrs.Factory(lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    _said_at: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._said_at = self.clock()

    def show(self, text: str) -> None:
        """Show a state in the place of the one before."""
        if self.stream.isatty():
            width = shutil.get_terminal_size().columns - 1
            self._rewrite(text[:width])
        elif self.clock() - self._said_at >= BETWEEN_LINES:
            self._said_at = self.clock()
            self.say(text)

    def end(self) -> None:
        """Leave the terminal's line empty for what is said next."""
        if self.stream.isatty():
            self._rewrite("")

    def _rewrite(self, text: str) -> None:
        self.stream.write(f"\r\x1b[K{text}")
        self.stream.flush()


@attrs.define(eq=False)
class Counted:
    """Steps of which it is known how many there are.

    Attributes:
        what: is done, for the line.
        total: how many steps; 0 where nobody knows.
        progress: where it is shown.
    """

    what: str
    total: int
    progress: Progress
    done: int = attrs.field(default=0, init=False)
    _began: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self.progress.clock()

    def step(self) -> None:
        """Count one more."""
        self.done += 1
        self.progress.show(self._text())

    def _text(self) -> str:
        if self.done >= self.total:
            return f"{self.what}: {self.done}"
        passed = self.progress.clock() - self._began
        left = time_left(passed, self.done, self.total)
        return f"{self.what}: {self.done} of {self.total}{left}"


def time_left(passed: float, done: int, total: int) -> str:
    """How long the rest takes if it goes on like this; empty while too little is known."""
    if done < _TELLING_STEPS or passed < _TELLING_SECONDS:
        return ""
    minutes = round(passed / done * (total - done) / _MINUTE)
    return f", about {minutes} min left" if minutes else ", less than a minute left"
