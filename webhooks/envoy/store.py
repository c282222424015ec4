"""The driver's state on disk: what was sent to Envoys was written first.

    DIRECTORY/lock              held by the one process that uses the directory
    DIRECTORY/epoch             names this state; versions of resources begin with it
    DIRECTORY/restored          names the last time that older files were put back; mostly there is none
    DIRECTORY/envoys.json       Envoys that are, or may be, there, by fleet
    DIRECTORY/balancers/*.json  a file for each load balancer

A file is replaced as a whole (write, fsync, rename, fsync of the folder), so that a process
that dies at any moment leaves the old one or the new one.
"""

import contextlib
import fcntl
import os
import threading

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import attrs
import msgspec

from webhooks.envoy.balancers import Balancer, Identity


_T = TypeVar("_T")

_PARTIAL = ".new"

Step = Callable[[str], None]


def _ignored(_: str) -> None:
    """Let a step pass."""


@attrs.define(eq=False)
class Store:
    """One state directory; `lock` comes before all else.

    Attributes:
        folder: of the state.
        step: is told of each step before it is taken, so that tests can end there.
    """

    folder: Path
    step: Step = _ignored
    _lock: int | None = attrs.field(default=None, init=False)
    _writing: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def lock(self) -> bool:
        """Take the directory for this process; False: another one has it.

        Raises:
            OSError: it cannot be made.
        """
        self._balancers.mkdir(parents=True, exist_ok=True)
        held = os.open(
            self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            return False
        self._lock = held
        for path in (
            *self.folder.glob(f"*{_PARTIAL}"),
            *self._balancers.glob(f"*{_PARTIAL}"),
        ):
            path.unlink()
        return True

    def release(self) -> None:
        """Let another process have it, once what is being written is."""
        with self._writing:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def epoch(self, new: str) -> str:
        """Return the name of this state; a new one where the directory is empty.

        Raises:
            OSError: it cannot be read, or not written.
        """
        path = self.folder / "epoch"
        if not path.exists():
            self._replace(path, new.encode())
        return path.read_text().strip()

    @property
    def restored(self) -> str:
        """What changes when older files are put back, as from a backup; empty: none were.

        Raises:
            OSError: it cannot be read.
        """
        path = self._restored
        return path.read_text().strip() if path.exists() else ""

    def restore(self, new: str) -> None:
        """Have `restored` change: files that cannot be read are put back before the next start.

        Raises:
            OSError: it cannot be written.
        """
        self._replace(self._restored, new.encode())

    def load(self) -> Mapping[Identity, Balancer]:
        """Read all load balancers.

        Raises:
            OSError: one cannot be read: a driver that knows a part would take the rest
                away from Envoys.
        """
        found = [_read(path, Balancer) for path in self._balancers.glob("*.json")]
        return {one.identity: one for one in found}

    def save(self, changed: Mapping[Identity, Balancer | None]) -> None:
        """Write load balancers; None: it is deleted.

        Raises:
            OSError: the disk is full, or the like; some may be written.
        """
        with self._held():
            for known, balancer in changed.items():
                path = self._balancers / f"{quote(str(known), safe='')}.json"
                if balancer is not None:
                    self._replace(path, msgspec.json.encode(balancer))
                    continue
                self.step("delete")
                path.unlink(missing_ok=True)
                self._sync(self._balancers)

    def load_envoys(self) -> Mapping[str, Sequence[str]]:
        """Read which Envoys were there, by fleet.

        Raises:
            OSError: as `load` says.
        """
        path = self.folder / "envoys.json"
        return _read(path, dict[str, list[str]]) if path.exists() else {}

    def save_envoys(self, known: Mapping[str, Sequence[str]]) -> None:
        """Write which Envoys are there.

        Raises:
            OSError: the disk is full, or the like.
        """
        with self._held():
            self._replace(self.folder / "envoys.json", msgspec.json.encode(known))

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Keep the directory for a block: a write goes on when nobody waits for it any more.

        Raises:
            OSError: this process has given it up.
        """
        with self._writing:
            if self._lock is None:
                raise OSError(f"{self.folder} is not this process's")
            yield

    @property
    def _balancers(self) -> Path:
        return self.folder / "balancers"

    @property
    def _restored(self) -> Path:
        return self.folder / "restored"

    def _replace(self, path: Path, content: bytes) -> None:
        """Have a file say something else, all of it or nothing."""
        partial = path.with_name(path.name + _PARTIAL)
        self.step("write")
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self.step("rename")
        partial.rename(path)
        self._sync(path.parent)

    def _sync(self, folder: Path) -> None:
        """Have names in a folder outlive a crash of the machine."""
        self.step("sync")
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _read(path: Path, kind: type[_T]) -> _T:
    """Read a file.

    Raises:
        OSError: it is not what this driver wrote.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.MsgspecError as error:
        raise OSError(
            f"{path} cannot be read ({error}): put it back from a backup; members that it "
            "does not have are registered anew then, and those that were deregistered since "
            "are in service again, listed as orphans (docs/envoy.md, restarts)"
        ) from error
