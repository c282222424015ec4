"""HAProxy as the demo runs it, and what its runtime API says about the members.

The configuration hides nothing: no retries, no redispatch. A request that HAProxy sends
to a pod which is gone fails, and the load generator counts it. The backend is empty:
all members come from the driver.

Runtime API as in the HAProxy management guide 9.3; one connection per command and
reading to the end of it, as a connection kept over a reload talks to the old worker
(measured on HAProxy 2.6.12).
"""

import asyncio
import csv
import signal

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import attrs

from tests.lab.demo.errors import DemoError
from tests.lab.demo.proxy import Member, Proxy, Snapshot


BACKEND = "pods"
LIMIT = 2.0
REPLY_SIZE = 1 << 20
SERVERS_ONLY = 4
SNAPSHOT = f"show info;show stat {BACKEND} {SERVERS_ONLY} -1"
SOCKET_PATH_SIZE = 100  # bytes that a unix socket's path may have, less HAProxy's own

CONFIGURATION = """\
global
  stats socket {socket} mode 600 level admin
  stats maxconn 50
  stats timeout 30s
  nbthread 2
  maxconn 4000
defaults
  mode http
  log stdout format raw local0
  option httplog
  option dontlog-normal
  timeout connect 2s
  timeout client 60s
  timeout server 30s
  timeout http-keep-alive 10m
  retries 0
{defaults}frontend web
  bind {address}
  http-after-response set-header x-member %[srv_name]
  default_backend {backend}
backend {backend}
  balance roundrobin
"""


@attrs.frozen
class HAProxy(Proxy):
    """A running HAProxy: its master program and its runtime socket."""

    cuts_requests: ClassVar[bool] = False
    http2: ClassVar[bool] = False

    child: asyncio.subprocess.Process
    socket: Path

    @property
    def lb_spec(self) -> Mapping[str, str]:
        """Its backend."""
        return {"sockets": str(self.socket), "backend": BACKEND}

    @property
    def attributes(self) -> Mapping[str, str]:
        """It has none."""
        return {}

    @property
    def driver(self) -> Sequence[str]:
        """Its driver may use its socket."""
        return ("webhooks.haproxy", "--allow-sockets", str(self.socket))

    async def look(self) -> Snapshot:
        """Ask for its members.

        Raises:
            DemoError: it does not answer, or not with that.
        """
        return await look(self.socket)

    async def restart(self) -> None:
        """Have it hand over to a new worker, which has no members yet."""
        self.child.send_signal(signal.SIGUSR2)


def write_configuration(
    path: Path, socket: Path, address: str, defaults: str = ""
) -> None:
    """Write HAProxy's configuration.

    Args:
        path: of the file.
        socket: of its runtime API.
        address: where it listens.
        defaults: further lines of that section; of two that say the same the last
            counts.

    Raises:
        DemoError: the socket's path is too long for a unix socket.
    """
    if len(str(socket)) > SOCKET_PATH_SIZE:
        raise DemoError(f"{socket} is too long for a socket: set TMPDIR to a shorter")
    text = CONFIGURATION.format(
        socket=socket, address=address, backend=BACKEND, defaults=defaults
    )
    path.write_text(text)


def parse_snapshot(text: str) -> Snapshot:
    """Read the answer to `show info;show stat ...`.

    Raises:
        DemoError: it is not that answer.
    """
    head, found, table = text.partition("\n# ")
    facts = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    if not found or "Pid" not in facts:
        raise DemoError(f"HAProxy answered {text[:80]!r} to {SNAPSHOT!r}")
    rows = csv.DictReader(table.splitlines())
    return Snapshot(facts["Pid"], tuple(_member(row) for row in rows if row["svname"]))


def _member(row: dict[str, str]) -> Member:
    """Read one row of `show stat`."""
    sessions = int(row["scur"] or 0) + int(row["qcur"] or 0)
    return Member(row["svname"], row.get("addr") or "", row["status"], sessions)


async def look(socket: Path) -> Snapshot:
    """Ask a running HAProxy for its members.

    Raises:
        DemoError: it does not answer, or not with that.
    """
    try:
        async with asyncio.timeout(LIMIT):
            return parse_snapshot(await ask(socket, SNAPSHOT))
    except (OSError, TimeoutError) as error:
        raise DemoError(f"HAProxy does not answer at {socket}: {error}") from error


async def ask(socket: Path, line: str) -> str:
    """Send one command line and read to the end of the connection."""
    reader, writer = await asyncio.open_unix_connection(socket, limit=REPLY_SIZE)
    try:
        writer.write(f"{line}\n".encode())
        return (await reader.read()).decode()
    finally:
        writer.close()
