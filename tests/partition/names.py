"""Calls drivers by names of which some hang; run inside of namespaces of its own.

    python -m tests.partition.names

Prints a line of JSON: what became of the good drivers' calls while hanging ones were called,
and of those that had ended by then.
"""

import asyncio
import json

from datetime import timedelta

import structlog
import uvloop

from prometheus_client import CollectorRegistry

from lbcf.core.model.operations import Operation
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
from tests.partition.name_server import NameServer, serve_names


HANGING = 16
GOOD = ("good.web.svc", "neighbour", "good.web.svc.cluster.test")
PATIENT = timedelta(minutes=5)
"""Longer than it takes on whatever machine; a look-up is given up after half a minute."""


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


async def asked(names: NameServer) -> None:
    """Wait until the first name that hangs was asked for: the others are on their way."""
    while not names.unanswered:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.01)


async def main() -> None:
    """Let many hang, and call good ones meanwhile."""
    names = await serve_names()
    async with serving(replying(response())) as url:
        port = url.rpartition(":")[2]
        pools = [
            DriverPool(SystemClock(), CollectorRegistry(), allowlist=BESIDE_US)
            for _ in range(HANGING + 3)
        ]
        hanging = [
            asyncio.create_task(outcome(pool, f"http://hanging-{number}.test:{port}"))
            for number, pool in enumerate(pools[3:])
        ]
        await asked(names)
        # As a Service is called from a pod, by /etc/hosts, and in full.
        good = await asyncio.gather(
            *(
                outcome(pool, f"http://{name}:{port}")
                for pool, name in zip(pools, GOOD, strict=False)
            )
        )
        ended = [call.result() for call in hanging if call.done()]
        for call in hanging:
            call.cancel()
        await asyncio.wait(hanging)
        print(json.dumps([good, ended]))
        for pool in pools:
            await pool.close()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # says nothing
    uvloop.run(main())
