"""The driver in memory, called as the controller calls drivers, over real sockets."""

import contextlib
import json

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import TypeVar, cast

import aiohttp
import attrs
import pytest

from prometheus_client import CollectorRegistry

from lbcf import sdk
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver, Meta
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.drivers.errors import TimedOut
from lbcf.drivers.pool import DriverPool
from lbcf.runtime.clock import SystemClock
from lbcf.sdk import Answer, Request, Status
from lbcf.wire import driver_answers as answers
from lbcf.wire import driver_requests as requests
from tests.drivers.servers import BESIDE_US
from tests.sdk.services import Json, serving
from webhooks.memory import MemoryDriver


A = TypeVar("A", bound=Answer)
FRONT = {"name": "front"}
PATIENT = timedelta(seconds=20)
DRAIN = requests.Drain(
    started_at=datetime(2026, 1, 1, tzinfo=UTC),
    deadline=datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC),
)


@attrs.frozen
class Bench:
    """A served driver, and how to reach both of its sides."""

    pool: DriverPool
    driver: LoadBalancerDriver
    session: aiohttp.ClientSession

    async def call(
        self,
        operation: str,
        request: Request[A],
        timeout: timedelta = PATIENT,  # noqa: ASYNC109 - what the call is given
    ) -> A:
        """Call an operation as the controller does."""
        return await self.pool.call(
            self.driver, Operation(operation), request, timeout=timeout
        )

    async def ensure(
        self, record: str = "r", **fields: object
    ) -> answers.BackendAnswer:
        """Ensure a member."""
        request = member(requests.EnsureBackendRequest, record, fields)
        return await self.call("ensureBackend", request)

    async def drain(
        self, record: str = "r", **fields: object
    ) -> answers.DrainBackendAnswer:
        """Drain a member."""
        said = {"drain": DRAIN, **fields}
        request = member(requests.DrainBackendRequest, record, said)
        return await self.call("drainBackend", request)

    async def deregister(
        self, record: str = "r", **fields: object
    ) -> answers.BackendAnswer:
        """Deregister a member."""
        said = {"drained": True, **fields}
        request = member(requests.DeregisterBackendRequest, record, said)
        return await self.call("deregisterBackend", request)

    async def list(self) -> answers.ListBackendsAnswer:
        """List the members of the load balancer."""
        request = requests.ListBackendsRequest(lb_info=FRONT)
        return await self.call("listBackends", request)

    async def tell(self, what: str, **wish: object) -> Json:
        """Tell the driver what a test wants."""
        url = f"{self.driver.url}/control/{what}"
        async with self.session.post(url, json=wish) as response:
            assert 200 == response.status, await response.text()
            return cast("Json", await response.json())

    async def look(self, what: str) -> Json:
        """Look at what the driver shows to tests."""
        url = f"{self.driver.url}/control/{what}"
        async with self.session.get(url) as response:
            return cast("Json", json.loads(await response.read()))


M = TypeVar("M", bound=requests.BackendRequest[answers.BackendAnswer])


def member(kind: type[M], record: str, fields: dict[str, object]) -> M:
    """Return a request about the member of a record; all have the same address."""
    said = {"record_id": record, "backend_addr": "192.0.2.1:80", "lb_info": FRONT}
    make = cast("type", kind)
    return cast("M", make(**(said | fields)))


@contextlib.asynccontextmanager
async def bench_of(key: sdk.MemberKey) -> AsyncIterator[Bench]:
    """Serve a driver whose members are told apart so."""
    service = sdk.Service(MemoryDriver(key))
    async with (
        serving(service) as url,
        DriverPool(SystemClock(), CollectorRegistry(), allowlist=BESIDE_US) as pool,
        aiohttp.ClientSession() as session,
    ):
        meta = Meta(ObjectKey("web", "memory"), Uid("u"), "1")
        yield Bench(pool, LoadBalancerDriver(meta=meta, url=url), session)


@pytest.fixture(name="bench")
async def _bench() -> AsyncIterator[Bench]:
    """Give a driver whose members are known by their address."""
    async with bench_of(sdk.MemberKey.ADDRESS) as bench:
        yield bench


async def test_an_ensured_member_is_listed(bench: Bench) -> None:
    """Ensure it, and again: it is there once, in service, with the last parameters."""
    await bench.ensure(parameters={"weight": "1"})
    assert Status.SUCC is (await bench.ensure(parameters={"weight": "2"})).status

    (listed,) = (await bench.list()).backends
    assert (
        answers.ListedBackend(
            backend_addr="192.0.2.1:80", record_id="r", state=sdk.BackendState.ACTIVE
        )
        == listed
    )
    (shown,) = cast("list[Json]", (await bench.look("members"))["members"])
    assert {"weight": "2"} == shown["parameters"]


