"""The load generator asks for a mixture, counts all of it and stops when told."""

import asyncio
import io
import json
import time

import pytest

from tests.lab.demo import load, manifests, peers
from tests.lab.demo.answer import Failure
from tests.lab.demo.exchange import Client, Order, Outcome, Protocol
from tests.lab.demo.latency import Latencies


MANY = 4100
FOR_EVER = 3600.0
"""Seconds: longer than a test may take."""


def outcome(failure: Failure | None = None, took: float = 0.01) -> Outcome:
    """One request that went so."""
    order = Order("/slow?s=1", fresh=True, asked=1.0, limit=2.0)
    return Outcome(5.0, 1.0 + took, order, 200, failure, "a")


def lines(text: str) -> list[dict[str, dict[str, object]]]:
    """What the generator said."""
    return [json.loads(line) for line in text.splitlines()]


def test_three_of_ten_connections_are_new() -> None:
    """Seven of ten requests use kept connections."""
    fresh = sum(load.order_number(number).fresh for number in range(MANY))

    assert MANY * 3 // 10 == fresh


def test_slow_requests_come_on_both_kinds_of_connection() -> None:
    """One in forty-one is slow, for one to five seconds, on new and kept ones."""
    slow = [load.order_number(number) for number in range(MANY)]
    slow = [order for order in slow if order.asked]

    assert MANY // load.SLOW_EVERY == len(slow)
    assert {True, False} == {order.fresh for order in slow}
    assert {1.0, 2.0, 3.0, 4.0, 5.0} == {order.asked for order in slow}


def test_a_share_goes_over_http2() -> None:
    """Every fourth request; some are streams, which end before a drain has to."""
    orders = [load.mixed(number) for number in range(MANY)]
    streams = [order for order in orders if order.protocol is Protocol.GRPC]
    rest = [order for order in orders if order.protocol is Protocol.HTTP1]

    assert len(streams) == 1 + (MANY - 1) // load.STREAM_EVERY
    assert len(rest) > MANY / 2
    assert {3, 4, 5, 6, 7, 8, 9} == {order.asked for order in streams}
    assert max(order.asked for order in streams) < manifests.DRAIN_TIMEOUT
    for protocol in (Protocol.HTTP1, Protocol.HTTP2):
        asked = [order.asked for order in orders if order.protocol is protocol]
        assert {0.0, 1.0, 2.0, 3.0, 4.0, 5.0} == set(asked)
    assert {True, False} == {order.fresh for order in rest}


def test_tells_of_a_failure_at_once() -> None:
    """A failed request is counted, told and written down with its kind."""
    record, out = io.StringIO(), io.StringIO()
    tally = load.Tally(record, out)

    tally.add(outcome(Failure.RESET))

    assert (1, 1) == (tally.requests, tally.failed)
    assert "reset" == lines(out.getvalue())[0]["failure"]["kind"]
    assert "5.0000,1010.0,200,reset,new,a,http1\n" == record.getvalue()


def test_latency_leaves_out_what_the_app_was_asked_to_take() -> None:
    """A slow answer that comes when it should has no latency to speak of."""
    out = io.StringIO()
    tally = load.Tally(io.StringIO(), out)

    tally.add(outcome())
    tally.tell("final", Client("127.0.0.1", 1), in_flight=0)

    assert 10.0 == lines(out.getvalue())[0]["final"]["p99_ms"]


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50.0), (0.99, 99.0), (1, 100.0)])
def test_percentiles(share: float, expected: float) -> None:
    """A percentile is the value that this share of the requests did not exceed."""
    latencies = Latencies()
    for ms in range(1, 101):
        latencies.add(ms / 1000)

    assert expected == latencies.percentile(share)


async def test_sends_at_its_rate_and_awaits_what_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All requests that were due are in the last figures, none is lost."""
    monkeypatch.setattr(load, "LIMIT", FOR_EVER)
    monkeypatch.setattr(load, "MAX_IN_FLIGHT", 40)  # fewer than may wait for a server
    out, asked = io.StringIO(), asyncio.Event()

    async def behave(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        asked.set()
        await peers.slow(reader, writer)

    async with peers.serving(behave) as port:
        client = Client("127.0.0.1", port)
        tally = load.Tally(io.StringIO(), out)
        generator = load.Generator(client, tally, rate=200)
        began = time.monotonic()
        running = asyncio.create_task(generator.run(FOR_EVER))
        await asked.wait()
        generator.stop.set()
        await running

    final = lines(out.getvalue())[-1]["final"]
    assert (0, 0) == (final["failed"], final["in_flight"])
    assert 0 < tally.requests <= 200 * (time.monotonic() - began)


async def test_holds_back_what_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many unanswered requests further ones are counted, not sent."""
    monkeypatch.setattr(load, "MAX_IN_FLIGHT", 3)
    enough = asyncio.Event()

    async def behave(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await peers.request(reader)
        await enough.wait()

    async with peers.serving(behave) as port:
        tally = load.Tally(io.StringIO(), io.StringIO())
        generator = load.Generator(Client("127.0.0.1", port), tally, rate=200)
        running = asyncio.create_task(generator.run(FOR_EVER))
        while not tally.held_back:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(load.TICK)
        generator.stop.set()
        enough.set()
        await running

    assert 3 == tally.requests == tally.failed


async def test_stops_when_told() -> None:
    """Once `stop` is set nothing further is sent, however long it was to run."""
    async with peers.serving(peers.answering(peers.GOOD)) as port:
        tally = load.Tally(io.StringIO(), io.StringIO())
        generator = load.Generator(Client("127.0.0.1", port), tally, rate=100)
        generator.stop.set()
        await generator.run(FOR_EVER)

    assert 0 == tally.requests
