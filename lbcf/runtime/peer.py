"""Notices the end of a process on another machine: its kernel closes its connections.

`lbcf.kube.lease` follows the leader by it, so that a leader that was killed is replaced
long before its Lease runs out. What this says is a hint, not a proof: whoever acts on it
writes the Lease by compare-and-swap, and two leaders at once do no harm.
"""

import asyncio
import contextlib

from datetime import timedelta

import structlog

from lbcf.runtime.clock import Clock


_log = structlog.get_logger(__name__)

_CONNECT = 1.0
"""Seconds that a new connection may take; later than that, nothing is known."""
_PAUSE = timedelta(seconds=1)
"""Between two connections, when the other side closes them or cannot be reached."""


async def until_refused(host: str, port: int, clock: Clock) -> None:
    """Return when a port that took connections refuses them.

    A connection is kept open and nothing is sent on it. When it ends, another one is made
    at once: a server that only closed an idle connection takes it. A process that has
    ended does not listen any more, so its machine refuses. Where a machine is off, or a
    firewall drops packets, nothing answers, and this waits.

    Never returns for a port that has refused from the beginning: a firewall may do that.
    """
    has_answered = False
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
            if not has_answered:
                _log.info("leader.followed", host=host, port=port)
            has_answered = True
            began = clock.monotonic()
            await _until_closed(reader, writer)
            if clock.monotonic() - began >= _PAUSE.total_seconds():
                continue
        await clock.sleep(_PAUSE)


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
