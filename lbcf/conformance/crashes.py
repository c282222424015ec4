"""The rule on a driver that is killed in the middle of its work."""

import asyncio

from datetime import timedelta

from lbcf.conformance.bench import Bench
from lbcf.conformance.findings import NotApplicable
from lbcf.conformance.rules import BOTH_SIDES, rule
from lbcf.core.model.operations import Operation


_POLL = timedelta(milliseconds=100)


@rule(BOTH_SIDES)
async def restart_in_the_middle(bench: Bench) -> None:
    """After a crash in the middle, asking again brings about what was asked for."""
    restart = bench.target.restart
    if restart is None:
        raise NotApplicable("nothing restarts the driver (--restart-command)")
    stays, comes, goes, drained = (bench.member() for _ in range(4))
    for member in (stays, goes, drained):
        await bench.ensure(member)
    if bench.drains:
        await bench.drain(drained)
    cut = [
        await bench.begin(operation, bench.fields(member))
        for operation, member in (
            (Operation.ENSURE_BACKEND, comes),
            (Operation.DEREGISTER_BACKEND, goes),
        )
    ]
    await restart()
    await asyncio.wait(cut)
    await _until_up(bench)
    for member in (stays, comes, drained):
        await bench.ensure(member)
        await bench.expect_present(member, "ensured again after a restart")
    for member in (goes, stays, comes, drained):
        await bench.deregister(member)
        await bench.expect_absent(member, "deregistered after a restart")


async def _until_up(bench: Bench) -> None:
    """Wait until the driver answers."""
    patience = bench.target.patience
    limit = bench.clock.monotonic() + patience.total_seconds()
    while not (await bench.exchange(Operation.HEALTHZ, {})).is_answered:
        if bench.clock.monotonic() > limit:
            bench.fail(f"no healthz within {patience} after the restart")
        await bench.clock.sleep(_POLL)


RULES = (restart_in_the_middle,)
