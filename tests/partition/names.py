"""Calls drivers by names of which some hang; run inside of namespaces of its own.

    python -m tests.partition.names

There is a name server at 127.0.0.1:53 that knows `good.web.svc.cluster.test`, and says nothing of
names with `hanging` in them. /etc/resolv.conf searches as a pod's does. Prints a line of JSON:
what became of the good drivers' calls while hanging ones were called.
"""

import asyncio
import json

from datetime import timedelta
from typing import cast

import structlog
import uvloop

from prometheus_client import CollectorRegistry

from lbcf.core.operations import Operation
from lbcf.drivers.errors import DriverError
from lbcf.drivers.pool import DriverPool
from lbcf.runtime.clock import SystemClock
from tests.drivers.servers import (
    BESIDE_US,
    REQUEST,
    a_driver,
    replying,
    response,
    serving,
)


KNOWN = b"\x04good\x03web\x03svc\x07cluster\x04test\x00"
HANGING = 16
PATIENT = timedelta(seconds=3)


class NameServer(asyncio.DatagramProtocol):
    """Knows one name, hangs for some, and denies the rest."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what answers are sent by."""
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer a question (RFC 1035, 4.1)."""
        if b"hanging" in data:
            return
        end = data.index(b"\x00", 12) + 5
        question, kind = data[12:end], data[end - 4 : end - 2]
        known = question[:-4].lower() == KNOWN
        answers = known and kind == b"\x00\x01"
        flags = b"\x81\x80" if known else b"\x81\x83"
        counts = b"\x00\x01" + (b"\x00\x01" if answers else b"\x00\x00") + bytes(4)
        found = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\x7f\x00\x00\x01"
        self.transport.sendto(
            data[:2] + flags + counts + question + (found if answers else b""), addr
        )


async def outcome(pool: DriverPool, url: str) -> str:
    """Call a driver; return what came of it."""
    driver = a_driver(url)
    try:
        answer = await pool.call(
            driver, Operation.ENSURE_BACKEND, REQUEST, timeout=PATIENT
        )
    except DriverError as error:
        return error.reason
    return answer.status


async def main() -> None:
    """Let many hang, and call good ones meanwhile."""
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(NameServer, local_addr=("127.0.0.1", 53))
    async with serving(replying(response())) as url:
        port = url.rpartition(":")[2]
        pools = [
            DriverPool(SystemClock(), CollectorRegistry(), fence=BESIDE_US)
            for _ in range(HANGING + 3)
        ]
        hanging = [
            asyncio.create_task(outcome(pool, f"http://hanging-{number}.test:{port}"))
            for number, pool in enumerate(pools[3:])
        ]
        await asyncio.sleep(0.5)
        # As a Service is called from a pod, by /etc/hosts, and in full.
        names = ("good.web.svc", "neighbour", "good.web.svc.cluster.test")
        good = [
            await outcome(pool, f"http://{name}:{port}")
            for pool, name in zip(pools, names, strict=False)
        ]
        print(json.dumps([good, sorted(set(await asyncio.gather(*hanging)))]))
        for pool in pools:
            await pool.close()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # says nothing
    uvloop.run(main())
