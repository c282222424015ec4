"""The pool: who may call at the same time, and what is counted."""

import asyncio
import contextlib
import gc
import os
import tracemalloc

from collections.abc import AsyncIterator
from datetime import timedelta

import attrs
import pytest

from prometheus_client import CollectorRegistry, generate_latest

from lbcf.core.model.operations import Operation
from lbcf.core.model.values import ObjectKey
from lbcf.drivers.errors import (
    BadStatus,
    DriverError,
    NotSent,
    TimedOut,
    TooLate,
)
from lbcf.drivers.pool import DriverPool
from lbcf.runtime.clock import SystemClock
from lbcf.wire.driver_answers import ListBackendsAnswer, Status, ValidationAnswer
from lbcf.wire.driver_requests import HealthzRequest, ListBackendsRequest
from tests.drivers.servers import (
    HASTY,
    PATIENT,
    SUCC,
    a_driver,
    ensure,
    read_request,
    replying,
    response,
    serving,
    silent,
)


URL = "http://192.0.2.1"
CHURN = int(os.environ.get("LBCF_TEST_CHURN", "500"))
"""Drivers that come and go; 5,000 of them leave less than 2 MiB."""
BALANCER = ObjectKey("web", "front")
UNANSWERED = "lbcf_driver_calls_without_answer_total"
ENSURING = {"driver": "web/mine", "operation": "ensureBackend"}


async def settle() -> None:
    """Let every task go on until it waits for something."""
    for _ in range(10):
        await asyncio.sleep(0)


def count(registry: CollectorRegistry, operation: str, outcome: str) -> float | None:
    """Return how many calls of the operation ended so."""
    labels = {"driver": "web/mine", "operation": operation, "outcome": outcome}
    return registry.get_sample_value("lbcf_driver_calls_total", labels)


@contextlib.asynccontextmanager
async def waiting_for_slot(
    pool: DriverPool, limit: int, balancer: ObjectKey, balancer_limit: int | None
) -> AsyncIterator[asyncio.Event]:
    """Ask for a slot in the background; the event says that it was given."""
    given = asyncio.Event()

    async def ask() -> None:
        async with pool.slot(a_driver(URL, limit), balancer, limit=balancer_limit):
            given.set()

    task = asyncio.create_task(ask())
    await settle()
    try:
        yield given
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_driver_gets_no_more_calls_than_it_bears(pool: DriverPool) -> None:
    """The next one waits for a place."""
    async with contextlib.AsyncExitStack() as inside:
        await inside.enter_async_context(pool.slot(a_driver(URL, 1), BALANCER))
        async with waiting_for_slot(pool, 1, BALANCER, None) as given:
            assert not given.is_set()
            await inside.aclose()
            await settle()
            assert given.is_set()


async def test_a_load_balancer_has_its_own_limit(pool: DriverPool) -> None:
    """A driver with places left is not called twice for a slow load balancer."""
    async with (
        pool.slot(a_driver(URL), BALANCER, limit=1),
        waiting_for_slot(pool, 32, BALANCER, 1) as same,
        waiting_for_slot(pool, 32, ObjectKey("web", "other"), 1) as other,
    ):
        assert not same.is_set()
        assert other.is_set()


async def test_waiting_for_a_load_balancer_takes_no_place_of_the_driver(
    pool: DriverPool,
) -> None:
    """One load balancer that bears little cannot use up the driver for all."""
    async with (
        pool.slot(a_driver(URL, 2), BALANCER, limit=1),
        waiting_for_slot(pool, 2, BALANCER, 1),
        waiting_for_slot(pool, 2, ObjectKey("web", "other"), 1) as other,
    ):
        assert other.is_set()


async def test_calls_are_counted_by_status(
    pool: DriverPool, registry: CollectorRegistry
) -> None:
    """A valid answer counts as what it says."""
    for status in Status:
        async with serving(
            replying(response(b'{"status": "%s"}' % status.encode()))
        ) as url:
            assert status is (await ensure(pool, url)).status
        assert 1 == count(registry, "ensureBackend", status)


async def test_failed_calls_are_counted_by_reason(
    pool: DriverPool, registry: CollectorRegistry
) -> None:
    """An answer that is none counts under the reason that conditions show."""
    async with serving(replying(response(b"", b"500 Oh"))) as url:
        with pytest.raises(BadStatus):
            await ensure(pool, url)

    assert 1 == count(registry, "ensureBackend", "DriverBadStatus")
    labels = {"driver": "web/mine", "operation": "ensureBackend"}
    assert 1 == registry.get_sample_value(
        "lbcf_driver_call_duration_seconds_count", labels
    )


@pytest.mark.parametrize(
    ("body", "unanswered"),
    [(b'{"status": "Running"}', None), (b"what?", 1)],
    ids=["an answer", "something else"],
)
async def test_calls_whose_effect_nobody_knows_are_counted(
    pool: DriverPool, registry: CollectorRegistry, body: bytes, unanswered: int | None
) -> None:
    """Running is an answer; what is no answer may hide an effect."""
    async with serving(replying(response(body))) as url:
        with contextlib.suppress(DriverError):
            await ensure(pool, url)

    assert unanswered == registry.get_sample_value(UNANSWERED, ENSURING)


async def test_call_that_was_never_sent_hides_no_effect(
    pool: DriverPool, registry: CollectorRegistry
) -> None:
    """Where no connection came about there is nothing to wait for."""
    with pytest.raises(NotSent):
        await ensure(pool, "http://127.0.0.1:1")

    assert registry.get_sample_value(UNANSWERED, ENSURING) is None