async def test_a_checked_member_is_down_until_its_first_check_passes(
    bench: Bench,
) -> None:
    """The answer says it as the list does; without a check it says nothing."""
    waits = await bench.ensure("r", parameters={"checkSeconds": "3600"})
    (down,) = (await bench.list()).backends
    passed = await bench.ensure(
        "s", lb_info={"name": "b"}, parameters={"checkSeconds": "0"}
    )
    unchecked = await bench.ensure("t", lb_info={"name": "c"})
    refused = await bench.ensure(
        "u", lb_info={"name": "d"}, parameters={"checkSeconds": "soon"}
    )

    assert (False, sdk.BackendState.DOWN) == (waits.in_service, down.state)
    assert (True, None) == (passed.in_service, unchecked.in_service)
    assert Status.FAIL is refused.status


async def test_members_of_other_load_balancers_are_not_listed(bench: Bench) -> None:
    """A list is of one load balancer."""
    await bench.ensure(lb_info={"name": "other"})

    assert [] == list((await bench.list()).backends)


async def test_a_drain_waits_for_sessions(bench: Bench) -> None:
    """Running with the number that is left, then Succ; nothing new comes meanwhile."""
    await bench.ensure()
    await bench.tell("sessions", backendAddr="192.0.2.1:80", add=2)

    first = await bench.drain()
    (draining,) = (await bench.list()).backends
    await bench.tell("sessions", recordID="r", sessions=0)

    assert (Status.RUNNING, 2) == (first.status, first.active_connections)
    assert sdk.BackendState.DRAINING is draining.state
    assert Status.SUCC is (await bench.drain()).status


async def test_ensure_after_drain_restores_service(bench: Bench) -> None:
    """Sessions that were open go on."""
    await bench.ensure()
    await bench.tell("sessions", recordID="r", add=2)
    await bench.drain()
    await bench.ensure()

    (listed,) = (await bench.list()).backends
    assert (sdk.BackendState.ACTIVE, 2) == (listed.state, listed.active_connections)


async def test_cut_sessions_are_counted(bench: Bench) -> None:
    """A test can see that a deregistration came too early."""
    await bench.ensure()
    await bench.tell("sessions", recordID="r", add=3)
    await bench.deregister()

    assert 3 == (await bench.look("members"))["cut"]


@pytest.mark.parametrize(
    ("key", "left"), [(sdk.MemberKey.ADDRESS, []), (sdk.MemberKey.RECORD, ["b"])]
)
async def test_members_are_known_by_their_key(
    key: sdk.MemberKey, left: list[str]
) -> None:
    """Two records with one address are one member, or two."""
    async with bench_of(key) as bench:
        await bench.ensure("a")
        await bench.ensure("b")
        await bench.deregister("a")

        assert left == [each.record_id for each in (await bench.list()).backends]


async def test_a_record_without_a_lock_takes_no_member(bench: Bench) -> None:
    """A LoadBalancerDriver may say memberKey Record: what is at the address is another's."""
    unlocked = sdk.MemberKey.RECORD
    await bench.ensure("mine")

    drained = await bench.drain("theirs", member_key=unlocked)
    gone = await bench.deregister("theirs", member_key=unlocked)
    (left,) = (await bench.list()).backends
    own = await bench.deregister("mine", member_key=unlocked)

    assert [Status.SUCC] * 3 == [one.status for one in (drained, gone, own)]
    assert ("mine", sdk.BackendState.ACTIVE) == (left.record_id, left.state)
    assert [] == list((await bench.list()).backends)


async def test_a_restart_loses_members_and_changes_the_epoch(bench: Bench) -> None:
    """As a load balancer does that keeps them in memory only."""
    await bench.ensure()
    before = await bench.list()
    await bench.tell("restart")
    after = await bench.list()

    assert before.epoch != after.epoch
    assert [] == list(after.backends)


@pytest.mark.parametrize(
    ("mode", "status"), [("fail", Status.FAIL), ("run", Status.RUNNING)]
)
async def test_the_next_calls_fail_on_wish(
    bench: Bench, mode: str, status: Status
) -> None:
    """So many and no more, without effect."""
    await bench.tell("behave", operation="ensureBackend", mode=mode, times=2, msg="why")
    first, second = await bench.ensure(), await bench.ensure()
    listed = await bench.list()

    assert (status, "why") == (first.status, first.msg) == (second.status, second.msg)
    assert [] == list(listed.backends)
    assert Status.SUCC is (await bench.ensure()).status


async def test_one_call_in_so_many_fails_on_wish(bench: Bench) -> None:
    """And those between succeed, until as many have failed as were asked for."""
    await bench.tell("behave", operation="ensureBackend", mode="fail", times=2, every=3)

    statuses = [(await bench.ensure()).status for _ in range(9)]

    failed = [number for number, s in enumerate(statuses, 1) if s is Status.FAIL]
    assert [3, 6] == failed


