"""Rules on ensureBackends, drainBackends and deregisterBackends: each item by itself."""

import asyncio

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import cast

from lbcf.conformance.bench import FIRST_DELAY, REGISTERED, Bench, Member, rule
from lbcf.conformance.client import read_answer
from lbcf.conformance.concurrency import expect_restartable, followed, restart
from lbcf.core.model.operations import BATCHED, SINGLE, Operation
from lbcf.wire.driver import named_results
from lbcf.wire.driver_answers import BackendResult, BatchAnswer, Status


BATCHES = "docs/protocol.md#batches"
ENSURES = Operation.ENSURE_BACKENDS
DEREGISTERS = Operation.DEREGISTER_BACKENDS
DRAINS = Operation.DRAIN_BACKENDS

_SINGLY = (
    *REGISTERED,
    "ensure-twice",
    "deregister-unknown",
    "deregister-removes",
    "deregister-twice",
    "others-stay",
    "ensure-after-deregister",
    "parallel-members",
    "succ-is-steady",
    "unknown-fields",
    "restart-in-the-middle",
)
"""What a driver that takes many at once can do with one."""
_BATCHED = (*_SINGLY, "batch-items-have-results")
_AGAIN = (*_BATCHED, "batch-twice")
_LATE = (*_AGAIN, "late-calls", "batch-poisoned-item")

_MANY = 8
_TRIES = 3
_AGO = timedelta(minutes=1)


async def _results(
    bench: Bench,
    operation: Operation,
    members: Sequence[Member],
    more: Mapping[str, Mapping[str, object]],
) -> Mapping[str, BackendResult]:
    """Call a batch once; return its results by recordID.

    Args:
        bench: of the rule.
        operation: on one member.
        members: of which it is.
        more: further fields of items, by recordID.

    Raises:
        Broken: a recordID has two results, or was not asked for.
    """
    items = [
        bench.fields(
            member,
            retryID=bench.new_id(),
            notAfter=bench.timestamp(timedelta(minutes=1)),
            **_usual(bench, operation),
        )
        | dict(more.get(member.record_id, {}))
        for member in members
    ]
    answer = await bench.call(BATCHED[operation], {"items": items})
    named = named_results(BATCHED[operation], bench.client.exchanges[-1].answer)
    asked = {member.record_id for member in members}
    for name in named:
        if name not in asked:
            bench.fail(f"a result is of recordID {name!r:.60}, which was not asked for")
        if named.count(name) > 1:
            bench.fail(f"recordID {name} has {named.count(name)} results, not one")
    results = cast("BatchAnswer", answer).results
    return {one.record_id: one for one in results}


def _usual(bench: Bench, operation: Operation) -> Mapping[str, object]:
    if operation is Operation.DRAIN_BACKEND:
        return {"drain": bench.drain_times()}
    return {"drained": False} if operation is Operation.DEREGISTER_BACKEND else {}


async def _complete(
    bench: Bench, operation: Operation, members: Sequence[Member]
) -> None:
    """Call batches until each member has succeeded, as the controller does.

    Raises:
        Broken: one was answered Fail, or had no Succ for longer than the patience.
    """
    limit = bench.clock.monotonic() + bench.target.patience.total_seconds()
    left = list(members)
    while left:
        results = await _results(bench, operation, left, {})
        for member in left:
            result = results.get(member.record_id)
            if result is not None and result.status is Status.FAIL:
                await _fail(bench, operation, member, result)
            if result is not None and result.injected_info is not None:
                member.injected_info = result.injected_info
        left = [one for one in left if not _is_done(results, one)]
        if left and bench.clock.monotonic() > limit:
            text = f"{BATCHED[operation]} has no Succ for {len(left)} of {len(members)}"
            bench.fail(f"{text} items after {bench.target.patience}")
        if left:
            await bench.clock.sleep(FIRST_DELAY)


