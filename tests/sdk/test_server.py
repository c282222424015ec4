"""A served driver over real sockets: order, lateness, lost callers, orderly end."""

import asyncio
import io
import json

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

import aiohttp
import pytest

from aiohttp import web

from lbcf import sdk
from lbcf.runtime.clock import SystemClock
from lbcf.sdk import EnsureBackendRequest, Running, Succ
from lbcf.sdk.server import LARGEST_REQUEST, Service
from lbcf.wire.driver import LONGEST_MESSAGE
from tests.sdk.services import (
    GRACE,
    Json,
    PlainDriver,
    call,
    post,
    serving,
    settle,
)


MEMBER = b'{"recordID": "r", "backendAddr": "192.0.2.1:80"}'
LONG_AGO = "2020-01-01T00:00:00Z"


class SetClock(SystemClock):
    """The machine's clock, but for the moment, which the test sets."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return what was set."""
        return self.moment


def held_by(
    event: asyncio.Event,
) -> Callable[[EnsureBackendRequest], Awaitable[Succ | Running]]:
    """Return an ensureBackend that ends when the event is set."""

    async def hold(_request: EnsureBackendRequest) -> Succ | Running:
        await event.wait()
        return Succ()

    return hold


async def test_an_operation_is_served() -> None:
    """A request in, an answer out."""
    async with serving(Service(PlainDriver())) as url:
        assert "Succ" == (await call(url, "ensureBackend"))["status"]


class Blind(PlainDriver):
    """Cannot reach its load balancer just now."""

    async def validate_backend(self, request: sdk.ValidateBackendRequest) -> None:
        """Say so."""
        raise sdk.RetryAfter(timedelta(seconds=1), f"away: {request.backend_type}")


async def test_a_validation_that_cannot_tell_is_no_refusal() -> None:
    """An outage is told by the status of HTTP: nobody takes the object for a bad one."""
    async with serving(Service(Blind())) as url:
        status, answer = await post(url, "validateBackend", b'{"backendType":"Pod"}')

    assert (503, "away: Pod") == (status, answer["msg"])


class Unopened(PlainDriver):
    """Has a mistake of its author's in a validation, or misses its load balancer."""

    async def validate_load_balancer(
        self, _request: sdk.ValidateLoadBalancerRequest
    ) -> None:
        """Find nobody."""
        raise ConnectionRefusedError("nobody listens")

    async def validate_backend(self, _request: sdk.ValidateBackendRequest) -> None:
        """Be wrong."""
        raise TypeError("an author's mistake")


@pytest.mark.parametrize("name", ["validateLoadBalancer", "validateBackend"])
async def test_a_validation_that_breaks_is_no_refusal(name: str) -> None:
    """Nobody's object is called invalid because the driver is broken."""
    async with serving(Service(Unopened())) as url:
        status, answer = await post(url, name, b'{"backendType":"Pod"}')

    assert 503 == status
    assert "unexpected error in the driver" in str(answer["msg"])


async def test_a_validation_of_a_driver_that_stops_is_no_refusal() -> None:
    """Another process of it can tell."""
    service = Service(Blind())
    async with serving(service) as url:
        await service.drain(timedelta())
        status, answer = await post(url, "validateBackend", b'{"backendType":"Pod"}')

    assert (503, "the driver is stopping: ask again") == (status, answer["msg"])


@pytest.mark.parametrize("name", ["drainBackend", "listBackends", "nonsense"])
async def test_what_is_not_implemented_is_not_found(name: str) -> None:
    """The text names what there is."""
    async with serving(Service(PlainDriver())) as url:
        status, answer = await post(url, name, MEMBER)

    assert 404 == status
    assert "ensureBackend" in str(answer["error"])


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"<html>", id="no json"),
        pytest.param(b"[]", id="an array"),
        pytest.param(b'{"recordID": "r"}', id="no address"),
        pytest.param(b'{"backendAddr": "a"}', id="no record"),
        pytest.param(b'{"recordID": "r", "backendAddr": "\xff"}', id="no utf-8"),
    ],
)
async def test_broken_requests_are_told(body: bytes) -> None:
    """A caller's mistake is a 400 that says what is wrong; the author sees nothing."""
    driver = PlainDriver()
    async with serving(Service(driver)) as url:
        status, answer = await post(url, "ensureBackend", body)

    assert 400 == status
    assert "EnsureBackendRequest" in str(answer["error"])
    assert [] == driver.begun


async def test_operations_are_called_with_post() -> None:
    """A browser that looks at an operation changes nothing."""
    driver = PlainDriver()
    async with (
        serving(Service(driver)) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/ensureBackend") as response,
    ):
        assert 405 == response.status

    assert [] == driver.begun


