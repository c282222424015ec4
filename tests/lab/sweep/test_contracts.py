"""The fake load balancer does what the driver in memory does over real HTTP.

Aspects: ensure, drain, deregister, list, what tells members apart, addresses of pods,
load balancers. The API server's fake has its suite in `tests/kube/test_contract.py`.
"""

import contextlib

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar, cast

import pytest

from prometheus_client import CollectorRegistry

from lbcf import sdk
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver, Meta
from lbcf.core.model.values import MemberKey, ObjectKey, Uid
from lbcf.drivers.pool import DriverPool
from lbcf.runtime.clock import SystemClock
from lbcf.wire import driver_requests as requests
from lbcf.wire.driver import Answer, Request, parse_answer, parse_request
from lbcf.wire.driver import render_request as render
from lbcf.wire.driver_answers import (
    BackendState,
    DrainBackendAnswer,
    GenerateBackendAddrAnswer,
    ListBackendsAnswer,
    RetriedAnswer,
    Status,
)
from tests.drivers.servers import BESIDE_US
from tests.lab.sweep.balancer import Balancer
from tests.sdk.services import serving
from webhooks.memory import MemoryDriver


A = TypeVar("A", bound=Answer)
Sessions = Callable[[str, int], None]
FRONT = {"id": "front"}
ONE = "192.0.2.1:80"
TWO = "192.0.2.2:80"
DRAIN = requests.Drain(
    started_at=datetime(2026, 1, 1, tzinfo=UTC),
    deadline=datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC),
)


class Bench:
    """Either driver, called alike."""

    def __init__(
        self,
        ask: Callable[[Operation, Request[Answer]], Awaitable[Answer]],
        set_sessions: Sessions,
    ) -> None:
        self._ask = ask
        self.set_sessions = set_sessions

    async def call(self, operation: Operation, request: Request[A]) -> A:
        """Call an operation."""
        return cast("A", await self._ask(operation, request))

    async def ensure(self, record: str, address: str = ONE, **wish: str) -> Status:
        """Ensure a member."""
        request = requests.EnsureBackendRequest(
            record_id=record, lb_info=FRONT, backend_addr=address, parameters=wish
        )
        return (await self.call(Operation.ENSURE_BACKEND, request)).status

    async def deregister(self, record: str, address: str = ONE) -> Status:
        """Take a member out."""
        request = requests.DeregisterBackendRequest(
            record_id=record, lb_info=FRONT, backend_addr=address
        )
        return (await self.call(Operation.DEREGISTER_BACKEND, request)).status

    async def drain(self, record: str, address: str = ONE) -> DrainBackendAnswer:
        """Drain a member."""
        request = requests.DrainBackendRequest(
            record_id=record, lb_info=FRONT, backend_addr=address, drain=DRAIN
        )
        return await self.call(Operation.DRAIN_BACKEND, request)

    async def listed(self) -> ListBackendsAnswer:
        """List the members."""
        request = requests.ListBackendsRequest(lb_info=FRONT)
        return await self.call(Operation.LIST_BACKENDS, request)

    async def members(self) -> set[tuple[str, str, BackendState]]:
        """List the members in short."""
        listed = (await self.listed()).backends
        return {(m.record_id, m.backend_addr, m.state) for m in listed}


@contextlib.asynccontextmanager
async def _real(key: MemberKey) -> AsyncIterator[Bench]:
    """Serve the driver in memory."""
    memory = MemoryDriver(sdk.MemberKey(key.value))
    async with (
        serving(sdk.Service(memory)) as url,
        DriverPool(SystemClock(), CollectorRegistry(), allowlist=BESIDE_US) as pool,
    ):
        meta = Meta(ObjectKey("shop", "memory"), Uid("u"), "1")
        driver = LoadBalancerDriver(meta=meta, url=url)

        async def ask(operation: Operation, request: Request[Answer]) -> Answer:
            """Call it over HTTP."""
            return await pool.call(
                driver, operation, request, timeout=timedelta(seconds=20)
            )

        def set_sessions(address: str, number: int) -> None:
            """Change the sessions of members."""
            for member in memory.members:
                if member.backend_addr == address:
                    member.sessions = number

        yield Bench(ask, set_sessions)


@contextlib.asynccontextmanager
async def _fake(key: MemberKey) -> AsyncIterator[Bench]:
    """Make the fake."""
    balancer = Balancer(key)

    async def ask(operation: Operation, request: Request[Answer]) -> Answer:
        """Call it as `DriverLine` does."""
        sent = parse_request(operation, render(request))
        return parse_answer(operation, balancer.perform(operation, sent))

    def set_sessions(address: str, number: int) -> None:
        """Change the sessions of members."""
        for member in balancer.find(address):
            member.sessions = number

    yield Bench(ask, set_sessions)


