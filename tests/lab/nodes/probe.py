"""`python -m tests.lab.nodes.probe HOST PORT`: connects all the time, in the cluster's network.

Prints when each connection began that failed (RFC 3339, UTC), as soon as it has, until it
is killed.
"""

import asyncio
import sys

from datetime import UTC, datetime


BETWEEN = 0.005
GIVEN_UP = 0.5
"""Seconds; a connection within the machine takes a few milliseconds."""


async def probe_forever(host: str, port: int) -> None:
    """Begin one connection after the other, without waiting for their ends."""
    async with asyncio.TaskGroup() as probes:
        while True:
            probes.create_task(_probe(host, port))
            await asyncio.sleep(BETWEEN)


async def _probe(host: str, port: int) -> None:
    """Connect once."""
    began = datetime.now(UTC)
    try:
        async with asyncio.timeout(GIVEN_UP):
            _, writer = await asyncio.open_connection(host, port)
    except OSError:
        print(began.isoformat(), flush=True)
        return
    writer.close()


if __name__ == "__main__":
    asyncio.run(probe_forever(sys.argv[1], int(sys.argv[2])))
