"""Tells one run of a process from all others, and whether another run has ended.

`lbcf.kube.leader_election` writes the identity of a leader into its Lease: a process that
starts in the place of a leader that was killed then knows at once that nobody leads. On
another machine the end of a leader shows when its kernel closes its connections.

Identities are read from /proc (proc(5), pid_namespaces(7)); elsewhere than on Linux no
process has one, and nobody is ever known to have ended.
"""

import asyncio
import contextlib
import os

from datetime import timedelta
from pathlib import Path
from typing import Protocol

import attrs
import structlog

from lbcf.runtime.clock import Clock


_PROC = Path("/proc")
_ENDED_STATES = frozenset({"Z", "X"})
"""A zombie and a dead process run no code any more."""
_STATE, _START_TIME = 0, 19
"""Fields of /proc/PID/stat, counted behind the command's closing parenthesis."""


@attrs.frozen
class ProcessIdentity:
    """One run of a process.

    Attributes:
        boot: id of the kernel's boot, another one after each.
        pid_namespace: inode of the PID namespace in which `pid` has a meaning.
        pid: process id there.
        started: when it began, in clock ticks since the boot: a process that gets the
            same pid later has another.
        container: uid of the pod and name of the container, empty outside of pods.
        host: address at which other machines reach it, empty where they cannot.
        port: where it listens there.
    """

    boot: str
    pid_namespace: int
    pid: int
    started: int
    container: str = ""
    host: str = ""
    port: int = 0


class ProcessWitness(Protocol):
    """Says who this process is, and whether another one has ended."""

    @property
    def own(self) -> ProcessIdentity | None:
        """Return the identity of this process, None where it cannot be known."""

    def has_ended(self, other: ProcessIdentity) -> bool:
        """Return whether another run provably has ended; False where nobody knows."""


class SystemWitness:
    """The witness that asks the kernel.

    Args:
        container: of this process, as in `ProcessIdentity`; so are host and port.
        host: where others reach it.
        port: where it listens there.
    """

    def __init__(self, container: str = "", host: str = "", port: int = 0) -> None:
        found = _read_own()
        self._own = found and attrs.evolve(
            found, container=container, host=host, port=port
        )

    @property
    def own(self) -> ProcessIdentity | None:
        """Return the identity of this process, None elsewhere than on Linux."""
        return self._own

    def has_ended(self, other: ProcessIdentity) -> bool:
        """Return whether another run provably has ended.

        A process of the same PID namespace is looked up. The number of a namespace is
        given again only when all of its processes have ended, and a machine that booted
        anew has another boot id. A container is started again only when its last run
        has ended, so a run of the same container in another namespace has, too.
        """
        own = self._own
        if own is None:
            return False
        here = (own.boot, own.pid_namespace)
        if here == (other.boot, other.pid_namespace):
            return not _runs(other.pid, other.started)
        return bool(own.container) and own.container == other.container


def _read_own() -> ProcessIdentity | None:
    """Read who this process is; None where /proc does not tell."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = (_PROC / "self/ns/pid").stat().st_ino
        started = int(_stat_of(os.getpid())[_START_TIME])
    except (OSError, ValueError, IndexError):
        return None
    return ProcessIdentity(boot, namespace, os.getpid(), started)


def _runs(pid: int, started: int) -> bool:
    """Return whether a process may still run; True where that cannot be read."""
    try:
        # Where /proc hides the processes of others (hidepid), signal 0 still finds them.
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    try:
        fields = _stat_of(pid)
        return (
            fields[_STATE] not in _ENDED_STATES and int(fields[_START_TIME]) == started
        )
    except (OSError, ValueError, IndexError):
        return True


def _stat_of(pid: int) -> list[str]:
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


_log = structlog.get_logger(__name__)

_CONNECT = 1.0
"""Seconds that a new connection may take; later than that, nothing is known."""
_FIRST_PAUSE = timedelta(milliseconds=50)
"""After a connection has ended: the kernel closes what a dead process had one by one, and
its port may take another connection before it is closed, too."""
_LONGEST_PAUSE = timedelta(seconds=1)
"""Between two connections, where the other side closes them or cannot be reached."""


async def until_refused(host: str, port: int, clock: Clock) -> None:
    """Return when a port that took connections refuses them.

    A connection is kept open and nothing is sent on it. When it ends, another one is made
    very soon: a server that only closed an idle connection takes it. A process that has
    ended does not listen any more, so its machine refuses. Where a machine is off, or a
    firewall drops packets, nothing answers, and this waits.

    Never returns for a port that has refused from the beginning: a firewall may do that.

    That it returns is a hint, not a proof: whoever acts on it writes the Lease by
    compare-and-swap, so a leader that still runs finds the Lease taken when it renews.
    """
    has_answered = False
    pause = _LONGEST_PAUSE
    while True:
        try:
            async with asyncio.timeout(_CONNECT):
                reader, writer = await asyncio.open_connection(host, port)
        except ConnectionRefusedError:
            if has_answered:
                return
        except (OSError, TimeoutError):
            pass
        else:
            began = clock.monotonic()
            if not has_answered:
                _log.info("leader.followed", host=host, port=port)
            await _until_closed(reader, writer)
            lasted = timedelta(seconds=clock.monotonic() - began)
            if not has_answered or lasted >= _LONGEST_PAUSE:
                pause = _FIRST_PAUSE
            has_answered = True
        await clock.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _until_closed(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Wait for the end of a connection; what is received is thrown away."""
    try:
        with contextlib.suppress(OSError):
            while await reader.read(4096):
                pass
    finally:
        writer.close()
