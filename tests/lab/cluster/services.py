"""Runs services for as long as the cluster lives, and starts them again.

A `Supervisor` is the whole of a background process: `supervisor` runs one for the
control plane, `node` one as PID 1 of each node. It is steered by files alone: a
file in `holds/` keeps a service down, a file in `pids/` tells that it runs.
Single-threaded on purpose: as PID 1 it has to reap strangers too (`waitpid(-1)`),
which no library's child watcher survives.
"""

import contextlib
import os
import shutil
import signal
import socket
import sys
import time

from collections.abc import Callable
from typing import NoReturn

import attrs

from tests.lab.cluster.layout import Layout
from tests.lab.cluster.pids import Pid


TICK = 0.1  # seconds between two looks at the files
PAUSE = 0.5  # seconds before a service that ended starts again
ENDING = {signal.SIGTERM, signal.SIGINT}


@attrs.frozen
class Service:
    """One program to keep running.

    Attributes:
        name: Its name among the files of the cluster.
        argv: The command line.
        prepare: Called before each start.
    """

    name: str
    argv: tuple[str, ...]
    prepare: Callable[[], None] = lambda: None


class Supervisor:
    """Keeps services running until it is told to end.

    Ends itself, and with it every service, when it gets SIGTERM or when the other
    end of `leash` closes before it said `stay`: a crashed `up` leaves nothing.
    """

    def __init__(self, layout: Layout, leash: socket.socket | None = None) -> None:
        self._layout = layout
        self._leash = leash
        self._services: dict[str, Service] = {}
        self._running: dict[int, Service] = {}
        self._due: dict[str, float] = {}
        # Blocked, so that `sigtimedwait` gets them: also as PID 1, for which the
        # kernel drops signals that have neither a handler nor a blocker.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *ENDING})
        if leash is not None:
            leash.setblocking(False)  # positional by definition

    def add(self, service: Service) -> None:
        """Start a service and keep it running from now on."""
        self._services[service.name] = service
        self._due[service.name] = 0
        self._turn()

    def report(self, milestone: str) -> None:
        """Tell the caller at the other end of the leash how far the start is."""
        if self._leash is not None:
            self._leash.sendall(milestone.encode() + b"\n")

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Keep everything running until a condition holds; asked every tick."""
        while not condition():
            self._wait()
            self._turn()

    def run(self) -> NoReturn:
        """Keep everything running until told to end."""
        while True:
            self._wait()
            self._turn()

    def _wait(self) -> None:
        """Sleep a tick, or until a child ends; leave on a signal to end."""
        caught = signal.sigtimedwait({signal.SIGCHLD, *ENDING}, TICK)
        if caught is not None and caught.si_signo in ENDING:
            self._end()
        self._feel_leash()

    def _feel_leash(self) -> None:
        """See whether the caller let go (`stay`) or died (end of file)."""
        if self._leash is None:
            return
        try:
            word = self._leash.recv(16)
        except BlockingIOError:
            return
        except ConnectionResetError:
            word = b""
        self._leash.close()
        self._leash = None
        if not word:
            self._end()

    def _turn(self) -> None:
        """One look at everything: the dead, the held, the ones to start."""
        self._reap()
        held = {path.name for path in self._layout.holds.iterdir()}
        for pid, service in self._running.items():
            if service.name in held:
                os.kill(pid, signal.SIGKILL)
        now = time.monotonic()
        for name, due in list(self._due.items()):
            if due <= now and name not in held:
                self._start(self._services[name])

    def _start(self, service: Service) -> None:
        """Start a service; its output is appended to its log."""
        del self._due[service.name]
        try:
            service.prepare()
        except (OSError, RuntimeError) as error:
            print(f"{service.name}: {error}", file=sys.stderr, flush=True)
            self._due[service.name] = time.monotonic() + PAUSE
            return
        # The kernel ends the service when this supervisor dies, however it dies.
        argv = ["setpriv", "--pdeathsig", "KILL", "--", *service.argv]
        log = str(self._layout.logs / f"{service.name}.log")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawnp(
            argv[0],
            argv,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsigmask=(),
        )
        self._running[pid] = service
        if (named := Pid.of(pid)) is not None:
            named.write(self._layout.pids / service.name)

    def _reap(self) -> None:
        """Collect the dead: services are due again, orphans are forgotten."""
        while (pid := _next_dead()) is not None:
            service = self._running.pop(pid, None)
            if service is not None:
                (self._layout.pids / service.name).unlink(missing_ok=True)
                self._due[service.name] = time.monotonic() + PAUSE

    def _end(self) -> NoReturn:
        """End every service and then this process.

        Also waits for strangers that were adopted, such as a node's first process:
        its control groups can be removed only after its end.
        """
        for pid in self._running:
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        shutil.rmtree(self._layout.pids)
        self._layout.pids.mkdir()
        raise SystemExit


def _next_dead() -> int | None:
    """The pid of a child that ended, now reaped, or None."""
    try:
        pid, _ = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return pid or None
