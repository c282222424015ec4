"""Rules on what comes at once: order on one member, independence of several."""

import asyncio

from collections.abc import Awaitable, Callable
from datetime import timedelta

from lbcf.conformance.answers import read_answer
from lbcf.conformance.bench import Bench
from lbcf.conformance.findings import Broken
from lbcf.conformance.identities import Member
from lbcf.conformance.rules import BOTH_SIDES, LIST, rule
from lbcf.core.model.operations import Operation
from lbcf.wire.driver_answers import RetriedAnswer, Status


ENSURE = Operation.ENSURE_BACKEND
DEREGISTER = Operation.DEREGISTER_BACKEND

GAP = timedelta(milliseconds=20)
"""Enough for a request to arrive before the next is sent, on a connection that is up."""

AFTERMATH = timedelta(milliseconds=500)
"""After the last answer: what was left to run in the background shows by then."""

_PAIRS = 3
_MANY = 16


@rule(BOTH_SIDES, LIST)
async def order_of_arrival(bench: Bench) -> None:
    """Operations on one member that come at once are carried out in their order."""
    members = bench.members(2 * _PAIRS)
    leaving, coming = members[::2], members[1::2]
    await asyncio.gather(*(bench.ensure(member) for member in coming))
    await bench.warm(2 * len(members))
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
    begun = await bench.begin(first, bench.fields(member, retryID=bench.new_id()))
    await bench.clock.sleep(GAP)
    try:
        # Only the second may be repeated: a repeated first one would come after it.
        await second(member)
    finally:
        exchange = await begun
    answer = read_answer(first, exchange)
    failed = isinstance(answer, RetriedAnswer) and answer.status is Status.FAIL
    if failed:
        raise Broken(f"{first} answered Fail as another call followed it", exchange)


@rule(BOTH_SIDES, LIST)
async def lost_caller(bench: Bench) -> None:
    """A call whose caller hung up has no effect after a later call was answered."""
    members = bench.members(_PAIRS)
    for member in members:
        fields = bench.fields(member, retryID=bench.new_id())
        await bench.warm(2)
        call = await bench.begin(ENSURE, fields)
        await bench.clock.sleep(GAP)
        call.cancel()
        await asyncio.wait([call])
        await bench.deregister(member)
    await bench.clock.sleep(AFTERMATH)
    for member in members:
        await bench.expect_absent(member, "ensured by a lost caller, then deregistered")


@rule(BOTH_SIDES)
async def parallel_members(bench: Bench) -> None:
    """Many members can be registered, and taken out, all at once."""
    members = bench.members(_MANY)
    await asyncio.gather(*(bench.ensure(member) for member in members))
    for member in members:
        await bench.expect_present(member, f"after {len(members)} were ensured at once")
    if bench.drains:
        await asyncio.gather(*(bench.drain(member) for member in members))
    await asyncio.gather(*(bench.deregister(member) for member in members))
    for member in members:
        await bench.expect_absent(member, f"{len(members)} were deregistered at once")


RULES = (order_of_arrival, lost_caller, parallel_members)
