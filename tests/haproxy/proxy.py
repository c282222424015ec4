"""A real HAProxy of one test: master and worker, in a folder of its own.

The frontend and the backend are both called `web`, as many people call them; the
backend has two servers of somebody else, neither of which ever gets a request.
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import tempfile

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Self

import attrs

from tests.haproxy.waiting import until
from tests.lab.cluster.ports import free_ports
from tests.patience import PATIENCE
from webhooks.haproxy.connection import Limits, exchange
from webhooks.haproxy.endpoints import Endpoint
from webhooks.haproxy.errors import HaproxyError


_ACCEPTS = "00010000"
"""A flag of sockets in /proc/net/unix: they listen."""
MISSING = "haproxy is not installed: run `make packages`"

CONFIGURATION = """\
global
  stats socket {folder}/admin.sock mode 600 level admin
  stats socket {folder}/user.sock mode 600 level user
  stats socket ipv4@127.0.0.1:{runtime_port} level admin
  stats timeout 30s
  hard-stop-after 10s
  nbthread 2
  maxconn 2000
defaults
  mode http
  timeout connect 2s
  timeout client 10m
  timeout server 10m
  retries 0
frontend web
  bind 127.0.0.1:{web}
  default_backend web
backend web
  balance roundrobin
  server foreign-1 127.0.1.250:9 disabled weight 33
  server foreign-2 127.0.1.251:9 check inter 100ms weight 44 disabled
  server lbcf 127.0.1.252:9 disabled
  server lbcfx-1 127.0.1.253:9 disabled
frontend cookies
  bind 127.0.0.1:{cookies}
  default_backend cookies
backend cookies
  balance roundrobin
  cookie SRV insert indirect nocache dynamic
  dynamic-cookie-key key
frontend sticky
  bind 127.0.0.1:{sticky}
  default_backend sticky
backend sticky
  balance roundrobin
  stick-table type string len 32 size 1k expire 30m
  stick on hdr(x-user)
frontend tcp
  mode tcp
  bind 127.0.0.1:{tcp}
  default_backend tcp
backend tcp
  mode tcp
  balance leastconn
frontend waiting
  bind 127.0.0.1:{waiting}
  option idle-close-on-response
  default_backend waiting
backend waiting
  balance roundrobin
  timeout connect 500ms
  retries 10
  option redispatch 1
  server nobody 127.0.0.1:1 backup
frontend slots
  bind 127.0.0.1:{slots}
  default_backend slots
backend slots
  balance static-rr
  server foreign-1 127.0.1.250:9 disabled
  server lbcf.x 127.0.1.251:9 disabled
  server-template lbcf. 3 127.0.0.1:1 disabled check inter 100ms rise 1
backend many
  balance source
  server-template lbcf. 40 127.0.0.1:1 disabled
backend leaving
  balance roundrobin
  option httpchk GET /health
  http-check disable-on-404
  server foreign-1 127.0.1.250:9 check inter 100ms fall 1
backend fixed
  balance static-rr
backend hashed
  balance source
backend consistent
  balance source
  hash-type consistent