async def test_a_call_breaks_on_wish(bench: Bench) -> None:
    """An unexpected exception is a Fail with a number to look for."""
    await bench.tell("behave", operation="ensureBackend", mode="break", msg="secret")
    answer = await bench.ensure()

    assert Status.FAIL is answer.status
    assert "secret" not in answer.msg


@pytest.mark.parametrize(("mode", "there"), [("slow", ["r"]), ("late", [])])
async def test_a_call_takes_long_on_wish(
    bench: Bench, mode: str, there: list[str]
) -> None:
    """The caller's time runs out before (late) or after (slow) the effect."""
    await bench.tell("behave", operation="ensureBackend", mode=mode, seconds=600)
    with pytest.raises(TimedOut):
        await bench.call(
            "ensureBackend",
            member(requests.EnsureBackendRequest, "r", {}),
            timedelta(milliseconds=200),
        )

    assert there == [each.record_id for each in (await bench.list()).backends]


async def test_a_late_call_takes_effect_after_its_caller_gave_up(bench: Bench) -> None:
    """What makes time-outs dangerous, to be tried on purpose."""
    await bench.tell("behave", operation="ensureBackend", mode="late", seconds=0.3)
    request = member(requests.EnsureBackendRequest, "r", {})
    with pytest.raises(TimedOut):
        await bench.call("ensureBackend", request, timedelta(milliseconds=100))
    # The next call on the member waits for the late one.
    assert Status.SUCC is (await bench.drain()).status

    assert ["r"] == [each.record_id for each in (await bench.list()).backends]


async def test_history_tells_every_call(bench: Bench) -> None:
    """Operation, record, outcome and times, in the order of the ends."""
    await bench.ensure()
    await bench.tell("behave", operation="drainBackend", mode="fail")
    await bench.drain()
    await bench.deregister()

    calls = cast("list[Json]", (await bench.look("history"))["calls"])
    assert [
        ("ensureBackend", "r", "Succ", None),
        ("drainBackend", "r", "Fail", None),
        ("deregisterBackend", "r", "Succ", True),
    ] == [(c["operation"], c["recordID"], c["outcome"], c["drained"]) for c in calls]
    moments = [
        datetime.fromisoformat(str(c[at])) for c in calls for at in ("began", "ended")
    ]
    assert sorted(moments) == moments


async def test_a_reset_forgets_everything(bench: Bench) -> None:
    """The next test begins anew."""
    await bench.tell("behave", operation="drainBackend", mode="fail", times=9)
    await bench.ensure()
    await bench.tell("reset")

    assert [] == (await bench.look("history"))["calls"]
    assert [] == (await bench.look("members"))["members"]
    assert Status.SUCC is (await bench.drain()).status


@pytest.mark.parametrize(
    ("what", "wish"),
    [
        ("behave", {"operation": "ensureBackend", "mode": "sing"}),
        ("behave", {"operation": "nonsense", "mode": "fail"}),
        ("behave", {"operation": "ensureBackend", "mode": "fail", "times": 0}),
        ("sessions", {"sessions": -1}),
        ("keep", {}),
    ],
)
async def test_wrong_wishes_are_refused(
    bench: Bench, what: str, wish: dict[str, object]
) -> None:
    """A test with a mistake in it is told."""
    url = f"{bench.driver.url}/control/{what}"
    async with bench.session.post(url, json=wish) as response:
        assert 400 == response.status


async def test_a_load_balancer_is_known_by_its_spec(bench: Bench) -> None:
    """Created, ensured, deleted; and deleted again."""
    created = await bench.call(
        "createLoadBalancer",
        requests.CreateLoadBalancerRequest(record_id="l", lb_spec=FRONT),
    )
    ensured = await bench.call(
        "ensureLoadBalancer",
        requests.EnsureLoadBalancerRequest(record_id="l", lb_info=created.lb_info),
    )
    delete = requests.DeleteLoadBalancerRequest(record_id="l", lb_info=FRONT)
    deleted = [(await bench.call("deleteLoadBalancer", delete)).status for _ in "12"]

    assert FRONT == created.lb_info
    assert [Status.SUCC] * 3 == [ensured.status, *deleted]


async def test_validations_refuse_on_wish(bench: Bench) -> None:
    """The value of `refuse` is the reason."""
    balancer = await bench.call(
        "validateLoadBalancer",
        requests.ValidateLoadBalancerRequest(attributes={"refuse": "too big"}),
    )
    pod = requests.BackendType.POD
    backend = await bench.call(
        "validateBackend",
        requests.ValidateBackendRequest(backend_type=pod, parameters={"refuse": "no"}),
    )
    fine = await bench.call(
        "validateBackend", requests.ValidateBackendRequest(backend_type=pod)
    )

    assert (False, "too big") == (balancer.succ, balancer.msg)
    assert (False, "no") == (backend.succ, backend.msg)
    assert fine.succ