async def _fail(
    bench: Bench, operation: Operation, member: Member, result: BackendResult
) -> None:
    """End the rule, unless the item is to be asked for alone, and succeeds so."""
    if not result.retry_singly:
        many, said = BATCHED[operation], f"{result.msg!r:.120}"
        bench.fail(f"{many} answered Fail, not Succ, for {member.address}: {said}")
    fields = bench.fields(member, **_usual(bench, operation))
    await bench.call_until_success(operation, fields)


def _is_done(results: Mapping[str, BackendResult], member: Member) -> bool:
    result = results.get(member.record_id)
    return result is not None and (result.status is Status.SUCC or result.retry_singly)


@rule(BATCHES, ENSURES, DEREGISTERS, presumes=_SINGLY)
async def batch_items_have_results(bench: Bench) -> None:
    """Each item of a batch is performed, and has one result by its own recordID."""
    await _expect_all_results(bench)
    members = bench.members(_MANY)
    await _complete(bench, Operation.ENSURE_BACKEND, members)
    for member in members:
        await bench.expect_present(member, "after ensureBackends")
    await _complete(bench, Operation.DEREGISTER_BACKEND, members)
    for member in members:
        await bench.expect_absent(member, "after deregisterBackends")


async def _expect_all_results(bench: Bench) -> None:
    """Check that no item is left out whose member is there already.

    One that is slow may be left out now and then, but not each time.
    """
    members = bench.members(2)
    for member in members:
        await bench.ensure(member)
    left_out: set[str] = set()
    for _ in range(_TRIES):
        results = await _results(bench, Operation.ENSURE_BACKEND, members, {})
        left_out = {one.record_id for one in members} - set(results)
        if not left_out:
            return
        await bench.clock.sleep(FIRST_DELAY)
    text = f"{ENSURES} has no result for {min(left_out)}, whose member is there"
    bench.fail(f"{text}, in {_TRIES} tries")


@rule(BATCHES, ENSURES, DEREGISTERS, presumes=_BATCHED)
async def batch_twice(bench: Bench) -> None:
    """A batch that comes again, in another order, is Succ for each item once more."""
    members = bench.members(_MANY)
    await _complete(bench, Operation.ENSURE_BACKEND, members)
    await _complete(bench, Operation.ENSURE_BACKEND, members[::-1])
    for member in members:
        await bench.expect_present(member, "after ensureBackends twice")
    await _complete(bench, Operation.DEREGISTER_BACKEND, members[::-1])
    await _complete(bench, Operation.DEREGISTER_BACKEND, members)
    for member in members:
        await bench.expect_absent(member, "after deregisterBackends twice")


@rule(BATCHES, ENSURES, DEREGISTERS, presumes=(*_AGAIN, "late-calls"))
async def batch_poisoned_item(bench: Bench) -> None:
    """An item that cannot succeed fails alone, and has no effect; the others succeed."""
    *others, late = [bench.member() for _ in range(4)]
    first, second, third = others
    tainted = bench.member("this is no address")
    order = [first, late, second, tainted, third]
    spoilt = {late.record_id: {"notAfter": bench.timestamp(-_AGO)}}
    results = await _results(bench, Operation.ENSURE_BACKEND, order, spoilt)
    _expect_late(bench, results, late)
    for member in others:
        result = results.get(member.record_id)
        failed = result is not None and result.status is Status.FAIL
        retried = result is not None and result.retry_singly
        text = f"{member.address} failed in a batch with an item that cannot succeed"
        bench.expect(not failed or retried, text)
    await _complete(bench, Operation.ENSURE_BACKEND, others)
    for member in others:
        await bench.expect_present(member, "after a batch with a poisoned item")
    await bench.expect_absent(late, "after its item came too late")


@rule(BATCHES, ENSURES, DEREGISTERS, presumes=_LATE)
async def batch_late_removals(bench: Bench) -> None:
    """An item of deregisterBackends after its notAfter is Fail, and has no effect."""
    late = await _after_late_items(bench, Operation.DEREGISTER_BACKEND)
    await bench.expect_present(late, "after its deregistration came too late")