async def test_a_request_that_is_too_large_is_refused() -> None:
    """A caller cannot fill the driver's memory."""
    async with serving(Service(PlainDriver())) as url:
        body = io.BytesIO(b" " * (LARGEST_REQUEST + 1))
        status, answer = await post(url, "ensureBackend", body)

    assert 413 == status
    assert str(LARGEST_REQUEST) in str(answer["error"])


@pytest.mark.parametrize(("healthy", "expected"), [(True, 200), (False, 503)])
async def test_probes_read_the_status(healthy: bool, expected: int) -> None:
    """A kubelet asks with GET, callers with POST."""

    class Rated(PlainDriver):
        """Is as the test says."""

        async def healthz(self) -> bool:
            """Say it."""
            return healthy

    async with serving(Service(Rated())) as url:
        status, answer = await post(url, "healthz", b"")
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{url}/healthz") as response,
        ):
            assert expected == response.status
    assert (200, healthy) == (status, answer["healthy"])


async def test_further_routes_are_served_beside() -> None:
    """A driver may have endpoints of its own."""

    async def hello(_request: web.Request) -> web.Response:
        return web.Response(text="hello")

    class Further(PlainDriver):
        """Has a route."""

        def routes(self) -> list[web.RouteDef]:
            """Return it."""
            return [web.get("/hello", hello)]

    async with (
        serving(Service(Further())) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/hello") as response,
    ):
        assert "hello" == await response.text()


async def test_a_driver_is_started_before_and_stopped_after() -> None:
    """What start opened, operations find and stop closes."""
    log: list[str] = []

    class Noting(PlainDriver):
        """Notes both."""

        async def start(self) -> None:
            """Note it."""
            log.append("start")

        async def stop(self) -> None:
            """Note it."""
            log.append("stop")

    async with serving(Service(Noting())) as url:
        await call(url, "ensureBackend")
        log.append("served")

    assert ["start", "served", "stop"] == log


async def test_calls_on_one_member_run_in_their_order() -> None:
    """Twenty calls that arrive at once are performed one by one, none overtakes."""
    driver, at_once = PlainDriver(), 0

    async def slowly(_request: EnsureBackendRequest) -> Succ | Running:
        nonlocal at_once
        at_once += 1
        assert at_once == 1
        await asyncio.sleep(0.001)
        at_once -= 1
        return Succ()

    driver.on_ensure = slowly
    names = [f"{number:02}" for number in range(20)]
    async with serving(Service(driver)) as url:
        calls = []
        for name in names:
            operation = "deregisterBackend" if name.endswith("5") else "ensureBackend"
            calls.append(asyncio.create_task(call(url, operation, retryID=name)))
            await asyncio.sleep(0.003 if name == names[0] else 0.0005)
        answers = await asyncio.gather(*calls)

    assert ["Succ"] * 20 == [answer["status"] for answer in answers]
    assert driver.begun == driver.ended
    assert set(names) == set(driver.ended)


async def test_a_deregistration_waits_for_the_ensure_before_it() -> None:
    """The last word is with who came last, not with who was faster."""
    driver, done = PlainDriver(), asyncio.Event()
    driver.on_ensure = held_by(done)
    async with serving(Service(driver)) as url:
        first = asyncio.create_task(call(url, "ensureBackend", retryID="ensure"))
        await settle()
        second = asyncio.create_task(call(url, "deregisterBackend", retryID="out"))
        await settle()
        assert ["ensure"] == driver.begun
        done.set()
        await asyncio.gather(first, second)

    assert ["ensure", "out"] == driver.ended


@pytest.mark.parametrize(
    ("member_key", "fields", "side_by_side"),
    [
        pytest.param("Address", {"recordID": "other"}, False, id="one address"),
        pytest.param("Address", {"backendAddr": "b:1"}, True, id="two addresses"),
        pytest.param("Address", {"lbInfo": {"id": "2"}}, True, id="two balancers"),
        pytest.param("Record", {"recordID": "other"}, True, id="two records"),
        pytest.param("Record", {"parameters": {"a": "b"}}, False, id="one record"),
    ],
)
async def test_only_calls_on_the_same_member_wait(
    member_key: str, fields: dict[str, object], side_by_side: bool
) -> None:
    """What a member is depends on how the load balancer tells members apart."""
    driver, done = PlainDriver(), asyncio.Event()
    driver.member_key = sdk.MemberKey(member_key)
    driver.on_ensure = held_by(done)
    async with serving(Service(driver)) as url:
        first = asyncio.create_task(call(url, "ensureBackend", retryID="1"))
        await settle()
        second = asyncio.create_task(call(url, "ensureBackend", retryID="2", **fields))
        await settle()
        assert side_by_side is (driver.begun == ["1", "2"])
        done.set()
        await asyncio.gather(first, second)


