"""What a run of a process leaves for the run that begins in its place.

A journal is a map of names to small values in a file, one line for each change. A line is
handed to the kernel before `put` returns, so that it outlives `kill -9`, and every other
end of the process; not the end of its machine: the file says in which boot it was written.
Nothing rests on its being there. What is not known of a run is waited for.
"""

import os

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import attrs
import msgspec
import structlog


_MOST_LINES = 20_000
"""Of changes that are kept in the file: a megabyte or two, then it is written anew."""
_MODE = 0o600

_log = structlog.get_logger(__name__)


@attrs.frozen
class Predecessor:
    """The run of a process in whose place another one begins.

    Attributes:
        run: its own name; no other run has it.
        name: by which records know it: its own, or that of the run in whose place it began.
        ended_at: monotonic seconds by which it had ended: it sent nothing after that.
    """

    run: str
    name: str
    ended_at: float


class Journal(Protocol):
    """A map that the next run may find."""

    def begin(self, run: str, after: str) -> Mapping[str, object] | None:
        """Take the journal over; to be called before the first `put`.

        Args:
            run: who writes from now on.
            after: the run in whose place that is; empty: nobody's.

        Returns:
            What that very run had written last; None: that is not known, and the journal
            begins empty.
        """

    def put(self, name: str, value: object | None) -> None:
        """Write a value, of what JSON has; None: take the name out.

        Raises:
            OSError: it is not written, and the journal cannot be made void, either: do
                not do what it was to tell.
        """


class NoJournal:
    """That of a process that was given no file: nothing is left, nothing is found."""

    def begin(self, run: str, after: str) -> Mapping[str, object] | None:
        """Find nothing."""
        del run, after
        return None

    def put(self, name: str, value: object | None) -> None:
        """Write nothing."""


class _Head(msgspec.Struct):
    """The first line: whose journal it is.

    Attributes:
        boot: which boot of which machine it was written in. After another one, lines may
            be missing that the kernel had not written to the disk.
    """

    run: str
    boot: str


class FileJournal:
    """The journal in a file.

    Args:
        path: of the file; its folder exists. Best in memory (tmpfs): it is of no use
            after the end of the machine.
        boot: which boot of which machine this is, empty: not known.
    """

    def __init__(self, path: Path, boot: str) -> None:
        self._path = path
        self._boot = boot
        self._run = ""
        self._values: dict[str, object] = {}
        self._file: int | None = None
        self._lines = 0

    def begin(self, run: str, after: str) -> Mapping[str, object] | None:
        """Take the journal over, if it can be read and written."""
        found = self._read(after) if after and self._boot else None
        self._run, self._values = run, dict(found or {})
        try:
            self._write_anew()
        except OSError as error:
            # What is there is another run's: nobody will take it for ours.
            self._close()
            _log.warning("journal.unusable", path=str(self._path), error=str(error))
        return found

    def put(self, name: str, value: object | None) -> None:
        """Write a change at the end of the file.

        Raises:
            OSError: it cannot be written, and the file cannot be emptied.
        """
        if self._file is None or self._values.get(name) == value:
            return
        if value is None:
            del self._values[name]
        else:
            self._values[name] = value
        try:
            if self._lines >= _MOST_LINES + 2 * len(self._values):
                self._write_anew()
            else:
                _write(self._file, _line([name, value]))
                self._lines += 1
        except OSError as error:
            self._give_up(error)

    def _read(self, after: str) -> dict[str, object] | None:
        """Read what a run has left; None: it is another's, or cannot be read."""
        try:
            # A line without its end was cut off with its writer: nothing came of it.
            head, *lines = self._path.read_bytes().split(b"\n")[:-1]
            of = msgspec.json.decode(head, type=_Head)
            if (of.run, of.boot) != (after, self._boot):
                return None
            values: dict[str, object] = {}
            for line in lines:
                name, value = msgspec.json.decode(line, type=tuple[str, object])
                values[name] = value
        except (OSError, ValueError, msgspec.DecodeError) as error:
            _log.info("journal.unread", path=str(self._path), error=str(error))
            return None
        return {name: value for name, value in values.items() if value is not None}

    def _write_anew(self) -> None:
        """Write all of it into a new file, in the old one's place."""
        self._close()
        new = self._path.with_name(f"{self._path.name}.new")
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, _MODE)
        try:
            lines = [_line(_Head(self._run, self._boot))]
            lines += [_line([name, value]) for name, value in self._values.items()]
            _write(file, b"".join(lines))
            new.replace(self._path)
        except OSError:
            os.close(file)
            raise
        self._file, self._lines = file, len(self._values)

    def _give_up(self, error: OSError) -> None:
        """Write no more, and leave nothing that might be taken for the whole.

        Raises:
            OSError: it can neither be written nor be emptied.
        """
        _log.error("journal.given_up", path=str(self._path), error=str(error))
        os.truncate(self._path, 0)
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _line(value: object) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def _write(file: int, whole: bytes) -> None:
    """Hand bytes to the kernel, all of them.

    Raises:
        OSError: some were not taken.
    """
    rest = memoryview(whole)
    while rest:
        rest = rest[os.write(file, rest) :]
