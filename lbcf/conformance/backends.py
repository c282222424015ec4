"""Rules on ensureBackend, drainBackend and deregisterBackend of single backends."""

import contextlib

from datetime import timedelta

from lbcf.conformance.bench import (
    ADDITIONS,
    ANSWERED,
    BOTH_SIDES,
    COMMON,
    DEREGISTER,
    DRAIN,
    DRAINING,
    ENSURE,
    LIST,
    NO_ADDRESSES,
    OPERATIONS,
    REGISTERED,
    Bench,
    Member,
    rule,
)
from lbcf.conformance.findings import Broken, NotApplicable
from lbcf.conformance.target import Connect
from lbcf.core.model.operations import Operation
from lbcf.core.model.values import MemberKey
from lbcf.wire.driver_answers import (
    BackendState,
    DrainBackendAnswer,
    ListBackendsAnswer,
    ListedBackend,
    Status,
)


@rule(OPERATIONS, LIST, presumes=ANSWERED)
async def ensured_is_listed(bench: Bench) -> None:
    """What ensureBackend answered Succ for is listed once, by its names, not draining."""
    member = bench.member()
    await bench.ensure(member)
    entry = await bench.expect_present(member, "after ensureBackend")
    assert entry is not None  # noqa: S101  (the rule needs listBackends)
    draining = entry.state is BackendState.DRAINING
    bench.expect(not draining, "after ensureBackend, the member is listed as Draining")
    # Letter by letter: records and addresses are compared so.
    names = (entry.backend_addr, entry.record_id or member.record_id)
    expected = (member.address, member.record_id)
    bench.expect(names == expected, f"listed as {names}, registered as {expected}")


@rule(BOTH_SIDES)
async def ensure_twice(bench: Bench) -> None:
    """Ensuring what is ensured is Succ, and there is one member still."""
    member = bench.member()
    await bench.ensure(member)
    await bench.ensure(member)
    await bench.expect_present(member, "after ensureBackend twice")


@rule(OPERATIONS)
async def deregister_removes(bench: Bench) -> None:
    """What deregisterBackend answered Succ for is listed no more."""
    for drained in (True, False):
        member = bench.member()
        await bench.ensure(member)
        await bench.deregister(member, drained=drained)
        await bench.expect_absent(member, f"after deregisterBackend ({drained=})")


@rule(BOTH_SIDES, presumes=(*REGISTERED, "deregister-unknown"))
async def deregister_twice(bench: Bench) -> None:
    """Deregistering what was deregistered is Succ."""
    member = bench.member()
    await bench.ensure(member)
    await bench.deregister(member)
    await bench.deregister(member)
    await bench.expect_absent(member, "after deregisterBackend twice")


@rule(BOTH_SIDES, presumes=ANSWERED)
async def deregister_unknown(bench: Bench) -> None:
    """Deregistering what was never there is Succ."""
    await bench.deregister(bench.member())


@rule(
    BOTH_SIDES,
    presumes=(*ANSWERED, "deregister-unknown", "drain-unknown", "drain-ends-when-idle"),
)
async def deregister_refused(bench: Bench) -> None:
    """What ensureBackend refuses for its address is Succ to drain and to deregister."""
    for address in NO_ADDRESSES:
        member = bench.member(address)
        # A driver may take it all the same: `invalid-addresses` tells.
        await bench.send(ENSURE, bench.fields(member, retryID=bench.new_id()))
        if bench.can_drain:
            await bench.drain(member)
        await bench.deregister(member)


@rule(BOTH_SIDES)
async def ensure_after_deregister(bench: Bench) -> None:
    """A member that was taken out can be put there again."""
    member = bench.member()
    await bench.ensure(member)
    await bench.deregister(member)
    await bench.ensure(member)
    await bench.expect_present(member, "after it was deregistered and ensured again")