@pytest.mark.parametrize(
    "address", ["80", "fe80::1%eth0", "Web.example", "a..b", "-", "198.18.0.300", "é"]
)
async def test_address_that_is_none_is_refused(bench: Bench, address: str) -> None:
    """Told in words, and not answered as where clients reach it."""
    named = {"address": address}
    for wanted in (
        requests.ValidateLoadBalancerRequest(lb_spec=named),
        requests.ValidateLoadBalancerRequest(attributes=named),
    ):
        answer = await bench.call("validateLoadBalancer", wanted)

        told = f"address: {address!r} is no IP address or DNS name"
        assert (False, told) == (answer.succ, answer.msg)


@pytest.mark.parametrize("address", ["198.18.0.1", "fd00::a", "web", "web.example"])
async def test_address_is_where_clients_reach_it(bench: Bench, address: str) -> None:
    """An IP address or a DNS name, as a Service's status can have it."""
    wanted = requests.ValidateLoadBalancerRequest(lb_spec={"address": address})
    made = await bench.call(
        "createLoadBalancer",
        requests.CreateLoadBalancerRequest(record_id="1", lb_spec={"address": address}),
    )

    assert (await bench.call("validateLoadBalancer", wanted)).succ
    assert [address] == [one.ip or one.hostname for one in made.ingress or ()]


async def test_pods_are_kept_on_wish(bench: Bench) -> None:
    """Of those that are asked for, those that a test named."""
    pods: list[sdk.WholeObject] = [
        {"metadata": {"namespace": "web", "name": name}} for name in "abc"
    ]
    await bench.tell("keep", pods=["web/b", "web/z"])
    judged = await bench.call(
        "judgePodDeregister", requests.JudgePodDeregisterRequest(not_ready_pods=pods)
    )

    assert pods[1:2] == list(judged.do_not_deregister)


SERVICE: sdk.WholeObject = {
    "spec": {"ports": [{"port": 80, "nodePort": 30080}, {"port": 81}]}
}
NODE: sdk.WholeObject = {
    "status": {"addresses": [{"type": "InternalIP", "address": "198.18.0.1"}]}
}
ADDRESSES = [requests.NodeAddress(type="InternalIP", address="2001:db8::1")]


Backend = requests.PodBackend | requests.NodeBackend | requests.ServiceBackend


def asking_for(backend: Backend) -> requests.GenerateBackendAddrRequest:
    """Return the request for the address of a backend."""
    kind = requests.GenerateBackendAddrRequest
    match backend:
        case requests.PodBackend():
            return kind(record_id="r", pod_backend=backend)
        case requests.NodeBackend():
            return kind(record_id="r", node_backend=backend)
        case requests.ServiceBackend():
            return kind(record_id="r", service_backend=backend)


def port(number: int) -> requests.PortSelector:
    """Return a TCP port."""
    return requests.PortSelector(port=number)


@pytest.mark.parametrize(
    ("backend", "status", "address"),
    [
        pytest.param(
            requests.PodBackend(pod={"status": {"podIP": "10.0.0.1"}}, port=port(80)),
            "Succ",
            "10.0.0.1:80",
            id="pod",
        ),
        pytest.param(
            requests.PodBackend(pod={}, port=port(80)), "Fail", "", id="pod without IP"
        ),
        pytest.param(
            requests.NodeBackend(node=NODE, port=port(80)),
            "Succ",
            "198.18.0.1:80",
            id="node",
        ),
        pytest.param(
            requests.ServiceBackend(
                service=SERVICE, port=port(80), node_addresses=ADDRESSES
            ),
            "Succ",
            "[2001:db8::1]:30080",
            id="service",
        ),
        pytest.param(
            requests.ServiceBackend(
                service=SERVICE, port=port(81), node_addresses=ADDRESSES
            ),
            "Fail",
            "",
            id="no node port",
        ),
        pytest.param(
            requests.ServiceBackend(
                service=SERVICE, port=port(82), node_addresses=ADDRESSES
            ),
            "Fail",
            "",
            id="no such port",
        ),
        pytest.param(
            requests.ServiceBackend(service=SERVICE, port=port(80)),
            "Fail",
            "",
            id="no node address",
        ),
    ],
)
async def test_addresses_are_found(
    bench: Bench,
    backend: Backend,
    status: str,
    address: str,
) -> None:
    """Host and port of what is behind, or why there are none yet."""
    answer = await bench.call("generateBackendAddr", asking_for(backend))

    assert (status, address) == (answer.status, answer.backend_addr)
