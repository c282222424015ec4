"""The connections that a process has for its Lease, on real sockets."""

import asyncio
import math

from datetime import timedelta

from lbcf.kube.leader_election import LeaderElector, Timing
from lbcf.process.dependencies import build_dependencies
from lbcf.runtime.clock import SystemClock
from lbcf.settings import Settings
from tests.kube.scripted import Answer, running
from tests.patience import PATIENCE


async def test_requests_that_hang_keep_no_other_from_being_sent() -> None:
    """Each has a connection of its own, as many as go out until the first is given up."""
    timing = Timing()
    most = math.ceil(timing.renew_deadline / timing.request)
    impatient = Timing(
        request=timedelta(milliseconds=10), renew_deadline=timedelta(hours=1)
    )
    async with (
        running() as server,
        build_dependencies(Settings("controller"), server.connection) as parts,
    ):
        server.script(*[Answer(ending="hang")] * (most - 1))
        elector = LeaderElector(
            parts.elections,
            name="lbcf",
            namespace="shop",
            identity="one",
            clock=SystemClock(),
            timing=impatient,
        )
        looking = asyncio.create_task(elector.look_for_ended())
        async with asyncio.timeout(PATIENCE):
            await server.done.wait()
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)

    assert server.connections >= most