@rule(
    BOTH_SIDES,
    LIST,
    presumes=(*REGISTERED, "deregister-unknown", "records-share-an-address"),
)
async def others_stay(bench: Bench) -> None:
    """Taking a member out, or one that is not there, leaves all others as they are."""
    stays, goes, unknown = bench.member(), bench.member(), bench.member()
    await bench.ensure(stays)
    await bench.ensure(goes)
    await bench.deregister(unknown)
    await bench.expect_present(goes, "after an unknown member was deregistered")
    if bench.target.member_key is MemberKey.RECORD:
        await bench.deregister(bench.member(goes.address))
        text = "after an unknown record was deregistered at its address"
        await bench.expect_present(goes, text)
    await bench.deregister(goes)
    await bench.expect_present(stays, "after another member was deregistered")


@rule(OPERATIONS, LIST, presumes=(*REGISTERED, "others-stay", "drain-leaves-others"))
async def load_balancers_are_apart(bench: Bench) -> None:
    """A member is on its own load balancer alone, and calls about others leave it."""
    other = bench.other_lb_info
    member = bench.member()
    await bench.ensure(member)
    strange: list[ListedBackend] = []
    with contextlib.suppress(Broken):  # what is not there may be answered by a failure
        answer = await bench.call(LIST, {"lbInfo": other, "attributes": {}})
        assert isinstance(answer, ListBackendsAnswer)  # noqa: S101  (ANSWERS says so)
        strange = bench.entries_of(member, answer)
    bench.expect(not strange, f"listBackends of {other} has a member of another one")
    fields = bench.fields(member, lbInfo=other)
    if bench.can_drain:
        with contextlib.suppress(Broken):
            await bench.attempt(DRAIN, fields | {"drain": bench.drain_times()})
        await bench.expect_in_service(member, f"after it was drained on {other}")
    with contextlib.suppress(Broken):
        await bench.attempt(DEREGISTER, fields | {"drained": False})
    await bench.expect_present(member, f"after it was deregistered on {other}")


@rule(ADDITIONS)
async def records_share_an_address(bench: Bench) -> None:
    """With memberKey Record, two records hold one address, and one leaves alone."""
    if bench.target.member_key is not MemberKey.RECORD:
        raise NotApplicable("memberKey is Address")
    old = bench.member()
    new = bench.member(old.address)
    await bench.ensure(old)
    await bench.ensure(new)
    await bench.expect_present(old, "after another record's member at its address")
    await bench.deregister(old)
    await bench.expect_absent(old, "after deregisterBackend")
    await bench.expect_present(new, "after another record left its address")


@rule(ADDITIONS, LIST, presumes=(*REGISTERED, "deregister-removes"))
async def deregister_by_name_alone(bench: Bench) -> None:
    """With memberKey Record, recordID and address are enough to take a member out."""
    if bench.target.member_key is not MemberKey.RECORD:
        raise NotApplicable("memberKey is Address")
    # So are members taken out whose record, with all else, is gone (remove-orphans).
    member = bench.member()
    await bench.ensure(member)
    await bench.deregister(member, parameters={}, injectedInfo={})
    await bench.expect_absent(member, "after deregisterBackend without parameters")


@rule(COMMON, LIST)
async def dry_run_changes_nothing(bench: Bench) -> None:
    """A call with dryRun adds no member, takes none out, and drains none."""
    member = bench.member()
    await bench.attempt(ENSURE, bench.fields(member, dryRun=True))
    await bench.expect_absent(member, "after ensureBackend with dryRun")
    await _try_in_batch(bench, Operation.ENSURE_BACKENDS, member)
    await bench.expect_absent(member, "after ensureBackends with dryRun")
    await bench.ensure(member)
    await bench.attempt(DEREGISTER, bench.fields(member, dryRun=True, drained=False))
    await bench.expect_present(member, "after deregisterBackend with dryRun")
    await _try_in_batch(bench, Operation.DEREGISTER_BACKENDS, member, drained=False)
    await bench.expect_present(member, "after deregisterBackends with dryRun")
    if bench.can_drain:
        drain = bench.drain_times()
        await bench.attempt(DRAIN, bench.fields(member, dryRun=True, drain=drain))
        await bench.expect_in_service(member, "after drainBackend with dryRun")
        await _try_in_batch(bench, Operation.DRAIN_BACKENDS, member, drain=drain)
        await bench.expect_in_service(member, "after drainBackends with dryRun")
    # Last: a driver that performs dry runs has been found by now.
    fields = {"recordID": bench.new_id(), "attributes": {}, "lbInfo": bench.lb_info}
    more = {"lbSpec": dict(bench.target.lb_spec), "dryRun": True}
    with contextlib.suppress(NotApplicable):
        await bench.attempt(Operation.DELETE_LOAD_BALANCER, fields | more)
    await bench.expect_present(member, "after deleteLoadBalancer with dryRun")


