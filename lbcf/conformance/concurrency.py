"""Rules on calls that overlap, tasks of several calls, hung-up callers, and a crash."""

import asyncio

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial

from lbcf.conformance.bench import (
    BOTH_SIDES,
    DEREGISTER,
    DRAIN,
    ENSURE,
    LIST,
    OPERATIONS,
    REGISTERED,
    Bench,
    Member,
    rule,
)
from lbcf.conformance.client import read_answer
from lbcf.conformance.findings import Broken, Exchange, NotApplicable
from lbcf.core.model.operations import Operation
from lbcf.wire.driver_answers import RetriedAnswer, Status


_AGAIN = (*REGISTERED, "ensure-twice", "deregister-twice", "ensure-after-deregister")
"""Presumed by rules that repeat calls, beside what all presume."""

GAP = timedelta(milliseconds=20)
"""Enough for a request to arrive before the next is sent, on a connection that is up."""

AFTERMATH = timedelta(milliseconds=500)
"""After the last answer: what was left to run in the background shows by then."""

_PAIRS = 3
_MANY = 16
_TRIES = 2
"""A Running once may be trouble of the load balancer; each time it is the driver's."""

_HASTY_CALLS = 3
"""Calls without a pause, for drivers that begin anew at each of them."""

_POLL = timedelta(milliseconds=100)


@rule(
    BOTH_SIDES,
    LIST,
    presumes=(*_AGAIN, "parallel-members", "deregister-by-name-alone"),
)
async def order_of_arrival(bench: Bench) -> None:
    """Operations on one member that come at once are carried out in their order."""
    members = bench.members(2 * _PAIRS)
    leaving, coming = members[::2], members[1::2]
    await asyncio.gather(*(bench.ensure(member) for member in coming))
    await bench.open_connections(2 * len(members))
    await asyncio.gather(
        *(_race(bench, one, ENSURE, bench.deregister) for one in leaving),
        *(_race(bench, one, DEREGISTER, bench.ensure) for one in coming),
    )
    await bench.clock.sleep(AFTERMATH)
    for member in leaving:
        await bench.expect_absent(member, "ensureBackend, then deregisterBackend")
    for member in coming:
        await bench.expect_present(member, "deregisterBackend, then ensureBackend")


async def _race(
    bench: Bench,
    member: Member,
    first: Operation,
    second: Callable[[Member], Awaitable[None]],
) -> None:
    """Send two operations, the second right after the first; both must be accepted."""
    fields = bench.fields(member, retryID=bench.new_id())
    exchange = await followed(bench, first, fields, partial(second, member))
    answer = read_answer(first, exchange)
    if isinstance(answer, RetriedAnswer) and answer.status is Status.FAIL:
        raise Broken(f"{first} answered Fail as another call followed it", exchange)


async def followed(
    bench: Bench,
    first: Operation,
    fields: Mapping[str, object],
    second: Callable[[], Awaitable[None]],
) -> Exchange:
    """Send a call, and another when it has arrived and has hardly ended.

    Args:
        bench: of the rule.
        first: the operation that is sent once; sent again, it would come after the second.
        fields: of the first.
        second: calls the second, as often as it needs.

    Returns:
        What came back of the first.
    """
    call = await bench.start_call(first, fields)
    await bench.clock.sleep(GAP)
    try:
        await second()
    finally:
        exchange = await call
    return exchange


@rule(BOTH_SIDES, LIST, presumes=(*_AGAIN, "order-of-arrival"))
async def lost_caller(bench: Bench) -> None:
    """A call whose caller hung up has no effect after a later call was answered."""
    members = bench.members(_PAIRS)
    for member in members:
        fields = bench.fields(member, retryID=bench.new_id())
        await bench.open_connections(2)
        call = await bench.start_call(ENSURE, fields)
        await bench.clock.sleep(GAP)
        call.cancel()
        await asyncio.wait([call])
        await bench.deregister(member)
    await bench.clock.sleep(AFTERMATH)
    for member in members:
        await bench.expect_absent(member, "ensured by a lost caller, then deregistered")


@rule(BOTH_SIDES, presumes=(*REGISTERED, "others-stay", "drain-ends-when-idle"))
async def parallel_members(bench: Bench) -> None:
    """Many members can be registered, and taken out, all at once."""
    members = bench.members(_MANY)
    await asyncio.gather(*(bench.ensure(member) for member in members))
    for member in members:
        await bench.expect_present(member, f"after {len(members)} were ensured at once")
    if bench.can_drain:
        await asyncio.gather(*(bench.drain(member) for member in members))
    await asyncio.gather(*(bench.deregister(member) for member in members))
    for member in members:
        await bench.expect_absent(member, f"{len(members)} were deregistered at once")


