"""Rules on members: registered, taken out, and each of them alone."""

from lbcf.conformance.bench import Bench
from lbcf.conformance.findings import NotApplicable
from lbcf.conformance.rules import ADDITIONS, BOTH_SIDES, COMMON, LIST, OPERATIONS, rule
from lbcf.core.model.operations import Operation
from lbcf.core.model.values import MemberKey
from lbcf.wire.driver_answers import BackendState


@rule(OPERATIONS, LIST)
async def ensured_is_listed(bench: Bench) -> None:
    """What ensureBackend answered Succ for is listed once and not draining."""
    member = bench.member()
    await bench.ensure(member)
    entry = await bench.expect_present(member, "after ensureBackend")
    draining = entry is not None and entry.state is BackendState.DRAINING
    bench.expect(not draining, "after ensureBackend, the member is listed as Draining")


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


@rule(BOTH_SIDES)
async def deregister_twice(bench: Bench) -> None:
    """Deregistering what was deregistered is Succ."""
    member = bench.member()
    await bench.ensure(member)
    await bench.deregister(member)
    await bench.deregister(member)
    await bench.expect_absent(member, "after deregisterBackend twice")


@rule(BOTH_SIDES)
async def deregister_unknown(bench: Bench) -> None:
    """Deregistering what was never there is Succ."""
    await bench.deregister(bench.member())


@rule(BOTH_SIDES)
async def ensure_after_deregister(bench: Bench) -> None:
    """A member that was taken out can be put there again."""
    member = bench.member()
    await bench.ensure(member)
    await bench.deregister(member)
    await bench.ensure(member)
    await bench.expect_present(member, "after it was deregistered and ensured again")


@rule(BOTH_SIDES, LIST)
async def others_stay(bench: Bench) -> None:
    """Taking a member out, or one that is not there, leaves all others as they are."""
    stays, goes, unknown = bench.member(), bench.member(), bench.member()
    await bench.ensure(stays)
    await bench.ensure(goes)
    await bench.deregister(unknown)
    await bench.expect_present(goes, "after an unknown member was deregistered")
    await bench.deregister(goes)
    await bench.expect_present(stays, "after another member was deregistered")


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


@rule(COMMON, LIST)
async def dry_run_changes_nothing(bench: Bench) -> None:
    """A call with dryRun neither adds a member nor takes one out."""
    member = bench.member()
    ensure, deregister = Operation.ENSURE_BACKEND, Operation.DEREGISTER_BACKEND
    await bench.attempt(ensure, bench.fields(member, dryRun=True))
    await bench.expect_absent(member, "after ensureBackend with dryRun")
    await bench.ensure(member)
    await bench.attempt(deregister, bench.fields(member, dryRun=True, drained=False))
    await bench.expect_present(member, "after deregisterBackend with dryRun")


RULES = (
    ensured_is_listed,
    ensure_twice,
    deregister_removes,
    deregister_twice,
    deregister_unknown,
    ensure_after_deregister,
    others_stay,
    records_share_an_address,
    dry_run_changes_nothing,
)