@pytest.mark.parametrize(
    ("healthy", "outcome"), [(b"true", "Succ"), (b"false", "Fail")]
)
async def test_health_counts_as_succ_or_fail(
    pool: DriverPool, registry: CollectorRegistry, healthy: bytes, outcome: str
) -> None:
    """Operations without a status are counted in the same words."""
    async with serving(replying(response(b'{"healthy": %s}' % healthy))) as url:
        answer = await pool.call(
            a_driver(url), Operation.HEALTHZ, HealthzRequest(), timeout=PATIENT
        )

    assert (healthy == b"true") is answer.healthy
    assert not isinstance(answer, ValidationAnswer)
    assert 1 == count(registry, "healthz", outcome)


async def test_the_answer_has_the_type_of_its_operation(pool: DriverPool) -> None:
    """What is parsed is what the request asked for."""
    body = b'{"epoch": "7", "backends": [{"backendAddr": "a:1", "state": "Draining"}]}'
    async with serving(replying(response(body))) as url:
        answer: ListBackendsAnswer = await pool.call(
            a_driver(url),
            Operation.LIST_BACKENDS,
            ListBackendsRequest(),
            timeout=PATIENT,
        )

    assert "7" == answer.epoch
    assert "a:1" == answer.backends[0].backend_addr


async def test_calls_under_way_and_cancelled_are_counted(
    pool: DriverPool, registry: CollectorRegistry
) -> None:
    """A call that its caller gave up is counted, and is not under way any more."""

    def in_flight() -> float | None:
        return registry.get_sample_value(
            "lbcf_driver_calls_in_flight", {"driver": "web/mine"}
        )

    async with serving(silent) as url:
        call = asyncio.create_task(ensure(pool, url))
        await settle()
        assert 1 == in_flight()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    assert 0 == in_flight()
    assert 1 == count(registry, "ensureBackend", "Cancelled")


async def test_call_whose_permission_ran_out_is_not_sent(
    pool: DriverPool, registry: CollectorRegistry
) -> None:
    """However long the process stood still after its last look at the record."""
    heard = asyncio.Event()

    async def talk(
        _reader: asyncio.StreamReader, _writer: asyncio.StreamWriter
    ) -> None:
        heard.set()

    async with serving(talk) as url:
        with pytest.raises(TooLate, match="its permission had run out") as caught:
            await ensure(pool, url, until=SystemClock().monotonic())

    assert caught.value.definite
    assert not heard.is_set()
    assert 1 == count(registry, "ensureBackend", "DriverCallTooLate")


async def test_call_is_over_when_its_permission_is(pool: DriverPool) -> None:
    """It gets what is left of its time, where that is less than its time-out."""
    async with serving(silent) as url:
        until = SystemClock().monotonic() + HASTY.total_seconds()
        with pytest.raises(TimedOut):
            await ensure(pool, url, timedelta(days=1), until=until)


async def test_a_slow_driver_holds_up_no_other(pool: DriverPool) -> None:
    """Calls of different drivers share nothing."""
    async with serving(silent) as slow, serving(replying(response())) as fast:
        held = asyncio.create_task(ensure(pool, slow))
        assert Status.SUCC is (await ensure(pool, fast, PATIENT / 2)).status
        assert not held.done()
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)


async def test_many_calls_of_one_driver_go_side_by_side(pool: DriverPool) -> None:
    """Nothing but the driver's own limit holds calls up."""
    arrived = asyncio.Barrier(50)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await arrived.wait()
        writer.write(response(SUCC))

    async with serving(talk) as url:
        answers = await asyncio.gather(*(ensure(pool, url) for _ in range(50)))

    assert [Status.SUCC] * 50 == [answer.status for answer in answers]


async def test_a_forgotten_driver_is_called_to_the_end(
    pool: DriverPool, registry: CollectorRegistry
) -> None:
    """A call under way is finished, and nothing is left; a later one connects anew."""
    asked, answered = asyncio.Event(), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        asked.set()
        await answered.wait()
        writer.write(response(SUCC))

    async with serving(talk) as url:
        held = asyncio.create_task(ensure(pool, url))
        await asked.wait()
        pool.forget(a_driver(url).meta.key)
        assert b'driver="web/mine"' in generate_latest(registry)
        answered.set()

        assert Status.SUCC is (await held).status
        assert b'driver="' not in generate_latest(registry)
    async with serving(replying(response())) as url:
        assert Status.SUCC is (await ensure(pool, url)).status
        pool.forget(a_driver(url).meta.key)
        pool.forget(a_driver(url).meta.key)

    assert b'driver="' not in generate_latest(registry)


async def test_drivers_that_come_and_go_leave_nothing(
    pool: DriverPool, registry: CollectorRegistry
) -> None:
    """Neither series nor memory: whoever may make drivers may make many of them."""

    async def live(url: str, number: int) -> None:
        key = ObjectKey("web", f"driver-{number}")
        driver = attrs.evolve(
            a_driver(url), meta=attrs.evolve(a_driver(url).meta, key=key)
        )
        async with pool.slot(driver):
            await pool.call(
                driver, Operation.HEALTHZ, HealthzRequest(), timeout=PATIENT
            )
        pool.forget(key)

    async with serving(replying(response(b'{"healthy": true}'))) as url:
        for number in range(100):
            await live(url, number)
        gc.collect()
        tracemalloc.start()
        try:
            for number in range(100, 100 + CHURN):
                await live(url, number)
            await settle()
            gc.collect()
            left, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    print(f"left of {CHURN} drivers: {left / 1024:.0f} KiB")
    assert b'driver="' not in generate_latest(registry)
    assert left < 400 * CHURN