async def test_a_late_call_is_refused() -> None:
    """A call whose sender has long given up changes nothing."""
    driver = PlainDriver()
    async with serving(Service(driver)) as url:
        answer = await call(url, "ensureBackend", notAfter=LONG_AGO)

    assert "Fail" == answer["status"]
    assert "notAfter" in str(answer["msg"])
    assert [] == driver.begun


async def test_a_driver_whose_clock_is_ahead_says_so() -> None:
    """It refuses everything; its operator learns of both clocks from the records."""
    clock = SetClock()
    limit = clock.moment
    clock.moment += timedelta(seconds=15)
    async with serving(Service(PlainDriver(), clock)) as url:
        answer = await call(url, "ensureBackend", notAfter=limit.isoformat())

    said = str(answer["msg"])
    for moment in (limit, clock.moment):
        assert f"{moment:%Y-%m-%dT%H:%M:%S}.0Z" in said
    assert "clocks of the driver and of its caller differ" in said
    assert len(said) <= 256


async def test_a_late_call_does_not_wait_to_be_refused() -> None:
    """It is refused at once, also while its member is busy."""
    driver, done = PlainDriver(), asyncio.Event()
    driver.on_ensure = held_by(done)
    async with serving(Service(driver)) as url:
        first = asyncio.create_task(call(url, "ensureBackend", retryID="1"))
        await settle()
        answer = await call(url, "ensureBackend", notAfter=LONG_AGO)
        assert "Fail" == answer["status"]
        done.set()
        await first


async def test_a_call_that_became_late_in_line_is_refused() -> None:
    """A call that waited too long for its turn is not performed."""
    driver, done, clock = PlainDriver(), asyncio.Event(), SetClock()
    driver.on_ensure = held_by(done)
    limit = clock.moment + timedelta(seconds=10)
    async with serving(Service(driver, clock)) as url:
        first = asyncio.create_task(call(url, "ensureBackend", retryID="1"))
        await settle()
        second = asyncio.create_task(
            call(url, "ensureBackend", retryID="2", notAfter=limit.isoformat())
        )
        await settle()
        clock.moment = limit + timedelta(seconds=1)
        done.set()
        assert "Succ" == (await first)["status"]
        assert "Fail" == (await second)["status"]

    assert ["1"] == driver.begun


async def test_a_call_in_time_is_performed() -> None:
    """The limit itself is still in time."""
    driver, clock = PlainDriver(), SetClock()
    async with serving(Service(driver, clock)) as url:
        answer = await call(url, "ensureBackend", notAfter=clock.moment.isoformat())

    assert "Succ" == answer["status"]


@pytest.mark.parametrize("cancelling", [False, True])
async def test_a_caller_that_hangs_up_cuts_nothing(cancelling: bool) -> None:
    """What has begun goes on to its end, and its member waits for that."""
    driver, done = PlainDriver(), asyncio.Event()
    driver.on_ensure = held_by(done)
    async with serving(Service(driver), cancelling=cancelling) as url:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await call(url, "ensureBackend", retryID="1")
        next_call = asyncio.create_task(call(url, "deregisterBackend", retryID="2"))
        await settle()
        assert ["1"] == driver.begun
        assert [] == driver.ended
        done.set()
        await next_call

    assert ["1", "2"] == driver.ended


async def test_an_orderly_end_waits_for_what_has_begun() -> None:
    """Calls under way are answered, new ones are refused meanwhile."""
    driver, done = PlainDriver(), asyncio.Event()
    driver.on_ensure = held_by(done)
    service = Service(driver)
    async with serving(service) as url:
        first = asyncio.create_task(call(url, "ensureBackend"))
        await settle()
        drained = asyncio.create_task(service.drain(GRACE))
        await settle()
        assert not drained.done()
        refused = await call(url, "deregisterBackend", backendAddr="b:1")
        done.set()
        assert "Succ" == (await first)["status"]
        await drained

    assert "Fail" == refused["status"]
    assert "stopping" in str(refused["msg"])


async def test_what_outlasts_the_grace_period_is_cut() -> None:
    """A stuck operation does not hold the process; its caller gets no answer."""
    driver = PlainDriver()
    driver.on_ensure = held_by(asyncio.Event())
    service = Service(driver)
    async with serving(service) as url:
        first = asyncio.create_task(call(url, "ensureBackend"))
        await settle()
        await service.drain(timedelta(milliseconds=10))
        with pytest.raises(aiohttp.ClientError):
            await first

    assert [] == driver.ended


async def test_lines_are_forgotten() -> None:
    """Members come and go; nothing of them stays."""
    service = Service(PlainDriver())
    async with serving(service) as url:
        for number in range(5):
            await call(url, "ensureBackend", backendAddr=f"a:{number}")

    assert 0 == service.busy_members