"""

FRONTENDS = ("web", "cookies", "sticky", "tcp", "waiting", "slots")
"""Those that can be reached; each has a backend of its name."""

FOREIGN = ("foreign-1", "foreign-2", "lbcf", "lbcfx-1")
"""Servers of somebody else, two of them with names that nearly look like ours."""

_CHANGING = ("srv_time_since_last_change", "srv_check_status", "srv_check_result")
"""Columns that HAProxy changes by itself."""


@attrs.define(eq=False)
class Haproxy:
    """A running HAProxy.

    Attributes:
        folder: of its sockets and configuration.
        ports: of its frontends on 127.0.0.1, by their names.
        runtime_port: of its runtime API on 127.0.0.1.
    """

    folder: Path
    ports: Mapping[str, int]
    runtime_port: int
    _master: asyncio.subprocess.Process

    @classmethod
    async def start(cls, folder: Path) -> Self:
        """Start it and wait for its runtime API.

        Raises:
            FileNotFoundError: it is not installed; says how to get it.
        """
        if shutil.which("haproxy") is None:
            raise FileNotFoundError(MISSING)
        runtime_port, *free = free_ports(1 + len(FRONTENDS))
        ports = dict(zip(FRONTENDS, free, strict=True))
        text = CONFIGURATION.format(folder=folder, runtime_port=runtime_port, **ports)
        (folder / "haproxy.cfg").write_text(text)
        proxy = cls(folder, ports, runtime_port, await _started(folder))
        await proxy._is_up()
        return proxy

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls) -> AsyncIterator[Self]:
        """Run one in a folder of its own for a block."""
        # Short: a unix socket's path has no room for the test's name.
        with tempfile.TemporaryDirectory(prefix="lbcf-haproxy-", dir="/tmp") as folder:
            proxy = await cls.start(Path(folder))
            try:
                yield proxy
            finally:
                await proxy.stop()

    async def restart(self) -> None:
        """Start it anew after it has ended, as a supervisor would."""
        self._master = await _started(self.folder)
        await self._is_up()

    async def _is_up(self) -> None:
        """Wait until it answers and can be reloaded."""
        await self.worker()
        await until(self._heeds_signals)

    async def stop(self) -> None:
        """End it at once, hung or not, and all old workers with it."""
        if self._master.returncode is not None:
            return
        # By its group: a worker that hangs, or has no slot left, tells nobody its id.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._master.pid, signal.SIGKILL)
        await self._master.wait()
        # A worker that is killed takes connections for a moment more, and resets them.
        await until(self._refuses)

    async def _refuses(self) -> bool:
        """Tell whether no process of it listens any more."""
        try:
            _, writer = await asyncio.open_unix_connection(self.socket)
        except OSError:
            return True
        writer.close()
        return False

    async def reload(self) -> None:
        """Let a new worker take over, and wait until it alone answers.

        When the new one answers for the first time, the old one may do so once more: both
        accept connections until the old one is told to stop.
        """
        before = await self.worker()
        await self.ask_to_reload()

        async def replaced() -> bool:
            is_new = await self.answering() not in {0, before}
            return is_new and not _listens(before, self.socket)

        await until(replaced)

    async def ask_to_reload(self) -> None:
        """Let a new worker take over as soon as it can."""
        await until(self._heeds_signals)
        self._master.send_signal(signal.SIGUSR2)

    async def _heeds_signals(self) -> bool:
        """Tell whether the master would reload now.

        A new worker answers some time before that, while its master, executing itself
        anew, ignores SIGUSR2 (measured on HAProxy 2.6.12).
        """
        status = _proc_status(self._master.pid)
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
        return caught is not None and bool(
            int(caught[1], 16) & 1 << (signal.SIGUSR2 - 1)
        )

    @contextlib.asynccontextmanager
    async def hung(self) -> AsyncIterator[None]:
        """Stop the worker from running for a while."""
        worker = await self.worker()
        os.kill(worker, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(worker, signal.SIGCONT)

    async def worker(self) -> int:
        """Return the process id of the worker, once one answers.

        Raises:
            TimeoutError: none does.
        """
        found = 0

        async def is_there() -> bool:
            nonlocal found
            found = await self.answering()
            return found > 0

        await until(is_there)
        return found

    async def answering(self) -> int:
        """Return the process id of the worker; 0: there is none that answers."""
        try:
            answer = await exchange(Endpoint(path=self.socket), "show info", Limits())
        except HaproxyError:
            return 0
        lines = dict(
            line.split(": ", 1) for line in answer.splitlines() if ": " in line
        )
        return int(lines["Pid"])

    @property
    def socket(self) -> str:
        """The path of the runtime API."""
        return str(self.folder / "admin.sock")

    @property
    def url(self) -> str:
        """Where requests go."""
        return self.url_of("web")

    def url_of(self, frontend: str) -> str:
        """Return where requests to a frontend go."""
        return f"http://127.0.0.1:{self.ports[frontend]}"

    async def ask(self, line: str) -> str:
        """Send a line to the runtime API, as any person might."""
        limits = Limits(patience=timedelta(seconds=PATIENCE))
        return await exchange(Endpoint(path=self.socket), line, limits)

    async def read(self, line: str) -> str:
        """Ask something, again and again until it is answered.

        In a reload an old worker leaves what it has not taken yet without an answer.
        """
        answer = ""

        async def is_answered() -> bool:
            nonlocal answer
            with contextlib.suppress(HaproxyError):
                answer = await exchange(Endpoint(path=self.socket), line, Limits())
            return bool(answer)

        await until(is_answered)
        return answer

    async def rows(self, backend: str = "web") -> dict[str, dict[str, str]]:
        """Return the servers' states by name, without what changes by itself."""
        answer = await self.read(f"show servers state {backend}")
        _, header, *lines = answer.strip().splitlines()
        names = header.removeprefix("# ").split()
        rows = [dict(zip(names, line.split(" "), strict=True)) for line in lines]
        return {
            row["srv_name"]: {
                name: value for name, value in row.items() if name not in _CHANGING
            }
            for row in rows
        }

    async def foreign(self) -> dict[str, dict[str, str]]:
        """Return the servers of other people."""
        return {
            name: row for name, row in (await self.rows()).items() if name in FOREIGN
        }

    async def ours(self) -> list[str]:
        """Return the names of all other servers."""
        return sorted(set(await self.rows()) - set(FOREIGN))


async def _started(folder: Path) -> asyncio.subprocess.Process:
    """Start the master of the HAProxy whose configuration is in a folder."""
    command = ("haproxy", "-W", "-db", "-f", str(folder / "haproxy.cfg"))
    with (folder / "haproxy.log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *command, stdout=log, stderr=log, process_group=0
        )


def _listens(pid: int, path: str) -> bool:
    """Return whether a process still listens on a path, or on what was renamed to it."""
    # HAProxy binds `PATH.PID.tmp`, and renames that.
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    sockets = {
        f"socket:[{inode}]"
        for *_, flags, _, _, inode, bound in (one for one in lines if len(one) > 7)
        if flags == _ACCEPTS and bound.startswith(path)
    }
    opened: set[str] = set()
    is_gone = contextlib.suppress(FileNotFoundError, ProcessLookupError)
    with is_gone:
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with is_gone:
                opened.add(str(file.readlink()))
    return not sockets.isdisjoint(opened)


def _proc_status(pid: int) -> str:
    """Return what the kernel says of a process."""
    return Path(f"/proc/{pid}/status").read_text("ascii")
