"""What reached a driver, noted in front of its own code: when, by whom, with which answer.

    calls = Calls(pids)
    web.Application(middlewares=[calls.note])

Who calls is told by the machine: the process at the other end of the connection. Of one
that is no more by then nobody knows it.
"""

import asyncio
import contextlib
import json

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from aiohttp import web
from aiohttp.typedefs import Handler

from tests.lab.traced.audit import second


OPERATIONS = {
    "ensureBackend": "ensure",
    "deregisterBackend": "deregister",
    "drainBackend": "drain",
    "generateBackendAddr": "generate",
}
_LATE = "not performed: its notAfter"
"""How the SDK refuses what comes late."""


@attrs.define
class Call:
    """A call that arrived.

    Attributes:
        op: as the model names it.
        record: uid.
        pid: of who calls; 0: unknown.
        address: of the member.
        not_after: until when it may be performed, as it says.
        drained: it says that nothing was left.
        began: when it had arrived.
        ended: when it was answered; None: it was not.
        outcome: succeeded, running, refused, or failed for what is no valid answer.
        heard: whoever called was there still when it was answered.
        late: it was refused for having come late.
    """

    op: str
    record: str
    pid: int
    address: str
    not_after: float
    drained: bool
    began: float
    ended: float | None = None
    outcome: str = "unanswered"
    heard: bool = False
    late: bool = False


def _now() -> float:
    """Return the present as tapes have it."""
    return second(datetime.now(UTC))


class Calls:
    """All calls about members, in the order of their arrival.

    Args:
        pids: of our processes.
    """

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self.all: list[Call] = []
        self._candidates = pids
        self._pids: dict[asyncio.BaseTransport, int] = {}

    @web.middleware
    async def note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note a call and its answer."""
        op = OPERATIONS.get(request.path.strip("/"))
        if op is None:
            return await handler(request)
        began, pid = _now(), self._caller(request)
        call = _call(op, await request.json(), pid, began)
        self.all.append(call)
        response = await handler(request)
        call.ended = _now()
        call.heard = request.transport is not None
        call.outcome, call.late = _outcome(response)
        return response

    def _caller(self, request: web.Request) -> int:
        """Return the process at the other end; a connection stays with one."""
        transport = request.transport
        if transport is None:
            return 0
        if transport not in self._pids:
            peer = transport.get_extra_info("peername")
            here = transport.get_extra_info("sockname")
            self._pids[transport] = owner_of(peer[1], here[1], self._candidates())
        return self._pids[transport]


def _call(op: str, body: dict[str, Any], pid: int, began: float) -> Call:
    """Read a request."""
    return Call(
        op=op,
        record=body["recordID"],
        pid=pid,
        address=body.get("backendAddr", ""),
        not_after=second(datetime.fromisoformat(body["notAfter"])),
        drained=bool(body.get("drained")),
        began=began,
    )


def _outcome(response: web.StreamResponse) -> tuple[str, bool]:
    """Read an answer, and whether it refuses what came late."""
    body = getattr(response, "body", None)
    if response.status != 200 or not isinstance(body, bytes):
        return "failed", False
    answer = json.loads(body)
    words = {"Succ": "succeeded", "Running": "running", "Fail": "refused"}
    late = str(answer.get("msg", "")).startswith(_LATE)
    return words.get(answer.get("status"), "failed"), late


def owner_of(port: int, remote: int, pids: Iterable[int]) -> int:
    """Return the process with a connection of the loopback; 0: none of these has it.

    Args:
        port: its own end.
        remote: the other end.
        pids: of those who may have it.
    """
    inode = _inode(port, remote)
    wanted = f"socket:[{inode}]"
    found = (pid for pid in pids if inode and wanted in _files(pid))
    return next(found, 0)


def _files(pid: int) -> Iterator[str]:
    """Name what a process has open."""
    with contextlib.suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                yield str(file.readlink())


def _inode(port: int, remote: int) -> int:
    """Find a connection among those of the machine."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ends = [int(end.rpartition(":")[2], 16) for end in fields[1:3]]
        if ends == [port, remote]:
            return int(fields[9])
    return 0