async def test_unknown_fields_and_letter_case_do_not_matter() -> None:
    """Callers of another age are served."""
    body = json.dumps({"RECORDID": "r", "backendaddr": "a:1", "future": 1}).encode()
    async with serving(Service(PlainDriver())) as url:
        status, answer = await post(url, "ensureBackend", body)

    assert (200, "Succ") == (status, answer["status"])


class Noting(PlainDriver):
    """Notes each operation that gets to it, and succeeds."""

    batch = sdk.Batch()

    async def validate_load_balancer(
        self, _request: sdk.ValidateLoadBalancerRequest
    ) -> None:
        """Take it."""
        self.begun.append("validated")

    async def create_load_balancer(
        self, request: sdk.CreateLoadBalancerRequest
    ) -> Succ:
        """Note it."""
        self.begun.append(request.retry_id)
        return Succ()

    async def ensure_load_balancer(
        self, request: sdk.EnsureLoadBalancerRequest
    ) -> Succ:
        """Note it."""
        self.begun.append(request.retry_id)
        return Succ()

    async def generate_backend_addr(
        self, request: sdk.GenerateBackendAddrRequest
    ) -> Succ:
        """Note it."""
        self.begun.append(request.retry_id)
        return Succ(backend_addr="192.0.2.1:80")

    async def drain_backend(self, request: sdk.DrainBackendRequest) -> Succ:
        """Note it."""
        self.begun.append(request.retry_id)
        return Succ()


class Together(Noting):
    """Takes many members at once."""

    async def ensure_backends(
        self, requests: Sequence[EnsureBackendRequest]
    ) -> Mapping[str, sdk.Outcome]:
        """Note them."""
        self.begun += [one.retry_id for one in requests]
        return {one.record_id: Succ() for one in requests}


POD = {"pod": {}, "port": {"port": 80}}
ARRIVALS = [
    "validateLoadBalancer",
    "createLoadBalancer",
    "ensureLoadBalancer",
    "generateBackendAddr",
    "ensureBackend",
]


@pytest.mark.parametrize("operation", ARRIVALS)
async def test_who_locks_no_addresses_gets_nothing_in(operation: str) -> None:
    """One record's member could be that of another; the text says what to change."""
    driver = Noting()
    async with serving(Service(driver)) as url:
        answer = await call(url, operation, memberKey="Record", podBackend=POD)

    assert "Succ" != answer.get("status")
    assert not answer.get("succ")
    assert "memberKey: Address" in str(answer["msg"])
    assert len(str(answer["msg"])) <= LONGEST_MESSAGE
    assert 3600 == answer.get("minRetryDelayInSeconds", 3600)
    assert [] == driver.begun


@pytest.mark.parametrize("kind", [Noting, Together])
async def test_an_item_of_who_locks_no_addresses_is_refused_alone(
    kind: type[Noting],
) -> None:
    """Whoever performs the batch; the others are put in."""
    driver, item = kind(), {"backendAddr": "192.0.2.1:80", "retryID": "a"}
    items = [item | {"recordID": "b", "memberKey": "Record"}, item | {"recordID": "a"}]
    async with serving(Service(driver)) as url:
        body = json.dumps({"items": items}).encode()
        _, answer = await post(url, "ensureBackends", body)

    results = cast("list[Json]", answer["results"])
    told = {one["recordID"]: one["status"] for one in results}
    assert {"a": "Succ", "b": "Fail"} == told
    assert ["a"] == driver.begun


@pytest.mark.parametrize("operation", ["drainBackend", "deregisterBackend"])
async def test_who_locks_no_addresses_gets_its_members_out(operation: str) -> None:
    """A finalizer must not wait for ever: the driver looks whose the member is."""
    driver = Noting()
    async with serving(Service(driver)) as url:
        answer = await call(url, operation, memberKey="Record", retryID="1")

    assert ("Succ", ["1"]) == (answer["status"], driver.begun)


@pytest.mark.parametrize("operation", ARRIVALS)
@pytest.mark.parametrize(
    ("key", "said"),
    [
        (sdk.MemberKey.RECORD, "Record"),
        (sdk.MemberKey.RECORD, "Address"),
        (sdk.MemberKey.ADDRESS, "Address"),
        (sdk.MemberKey.ADDRESS, None),
    ],
)
async def test_all_others_get_in(
    operation: str, key: sdk.MemberKey, said: str | None
) -> None:
    """Also those who do not say by what they tell members apart, such as LBCF."""
    driver = Noting()
    driver.member_key = key
    async with serving(Service(driver)) as url:
        answer = await call(url, operation, memberKey=said, podBackend=POD)

    assert "Succ" == answer.get("status", "Succ")
    assert answer.get("succ", True)
    assert 1 == len(driver.begun)
