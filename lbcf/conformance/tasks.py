"""Rules on tasks that take several calls: what their Succ puts an end to."""

from collections.abc import Mapping
from datetime import timedelta

from lbcf.conformance.bench import Bench
from lbcf.conformance.rules import BOTH_SIDES, LIST, rule
from lbcf.core.model.operations import Operation
from lbcf.wire.driver_answers import BackendState, Status


AFTERMATH = timedelta(milliseconds=500)
"""After the last Succ: what was left to run in the background shows by then."""

_TRIES = 2
"""A Running once may be trouble of the load balancer; each time it is the driver's."""
_HASTE = 3
"""Calls without a pause, for drivers that begin anew at each of them."""


@rule(BOTH_SIDES)
async def succ_is_steady(bench: Bench) -> None:
    """What was answered Succ is not Running when it is repeated and nothing changed."""
    task = {"recordID": bench.new_id(), "attributes": {}}
    create = task | {"lbSpec": dict(bench.target.lb_spec)}
    await bench.settle(Operation.CREATE_LOAD_BALANCER, create)
    await _expect_steady(bench, Operation.CREATE_LOAD_BALANCER, create)
    ensure = task | {"lbInfo": bench.lb_info}
    await bench.settle(Operation.ENSURE_LOAD_BALANCER, ensure)
    await _expect_steady(bench, Operation.ENSURE_LOAD_BALANCER, ensure)
    member = bench.member()
    await bench.ensure(member)
    await _expect_steady(bench, Operation.ENSURE_BACKEND, bench.fields(member))
    if bench.drains:
        times = bench.drain_times()
        await bench.drain(member, drain=times)
        said = bench.fields(member, drain=times)
        await _expect_steady(bench, Operation.DRAIN_BACKEND, said)
    await bench.deregister(member, drained=bench.drains)
    said = bench.fields(member, drained=bench.drains)
    await _expect_steady(bench, Operation.DEREGISTER_BACKEND, said)


async def _expect_steady(
    bench: Bench, operation: Operation, fields: Mapping[str, object]
) -> None:
    """Ask again for what was answered Succ; a Fail is for the rules on the operation."""
    for _ in range(_TRIES):
        answer = await bench.attempt(operation, fields)
        if answer.status is not Status.RUNNING:
            return
        await bench.settle(operation, fields)
    bench.fail(f"{operation} was answered Succ, and Running each time when repeated")


@rule(BOTH_SIDES, LIST)
async def nothing_after_succ(bench: Bench) -> None:
    """Nothing that earlier calls were answered Running for takes effect after Succ."""
    bench.haste = _HASTE
    added, removed, drained = (bench.member() for _ in range(3))
    for member in (added, removed):
        await bench.ensure(member)
        await bench.deregister(member)
    if bench.drains:
        await bench.ensure(drained)
        await bench.drain(drained)
    for member in (removed, drained):
        await bench.ensure(member)
    await bench.clock.sleep(AFTERMATH)
    await bench.expect_absent(added, "after ensureBackend, and then deregisterBackend")
    for member, before in ((removed, "deregisterBackend"), (drained, "drainBackend")):
        after = f"after {before}, and then ensureBackend"
        entry = await bench.expect_present(member, after)
        draining = entry is not None and entry.state is BackendState.DRAINING
        bench.expect(not draining, f"{after}, {member.address} is listed as Draining")


RULES = (succ_is_steady, nothing_after_succ)