@pytest.fixture(name="by_record", params=[_real, _fake], ids=["memory", "fake"])
async def _by_record(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """Give a driver whose members are named after records."""
    async with request.param(MemberKey.RECORD) as bench:
        yield bench


@pytest.fixture(name="by_address", params=[_real, _fake], ids=["memory", "fake"])
async def _by_address(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """Give a driver whose members are known by address."""
    async with request.param(MemberKey.ADDRESS) as bench:
        yield bench


async def test_ensured_member_is_in_full_service(by_record: Bench) -> None:
    """It is listed as Active, however often it is ensured."""
    assert Status.SUCC is await by_record.ensure("r1")
    assert Status.SUCC is await by_record.ensure("r1", weight="2")

    assert {("r1", ONE, BackendState.ACTIVE)} == await by_record.members()


async def test_records_hold_one_address_side_by_side(by_record: Bench) -> None:
    """Named after records, each takes its own member out."""
    await by_record.ensure("r1")
    await by_record.ensure("r2")
    await by_record.deregister("r1")

    assert {("r2", ONE, BackendState.ACTIVE)} == await by_record.members()


async def test_one_address_is_one_member(by_address: Bench) -> None:
    """Known by address, whoever deregisters takes it from everybody."""
    await by_address.ensure("r1")
    await by_address.ensure("r2")
    assert {("r2", ONE, BackendState.ACTIVE)} == await by_address.members()

    await by_address.deregister("r1")
    assert set() == await by_address.members()


async def test_absent_member_is_deregistered_already(by_address: Bench) -> None:
    """The end of what is not there succeeds, and touches nothing else."""
    await by_address.ensure("r2", TWO)

    assert Status.SUCC is await by_address.deregister("r1")
    assert {("r2", TWO, BackendState.ACTIVE)} == await by_address.members()


async def test_drain_lasts_as_long_as_sessions(by_address: Bench) -> None:
    """Running with their number, then Succ; the member stays in, draining."""
    await by_address.ensure("r1")
    by_address.set_sessions(ONE, 2)
    busy = await by_address.drain("r1")
    by_address.set_sessions(ONE, 0)
    empty = await by_address.drain("r1")

    assert (Status.RUNNING, 2) == (busy.status, busy.active_connections)
    assert Status.SUCC is empty.status
    assert {("r1", ONE, BackendState.DRAINING)} == await by_address.members()


async def test_ensure_ends_a_drain(by_address: Bench) -> None:
    """A member that is ensured is in full service again, with its sessions."""
    await by_address.ensure("r1")
    by_address.set_sessions(ONE, 2)
    await by_address.drain("r1")
    await by_address.ensure("r1")

    assert {("r1", ONE, BackendState.ACTIVE)} == await by_address.members()
    assert 2 == (await by_address.drain("r1")).active_connections


async def test_absent_member_is_drained_already(by_address: Bench) -> None:
    """There is nothing to wait for."""
    assert Status.SUCC is (await by_address.drain("r1")).status


async def test_list_names_an_epoch(by_record: Bench) -> None:
    """It stays as long as members are remembered."""
    first = await by_record.listed()
    await by_record.ensure("r1")

    assert first.epoch
    assert first.epoch == (await by_record.listed()).epoch


async def test_list_knows_its_load_balancer_alone(by_record: Bench) -> None:
    """Members of another identity are not listed."""
    await by_record.ensure("r1")
    request = requests.ListBackendsRequest(lb_info={"id": "other"})

    assert () == tuple(
        (await by_record.call(Operation.LIST_BACKENDS, request)).backends
    )


@pytest.mark.parametrize(
    ("address", "answer"),
    [
        pytest.param("10.0.0.1", (Status.SUCC, "10.0.0.1:80"), id="found"),
        pytest.param("", (Status.FAIL, ""), id="none yet"),
    ],
)
async def test_address_of_a_pod_is_found(
    by_address: Bench, address: str, answer: tuple[Status, str]
) -> None:
    """It is host:port, once there is a host."""
    pod = requests.PodBackend(
        pod={"status": {"podIP": address}}, port=requests.PortSelector(port=80)
    )
    request = requests.GenerateBackendAddrRequest(record_id="r1", pod_backend=pod)
    found = await by_address.call(Operation.GENERATE_BACKEND_ADDR, request)

    assert isinstance(found, GenerateBackendAddrAnswer)
    assert answer == (found.status, found.backend_addr)


async def test_load_balancers_are_taken_as_they_are(by_address: Bench) -> None:
    """Create answers the spec as the identity; ensure and delete succeed."""
    create = requests.CreateLoadBalancerRequest(record_id="lb", lb_spec=FRONT)
    ensure = requests.EnsureLoadBalancerRequest(record_id="lb", lb_info=FRONT)
    delete = requests.DeleteLoadBalancerRequest(record_id="lb", lb_info=FRONT)
    created = await by_address.call(Operation.CREATE_LOAD_BALANCER, create)
    answers: list[RetriedAnswer] = [
        await by_address.call(Operation.ENSURE_LOAD_BALANCER, ensure),
        await by_address.call(Operation.DELETE_LOAD_BALANCER, delete),
    ]

    assert (Status.SUCC, FRONT) == (created.status, created.lb_info)
    assert [Status.SUCC, Status.SUCC] == [answer.status for answer in answers]
