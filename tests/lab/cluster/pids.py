"""Processes named so that no other is ever hit: a pid and its start time.

A pid alone may have been given to a stranger since it was written down.
"""

import contextlib
import os
import select
import signal

from pathlib import Path
from typing import Self

import attrs


@attrs.frozen
class Pid:
    """One process for all time.

    Attributes:
        number: The pid, as the reader's namespace counts.
        started: Its start in clock ticks since boot (proc(5), stat field 22).
    """

    number: int
    started: int

    @classmethod
    def of(cls, number: int) -> Self | None:
        """The process that has this pid now, or None; a zombie counts as gone."""
        try:
            stat = Path(f"/proc/{number}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        state, *fields = stat.rpartition(")")[2].split()
        return None if state in "ZX" else cls(number, int(fields[18]))

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The process that a file names, or None when there is no such file."""
        try:
            number, started = path.read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return cls(int(number), int(started))

    def write(self, path: Path) -> None:
        """Name the process in a file."""
        path.write_text(f"{self.number} {self.started}\n")

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return Pid.of(self.number) == self

    def end(self, sig: signal.Signals, patience: float) -> bool:
        """Send a signal and wait; True when the process has ended.

        Args:
            sig: The signal.
            patience: Seconds to wait.
        """
        try:
            descriptor = os.pidfd_open(self.number)
        except ProcessLookupError:
            return True
        try:
            if not self.alive():
                return True
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, sig)
            return bool(select.select([descriptor], [], [], patience)[0])
        finally:
            os.close(descriptor)


def children(number: int) -> list[int]:
    """The pids of a process's children; none when it is gone."""
    try:
        text = Path(f"/proc/{number}/task/{number}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(word) for word in text.split()]
