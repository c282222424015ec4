"""`python -m tests.lab.nodes.opening HOST PORT`: waits until a site answers all for a while.

It asks in the cluster's network. A node may be registered before kube-proxy has written
its rules there: for a moment it refuses what HAProxy sends. The script is about what
happens afterwards.
"""

import asyncio
import sys
import time


SPELL = 2.0
"""Seconds of answers, one request after the other: each node gets its share of them."""
BETWEEN = 0.02
GIVEN_UP = 2.0


async def until_open(host: str, port: int) -> None:
    """Ask until all has been answered for `SPELL`."""
    since = time.monotonic()
    while time.monotonic() - since < SPELL:
        if not await _answers(host, port):
            since = time.monotonic()
        await asyncio.sleep(BETWEEN)


async def _answers(host: str, port: int) -> bool:
    """Tell whether a request gets its page."""
    try:
        async with asyncio.timeout(GIVEN_UP):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
            line = await reader.readline()
    except OSError:
        return False
    writer.close()
    return line.split()[1:2] == [b"200"]


if __name__ == "__main__":
    asyncio.run(until_open(sys.argv[1], int(sys.argv[2])))
