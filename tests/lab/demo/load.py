"""The load generator: a program of its own, so that nothing else slows it.

    python -m tests.lab.demo.load --address HOST:PORT --rate N --seconds N --record FILE [--http2]

Requests are sent at a fixed rate, whether or not earlier ones have been answered: a
client that waits for answers would send least when most goes wrong. Of ten requests
seven use kept connections and three a new one each; one of forty-one asks the app to take
one to five seconds, so that a drain has something to wait for. With `--http2` one of four goes over
HTTP/2, and one of ninety-seven is a stream of gRPC of three to nine seconds.

What counts as failed say `exchange` and `multiplexed`. At most `MAX_IN_FLIGHT` requests are under way:
where that many are unanswered, further ones are held back and counted as such.

On standard output, one JSON object per line: `{"progress": {...}}` twice a second,
`{"failure": {...}}` for each failed request, `{"final": {...}}` at the end. Moments are
seconds of the machine's monotonic clock, which all programs of the machine share. FILE
gets a line for each request: moment, milliseconds, status, failure, connection, pod, protocol.

It ends after `--seconds`, on SIGTERM or when its standard input is closed; requests
under way are awaited.
"""

import argparse
import asyncio
import json
import signal
import sys
import time

from collections import Counter
from pathlib import Path
from typing import TextIO

from tests.envoy.streams import METHOD
from tests.lab.demo.exchange import Client, Order, Outcome, Protocol
from tests.lab.demo.latency import Latencies
from tests.lab.demo.multiplexed import Multiplexed


MAX_IN_FLIGHT = 500
LIMIT = 10.0
PROGRESS_INTERVAL = 0.5
SLOW_EVERY = 41
LONGEST = 5  # seconds
TICK = 0.005
NEW_OF_TEN = 3
HTTP2_EVERY = 4
STREAM_EVERY = 97
SHORTEST_STREAM = 3  # seconds
LONGEST_STREAM = 9  # seconds; the drain has to wait for longer