@rule(BATCHES, ENSURES, DEREGISTERS, DRAINS, presumes=(*_LATE, "drain-leaves-others"))
async def batch_late_drains(bench: Bench) -> None:
    """An item of drainBackends after its notAfter is Fail, and has no effect."""
    late = await _after_late_items(bench, Operation.DRAIN_BACKEND)
    await bench.expect_in_service(late, "after its drain came too late")


async def _after_late_items(bench: Bench, operation: Operation) -> Member:
    """Ensure two members, and call a batch in which one is late; return that one."""
    timely, late = bench.member(), bench.member()
    await _complete(bench, Operation.ENSURE_BACKEND, [timely, late])
    spoilt = {late.record_id: {"notAfter": bench.timestamp(-_AGO)}}
    results = await _results(bench, operation, [late, timely], spoilt)
    _expect_late(bench, results, late)
    return late


def _expect_late(
    bench: Bench, results: Mapping[str, BackendResult], late: Member
) -> None:
    said = results.get(late.record_id)
    is_refused = said is not None and said.status is Status.FAIL
    bench.expect(is_refused, "an item after its notAfter has no result that is Fail")


@rule(BATCHES, ENSURES, DEREGISTERS, presumes=(*_AGAIN, "order-of-arrival"))
async def batch_in_order(bench: Bench) -> None:
    """A batch and single calls about one member are carried out in their order."""
    batched, *others, single, further = [bench.member() for _ in range(_MANY)]
    await bench.open_connections(2)
    items = [bench.fields(one, retryID=bench.new_id()) for one in (batched, *others)]
    exchange = await followed(
        bench, ENSURES, {"items": items}, partial(bench.deregister, batched)
    )
    read_answer(ENSURES, exchange)
    await bench.expect_absent(batched, "after ensureBackends, then deregisterBackend")
    fields = bench.fields(single, retryID=bench.new_id())
    batch = partial(_complete, bench, Operation.DEREGISTER_BACKEND, [single, further])
    exchange = await followed(bench, SINGLE[ENSURES], fields, batch)
    read_answer(SINGLE[ENSURES], exchange)
    await bench.expect_absent(single, "after ensureBackend, then deregisterBackends")


@rule(
    BATCHES,
    ENSURES,
    DEREGISTERS,
    DRAINS,
    presumes=(*_AGAIN, "drain-unknown", "drain-ends-when-idle"),
)
async def batch_drains(bench: Bench) -> None:
    """A batch of drains answers for each item, those that are not there included."""
    *there, missing = [bench.member() for _ in range(4)]
    await _complete(bench, Operation.ENSURE_BACKEND, there)
    await _complete(bench, Operation.DRAIN_BACKEND, [*there, missing])
    await bench.expect_absent(missing, "after drainBackends of what was not there")


@rule(
    BATCHES,
    ENSURES,
    DEREGISTERS,
    presumes=_AGAIN,
)
async def batch_killed_in_the_middle(bench: Bench) -> None:
    """After a crash in the middle of a batch, asking again brings about all of it."""
    expect_restartable(bench)
    members = [bench.member() for _ in range(_MANY)]
    come, go = members[::2], members[1::2]
    await _complete(bench, Operation.ENSURE_BACKEND, go)
    for operation, some in ((ENSURES, come), (DEREGISTERS, go)):
        items = [bench.fields(member, retryID=bench.new_id()) for member in some]
        interrupted = await bench.start_call(operation, {"items": items})
        await restart(bench)
        await asyncio.wait([interrupted])
    await _complete(bench, Operation.ENSURE_BACKEND, come)
    await _complete(bench, Operation.DEREGISTER_BACKEND, go)
    for member in come:
        await bench.expect_present(member, "ensured again after a restart")
    for member in go:
        await bench.expect_absent(member, "deregistered again after a restart")
    await _complete(bench, Operation.DEREGISTER_BACKEND, come)
