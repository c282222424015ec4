"""Calls drivers by names of which some hang; run inside of namespaces of its own.

    python -m tests.partition.names

Prints a line of JSON: what became of the good drivers' calls while hanging ones were called.
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
from tests.partition.name_server import serve_names


HANGING = 16
PATIENT = timedelta(seconds=3)


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
    await serve_names()
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