def order_number(number: int, protocol: Protocol = Protocol.HTTP1) -> Order:
    """Say what the request with this running number asks.

    The number is in the path, so that the load balancer's log tells what became of it.
    """
    if protocol is Protocol.GRPC:
        lengths = LONGEST_STREAM - SHORTEST_STREAM + 1
        seconds = float(SHORTEST_STREAM + number // STREAM_EVERY % lengths)
        return Order(METHOD, True, seconds, LIMIT + seconds, protocol)
    fresh = protocol is Protocol.HTTP1 and number * 7 % 10 < NEW_OF_TEN
    if number % SLOW_EVERY:
        return Order(f"/?n={number}", fresh, 0.0, LIMIT, protocol)
    seconds = 1.0 + number // SLOW_EVERY % LONGEST
    path = f"/slow?s={seconds}&n={number}"
    return Order(path, fresh, seconds, LIMIT + seconds, protocol)


def mixed(number: int) -> Order:
    """Say what the request with this running number asks where HTTP/2 is spoken, too."""
    if number % STREAM_EVERY == 0:
        return order_number(number, Protocol.GRPC)
    is_http2 = number % HTTP2_EVERY == 0
    return order_number(number, Protocol.HTTP2 if is_http2 else Protocol.HTTP1)


class Tally:
    """Counts outcomes, writes them down and tells of failures at once.

    Attributes:
        requests: requests answered or failed.
        failed: those of them that failed.
        held_back: requests that were due but not sent, as too many were under way.
    """

    def __init__(self, record: TextIO, out: TextIO) -> None:
        self._record = record
        self._out = out
        self._latencies = Latencies()
        self._pods: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._protocols: Counter[str] = Counter()
        self.requests = 0
        self.failed = 0
        self.held_back = 0

    def add(self, outcome: Outcome) -> None:
        """Count one request."""
        self.requests += 1
        self._protocols[outcome.order.protocol] += 1
        self._latencies.add(max(outcome.took - outcome.order.asked, 0.0))
        connection = "new" if outcome.order.fresh else "kept"
        kind = outcome.failure or ""
        self._record.write(
            f"{outcome.sent:.4f},{outcome.took * 1000:.1f},{outcome.status},{kind},"
            f"{connection},{outcome.pod},{outcome.order.protocol}\n"
        )
        if not kind:
            self._pods[outcome.pod] += 1
            return
        self.failed += 1
        self._kinds[kind] += 1
        self._say("failure", _failure_fields(outcome, connection))

    def tell(self, topic: str, client: Client, in_flight: int) -> None:
        """Say how far things are; the pods' counts are those since the last time."""
        fields = {
            "at": round(time.monotonic(), 3),
            "requests": self.requests,
            "failed": self.failed,
            "protocols": dict(self._protocols),
            "kinds": dict(self._kinds),
            "in_flight": in_flight,
            "held_back": self.held_back,
            "idle_closed": client.idle_closed,
            "p50_ms": self._latencies.percentile(0.5),
            "p99_ms": self._latencies.percentile(0.99),
            "pods": dict(self._pods),
        }
        self._pods.clear()
        self._say(topic, fields)

    def _say(self, topic: str, fields: dict[str, object]) -> None:
        """Write one line for the program that started this one."""
        self._out.write(json.dumps({topic: fields}) + "\n")
        self._out.flush()


def _failure_fields(outcome: Outcome, connection: str) -> dict[str, object]:
    """Describe a failed request."""
    return {
        "sent": outcome.sent,
        "took_ms": round(outcome.took * 1000, 1),
        "path": outcome.order.path,
        "connection": connection,
        "kind": outcome.failure,
        "status": outcome.status,
        "pod": outcome.pod,
        "protocol": outcome.order.protocol,
    }


class Generator:
    """Sends at a fixed rate until told to stop.

    Args:
        client: sends what goes over HTTP/1.1.
        tally: counts.
        rate: requests per second.
        multiplexed: sends a share over HTTP/2; None: all goes over HTTP/1.1.

    Attributes:
        stop: set it, and no further request is sent.
    """

    def __init__(
        self,
        client: Client,
        tally: Tally,
        rate: float,
        multiplexed: Multiplexed | None = None,
    ) -> None:
        self._client = client
        self._multiplexed = multiplexed
        self._tally = tally
        self._rate = rate
        self._under_way: set[asyncio.Task[None]] = set()
        self.stop = asyncio.Event()

    async def run(self, seconds: float) -> None:
        """Send for so many seconds, then wait for the requests under way."""
        begin = time.monotonic()
        number, told = 0, begin
        while not self.stop.is_set() and (now := time.monotonic()) < begin + seconds:
            if now >= told + PROGRESS_INTERVAL:
                self._tell("progress")
                told = now
            due = int((now - begin) * self._rate)
            for late in range(number, due):
                self._send(late)
            number = max(due, number)
            await asyncio.sleep(TICK)
        if self._under_way:
            await asyncio.wait(self._under_way)
        self._client.close()
        self._tell("final")

    def _tell(self, topic: str) -> None:
        """Say how far things are."""
        self._tally.tell(topic, self._client, len(self._under_way))

    def _send(self, number: int) -> None:
        """Start one request, unless too many are under way."""
        if len(self._under_way) >= MAX_IN_FLIGHT:
            self._tally.held_back += 1
            return
        order = mixed(number) if self._multiplexed else order_number(number)
        task = asyncio.create_task(self._one(order))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _one(self, order: Order) -> None:
        """Carry one request out and count it."""
        over_http2 = order.protocol is not Protocol.HTTP1
        client = self._multiplexed if self._multiplexed and over_http2 else self._client
        self._tally.add(await client.send(order))


async def _until_closed(stop: asyncio.Event) -> None:
    """Set `stop` when standard input ends: whoever started this program is gone."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    await reader.read()
    stop.set()


async def run(arguments: argparse.Namespace) -> None:
    """Send what the arguments ask for."""
    host, _, port = arguments.address.rpartition(":")
    with arguments.record.open("w") as record:
        tally, client = Tally(record, sys.stdout), Client(host, int(port))
        multiplexed = Multiplexed(arguments.address) if arguments.http2 else None
        generator = Generator(client, tally, arguments.rate, multiplexed)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, generator.stop.set)
        watcher = asyncio.create_task(_until_closed(generator.stop))
        await generator.run(arguments.seconds)
        watcher.cancel()
        if multiplexed:
            multiplexed.close()


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="tests.lab.demo.load", description=__doc__)
    parser.add_argument("--address", required=True, help="HOST:PORT")
    parser.add_argument("--rate", type=float, default=400, help="requests per second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--record", type=Path, required=True, help="CSV of requests")
    parser.add_argument("--http2", action="store_true", help="HTTP/2 and gRPC, too")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