async def _try_in_batch(
    bench: Bench, operation: Operation, member: Member, **more: object
) -> None:
    """Send a batch of one item with dryRun, if batches are declared."""
    if bench.target.lacks(operation):
        return
    item = bench.fields(member, retryID=bench.new_id(), dryRun=True, **more)
    item["notAfter"] = bench.timestamp(timedelta(minutes=1))
    with contextlib.suppress(Broken):  # what is wrong with batches, other rules tell
        await bench.call(operation, {"items": [item]})


@rule(DRAINING, DRAIN, presumes=ANSWERED)
async def drain_unknown(bench: Bench) -> None:
    """Draining what was never ensured is Succ, and adds nothing."""
    member = bench.member()
    await bench.drain(member)
    await bench.expect_absent(member, "after drainBackend of what was not there")


@rule(DRAINING, DRAIN)
async def drain_ends_when_idle(bench: Bench) -> None:
    """A drain ends with Succ once nothing is left, long before its deadline."""
    member = bench.member()
    await bench.ensure(member)
    await bench.drain(member)
    await bench.drain(member)


@rule(DRAINING, DRAIN, LIST, presumes=(*REGISTERED, "drain-ends-when-idle"))
async def drained_is_out_of_service(bench: Bench) -> None:
    """A member that was drained is Active no more."""
    member = bench.member()
    await bench.ensure(member)
    await bench.drain(member)
    active = any(
        entry.state is BackendState.ACTIVE for entry in await bench.listed(member)
    )
    bench.expect(not active, "after drainBackend, the member is listed as Active")


@rule(
    DRAINING,
    DRAIN,
    LIST,
    presumes=(*REGISTERED, "drain-ends-when-idle", "records-share-an-address"),
)
async def drain_leaves_others(bench: Bench) -> None:
    """Draining one member leaves the others in service."""
    stays, goes = bench.member(), bench.member()
    others = [stays]
    if bench.target.member_key is MemberKey.RECORD:
        others.append(bench.member(goes.address))
    for member in (*others, goes):
        await bench.ensure(member)
    await bench.drain(goes)
    for member in others:
        await bench.expect_in_service(member, "after another member was drained")


@rule(DRAINING, DRAIN, presumes=(*REGISTERED, "ensure-twice", "drain-ends-when-idle"))
async def ensure_after_drain(bench: Bench) -> None:
    """EnsureBackend after drainBackend puts the member back into full service."""
    member = bench.member()
    await bench.ensure(member)
    await bench.drain(member)
    await bench.ensure(member)
    await bench.expect_in_service(member, "ensured after its drain")


@rule(
    DRAINING,
    DRAIN,
    presumes=(*REGISTERED, "drained-is-out-of-service", "drain-leaves-others"),
)
async def drain_waits_for_connections(bench: Bench) -> None:
    """A drain is Running while connections are left, and Succ when they have ended."""
    connect = bench.target.connect
    if connect is None:
        raise NotApplicable("nothing makes connections (--connections-command)")
    busy, other = bench.member(), bench.member()
    await bench.ensure(busy)
    await bench.ensure(other)
    await _expect_running(bench, connect, busy)
    await bench.expect_in_service(other, "while another member is draining")
    await connect(busy.address, busy.record_id, 0)
    await bench.drain(busy)


async def _expect_running(bench: Bench, connect: Connect, busy: Member) -> None:
    await connect(busy.address, busy.record_id, 1)
    fields = bench.fields(busy, drain=bench.drain_times())
    answer = await bench.attempt(DRAIN, fields)
    is_running = answer.status is Status.RUNNING
    bench.expect(is_running, f"drainBackend with a connection left is {answer.status}")
    left = isinstance(answer, DrainBackendAnswer) and answer.active_connections
    bench.expect(left in {None, 1}, f"activeConnections is {left}, with one left")
