"""Who is first when a Service becomes Local unannounced: kube-proxy, or we.

`python -m tests.lab.nodes --race TIMES`. On a node without pods kube-proxy drops connections
to the node port as soon as its rules are written; the load balancer ceases to send there
when the driver has answered the first drainBackend. What comes in between is lost.
"""

import asyncio
import contextlib
import sys

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from lbcf.core.reasons import Reason
from tests.lab.nodes.bench import PATIENCE, Bench
from tests.lab.nodes.records import NODES
from tests.lab.nodes.script import HOSTS, RULES, policy


BYSTANDER = "n3"


async def race(bench: Bench, times: int) -> None:
    """Switch to Local and back, so many times, and print who was when.

    Raises:
        DemoError: something does not come about.
        TimeoutError: kube-proxy drops nothing.
    """
    for _ in range(times):
        async with probing(bench, *bench.records.address_of(BYSTANDER)) as dropped:
            reason = (BYSTANDER, Reason.NO_READY_LOCAL_ENDPOINT)
            what = "switched to Local unannounced"
            async with bench.event(what, reason, nodes=HOSTS):
                await policy(bench, "Local")
            async with asyncio.timeout(PATIENCE):
                first = datetime.fromisoformat(
                    (await dropped.readline()).decode().strip()
                )
        asked = datetime.fromisoformat(bench.asked("services", "web"))
        ours, theirs = bench.drained_after(asked) - asked, first - asked
        print(
            f"we drained after {_ms(ours)} ms, kube-proxy dropped by {_ms(theirs)} ms"
        )
        async with bench.event("switched to Cluster", nodes=NODES):
            await policy(bench, "Cluster")
            await asyncio.sleep(RULES)


def _ms(length: timedelta) -> int:
    """Say a length in milliseconds."""
    return round(length / timedelta(milliseconds=1))


@contextlib.asynccontextmanager
async def probing(
    bench: Bench, host: str, port: int
) -> AsyncIterator[asyncio.StreamReader]:
    """Connect to a node port all the time; yields what tells of failures."""
    argv = (sys.executable, "-m", "tests.lab.nodes.probe", host, str(port))
    prober = await asyncio.create_subprocess_exec(
        *bench.command(*argv), stdout=asyncio.subprocess.PIPE
    )
    assert prober.stdout is not None
    try:
        yield prober.stdout
    finally:
        prober.kill()
        await prober.wait()