@rule(
    BOTH_SIDES,
    presumes=(
        *_AGAIN,
        "ensure-load-balancer-twice",
        "create-twice",
        "drain-ends-when-idle",
    ),
)
async def succ_is_steady(bench: Bench) -> None:
    """What was answered Succ is not Running when it is repeated and nothing changed."""
    task = {"recordID": bench.new_id(), "attributes": {}}
    create = task | {"lbSpec": dict(bench.target.lb_spec)}
    await bench.call_until_success(Operation.CREATE_LOAD_BALANCER, create)
    await _expect_steady(bench, Operation.CREATE_LOAD_BALANCER, create)
    ensure = task | {"lbInfo": bench.lb_info}
    await bench.call_until_success(Operation.ENSURE_LOAD_BALANCER, ensure)
    await _expect_steady(bench, Operation.ENSURE_LOAD_BALANCER, ensure)
    member = bench.member()
    await bench.ensure(member)
    await _expect_steady(bench, ENSURE, bench.fields(member))
    if bench.can_drain:
        times = bench.drain_times()
        await bench.drain(member, drain=times)
        await _expect_steady(bench, DRAIN, bench.fields(member, drain=times))
    await bench.deregister(member, drained=bench.can_drain)
    fields = bench.fields(member, drained=bench.can_drain)
    await _expect_steady(bench, DEREGISTER, fields)


async def _expect_steady(
    bench: Bench, operation: Operation, fields: Mapping[str, object]
) -> None:
    """Repeat what was answered Succ; a Fail is for the rules on the operation."""
    for _ in range(_TRIES):
        answer = await bench.attempt(operation, fields)
        if answer.status is not Status.RUNNING:
            return
        await bench.call_until_success(operation, fields)
    bench.fail(f"{operation} was answered Succ, and Running each time when repeated")


@rule(BOTH_SIDES, LIST, presumes=(*_AGAIN, "ensure-after-drain"))
async def nothing_after_succ(bench: Bench) -> None:
    """Nothing that earlier calls were answered Running for takes effect after Succ."""
    bench.hasty_calls = _HASTY_CALLS
    added, removed, drained = (bench.member() for _ in range(3))
    for member in (added, removed):
        await bench.ensure(member)
        await bench.deregister(member)
    if bench.can_drain:
        await bench.ensure(drained)
        await bench.drain(drained)
    for member in (removed, drained):
        await bench.ensure(member)
    await bench.clock.sleep(AFTERMATH)
    await bench.expect_absent(added, "after ensureBackend, and then deregisterBackend")
    for member, before in ((removed, "deregisterBackend"), (drained, "drainBackend")):
        after = f"after {before}, and then ensureBackend"
        await bench.expect_in_service(member, after)


@rule(OPERATIONS, LIST)
async def losses_change_the_epoch(bench: Bench) -> None:
    """Members that are lost at a restart are told by another epoch."""
    expect_restartable(bench)
    member = bench.member()
    await bench.ensure(member)
    before = (await bench.listing()).epoch
    await restart(bench)
    is_there = bool(await bench.listed(member))
    after = (await bench.listing()).epoch
    text = f"{member.address} is listed no more after a restart, at the same epoch"
    bench.expect(is_there or before != after, f"{text} {after!r:.60}")


@rule(BOTH_SIDES, presumes=(*_AGAIN, "drain-ends-when-idle"))
async def restart_in_the_middle(bench: Bench) -> None:
    """After a crash in the middle, asking again brings about what was asked for."""
    expect_restartable(bench)
    stays, comes, goes, drained = (bench.member() for _ in range(4))
    for member in (stays, goes, drained):
        await bench.ensure(member)
    if bench.can_drain:
        await bench.drain(drained)
    interrupted = [
        await bench.start_call(operation, bench.fields(member))
        for operation, member in ((ENSURE, comes), (DEREGISTER, goes))
    ]
    await restart(bench)
    await asyncio.wait(interrupted)
    for member in (stays, comes, drained):
        await bench.ensure(member)
        await bench.expect_present(member, "ensured again after a restart")
    for member in (goes, stays, comes, drained):
        await bench.deregister(member)
        await bench.expect_absent(member, "deregistered after a restart")


def expect_restartable(bench: Bench) -> None:
    """Check that the driver can be killed.

    Raises:
        NotApplicable: nothing was said of how.
    """
    if bench.target.restart is None:
        raise NotApplicable("nothing restarts the driver (--restart-command)")


async def restart(bench: Bench) -> None:
    """Kill the driver, start it again, and wait until it serves.

    Raises:
        Broken: it does not.
    """
    assert bench.target.restart is not None  # noqa: S101  (asked for before)
    await bench.target.restart()
    patience = bench.target.patience
    limit = bench.clock.monotonic() + patience.total_seconds()
    while not (await bench.send(Operation.HEALTHZ, {})).is_answered:
        if bench.clock.monotonic() > limit:
            bench.fail(f"no healthz within {patience} after the restart")
        await bench.clock.sleep(_POLL)
