"""Programs that the demo runs: their start, their logs, their end, their restarts.

Every program gets a log of its own in the run's folder. It dies with this program,
however that ends (`setpriv --pdeathsig`), and does not get the terminal's Ctrl-C, so
that the demo decides in which order things end.
"""

import asyncio
import contextlib
import signal

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.lab.demo.errors import DemoError
from tests.lab.demo.ground import Ground
from tests.lab.traced.runs import Runs


GRACE = 10.0
RESTART_DELAY = 0.2
TAIL = 600
# Events in the logs of our processes: one that leads works, one that does not answers pods.
WORKING = (b"work.started", b"gate.serving", b"driver.serving")


async def start(
    ground: Ground, log: Path, argv: Sequence[str], *, piped: bool = False
) -> asyncio.subprocess.Process:
    """Start a program in the cluster's network, its output appended to `log`.

    Args:
        ground: where it runs.
        log: gets standard error, and standard output unless `piped`.
        argv: the program and its arguments.
        piped: standard input and output are pipes to the caller.
    """
    with log.open("ab") as file:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *("setpriv", "--pdeathsig", "KILL", *ground.command(*argv)),
            cwd=ground.root,
            env=dict(ground.environment),
            stdin=pipe if piped else asyncio.subprocess.DEVNULL,
            stdout=pipe if piped else file,
            stderr=file,
            start_new_session=True,
            limit=1 << 20,
        )


async def end(child: asyncio.subprocess.Process) -> None:
    """Ask a program to end; kill it if it does not within `GRACE` seconds."""
    for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
        if child.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), patience)


def tail(log: Path) -> str:
    """The end of a log, for a message."""
    return log.read_text(errors="replace")[-TAIL:].strip() if log.exists() else ""


class Supervised:
    """A program that is started again whenever it ends, as a kubelet would do.

    Attributes:
        name: what it is called in messages; names its log.
        kills: how often `kill` killed it.
        crashes: how often it ended without being asked to.
        runs: all of its runs.
    """

    def __init__(self, ground: Ground, name: str, argv: Sequence[str]) -> None:
        self.name = name
        self.kills = 0
        self.crashes = 0
        self._ground = ground
        self._argv = argv
        self._log = ground.folder / f"{name}.log"
        self.runs = Runs(self._log)
        self._child: asyncio.subprocess.Process | None = None
        self._expected = False
        self._may_run = asyncio.Event()
        self._may_run.set()

    def more(self, *words: str) -> None:
        """Give it further arguments from its next start on."""
        self._argv = [*self._argv, *words]

    @property
    def working(self) -> bool:
        """Its log says, since its last start, that it works."""
        if self._child is None or self._child.returncode is not None:
            return False
        with self._log.open("rb") as log:
            log.seek(self.runs.started[-1].place)
            text = log.read()
        return any(event in text for event in WORKING)

    async def run(self, tell: Callable[[str], None]) -> None:
        """Keep it running until cancelled, then end it.

        Args:
            tell: called with a line when the program ended by itself.

        Raises:
            DemoError: it ends again and again.
        """
        try:
            while True:
                await self._may_run.wait()
                await self._once(tell)
                if self.crashes > 5:
                    raise DemoError(
                        f"{self.name} ends again and again, see {self._log}:\n"
                        f"{tail(self._log)}"
                    )
                await asyncio.sleep(RESTART_DELAY * (1 + 5 * self.crashes))
        finally:
            if self._child is not None:
                self._expected = True
                await end(self._child)

    async def _once(self, tell: Callable[[str], None]) -> None:
        """Start it and wait for its end."""
        self._expected = False
        self.runs.begin()
        self._child = await start(self._ground, self._log, self._argv)
        if self.held:
            self.kill()
        code = await self._child.wait()
        self.runs.end()
        if not self._expected:
            self.crashes += 1
            tell(f"{self.name} ended by itself with code {code}")

    @property
    def held(self) -> bool:
        """It is kept from starting."""
        return not self._may_run.is_set()

    def hold(self) -> None:
        """Kill it, and keep it from starting again until `release`."""
        self._may_run.clear()
        self.kill()

    def release(self) -> None:
        """Let it start again."""
        self._may_run.set()

    def kill(self) -> bool:
        """Kill it with SIGKILL; False if it is not running just now."""
        if self._child is None or self._child.returncode is not None:
            return False
        self._expected = True
        self.runs.end()
        self._child.kill()
        self.kills += 1
        return True
