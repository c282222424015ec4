"""Rules on drainBackend: its beginning, its end, and the way back into service."""

from lbcf.conformance.bench import Bench
from lbcf.conformance.findings import NotApplicable
from lbcf.conformance.identities import Member
from lbcf.conformance.rules import DRAIN, DRAINING, LIST, rule
from lbcf.conformance.target import Connect
from lbcf.core.model.operations import Operation
from lbcf.wire.driver_answers import BackendState, DrainBackendAnswer, Status


@rule(DRAINING, DRAIN)
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


@rule(DRAINING, DRAIN, LIST)
async def drained_is_out_of_service(bench: Bench) -> None:
    """A member that was drained is Active no more."""
    member = bench.member()
    await bench.ensure(member)
    await bench.drain(member)
    active = any(
        entry.state is BackendState.ACTIVE for entry in await bench.listed(member)
    )
    bench.expect(not active, "after drainBackend, the member is listed as Active")


@rule(DRAINING, DRAIN, LIST)
async def drain_leaves_others(bench: Bench) -> None:
    """Draining one member leaves the others in service."""
    stays, goes = bench.member(), bench.member()
    await bench.ensure(stays)
    await bench.ensure(goes)
    await bench.drain(goes)
    await _expect_in_service(bench, stays, "after another member was drained")


@rule(DRAINING, DRAIN)
async def ensure_after_drain(bench: Bench) -> None:
    """EnsureBackend after drainBackend puts the member back into full service."""
    member = bench.member()
    await bench.ensure(member)
    await bench.drain(member)
    await bench.ensure(member)
    await _expect_in_service(bench, member, "ensured after its drain")


@rule(DRAINING, DRAIN)
async def drain_waits_for_connections(bench: Bench) -> None:
    """A drain is Running while connections are left, and Succ when they have ended."""
    connect = bench.target.connect
    if connect is None:
        raise NotApplicable("nothing makes connections (--connections-command)")
    busy, other = bench.member(), bench.member()
    await bench.ensure(busy)
    await bench.ensure(other)
    await _expect_running(bench, connect, busy)
    await _expect_in_service(bench, other, "while another member is draining")
    await connect(busy.address, busy.record_id, 0)
    await bench.drain(busy)


async def _expect_running(bench: Bench, connect: Connect, busy: Member) -> None:
    """Drain a member that has one connection."""
    await connect(busy.address, busy.record_id, 1)
    said = bench.fields(busy, drain=bench.drain_times())
    answer = await bench.attempt(Operation.DRAIN_BACKEND, said)
    running = answer.status is Status.RUNNING
    bench.expect(running, f"drainBackend with a connection left is {answer.status}")
    left = isinstance(answer, DrainBackendAnswer) and answer.active_connections
    bench.expect(left in {None, 1}, f"activeConnections is {left}, with one left")


async def _expect_in_service(bench: Bench, member: Member, after: str) -> None:
    """Look whether new connections may come, where the driver tells."""
    entry = await bench.expect_present(member, after)
    draining = entry is not None and entry.state is BackendState.DRAINING
    bench.expect(not draining, f"{after}, {member.address} is listed as Draining")


RULES = (
    drain_unknown,
    drain_ends_when_idle,
    drained_is_out_of_service,
    drain_leaves_others,
    ensure_after_drain,
    drain_waits_for_connections,
)
