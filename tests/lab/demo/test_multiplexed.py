"""Over HTTP/2, too, what is not whole is a failure: an answer, or a stream of gRPC."""

import asyncio

import attrs
import pytest

from tests.envoy.streams import METHOD, GrpcServer
from tests.lab.demo import peers
from tests.lab.demo.answer import Failure
from tests.lab.demo.exchange import Order, Outcome, Protocol
from tests.lab.demo.multiplexed import Multiplexed
from tests.patience import PATIENCE


HOST = "127.0.0.1"
ASK = Order("/", fresh=False, asked=0.0, limit=PATIENCE, protocol=Protocol.HTTP2)
STREAM = Order(METHOD, fresh=True, asked=0.6, limit=PATIENCE, protocol=Protocol.GRPC)


async def outcome(address: str, order: Order) -> Outcome:
    """Send one order there."""
    client = Multiplexed(address)
    try:
        return await client.send(order)
    finally:
        client.close()


@pytest.mark.parametrize(
    ("behaviour", "failure", "status"),
    [
        (peers.over_http2(200, b"pod=a node=n"), None, 200),
        (peers.over_http2(503, b"no"), Failure.STATUS, 503),
        (peers.over_http2(200, b"pod=", cut=True), Failure.TRUNCATED, 0),
        (peers.over_http2(0, b"", cut=True), Failure.RESET, 0),
        (peers.answering(), Failure.RESET, 0),
    ],
    ids=["whole", "busy", "cut", "reset", "closed"],
)
async def test_counts_what_is_no_complete_200(
    behaviour: peers.Behaviour, failure: Failure | None, status: int
) -> None:
    """Each way to fail has its kind."""
    async with peers.serving(behaviour) as port:
        found = await outcome(f"{HOST}:{port}", ASK)

    expected = (failure, status, "" if failure else "a")
    assert expected == (found.failure, found.status, found.pod)


async def test_counts_a_hanging_answer() -> None:
    """An answer that does not end in time is a failure."""
    async with peers.serving(peers.hanging) as port:
        found = await outcome(f"{HOST}:{port}", attrs.evolve(ASK, limit=0.1))

    assert (Failure.TIMEOUT, 0, "") == (found.failure, found.status, found.pod)


async def test_counts_a_refused_connection() -> None:
    """Nobody listens."""
    async with peers.serving(peers.answering()) as port:
        pass

    assert Failure.CONNECT == (await outcome(f"{HOST}:{port}", ASK)).failure


async def test_requests_share_a_connection_until_it_ends() -> None:
    """Then there is another one: a close while nothing is under way is no failure."""
    answer = peers.over_http2(200, b"pod=a node=n")
    connections: list[asyncio.StreamWriter] = []
    seen = asyncio.Event()

    async def behave(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connections.append(writer)
        await answer(reader, writer)
        seen.set()  # its own end is the last that is heard of the client

    async with peers.serving(behave) as port:
        client = Multiplexed(f"{HOST}:{port}")
        found = await asyncio.gather(*(client.send(ASK) for _ in range(20)))
        connections[0].write_eof()
        await seen.wait()
        found.append(await client.send(ASK))
        client.close()

    assert [None] * 21 == [one.failure for one in found]
    assert 2 == len(connections)


async def test_a_stream_is_whole() -> None:
    """It goes on for as long as was asked, and names who answered."""
    async with GrpcServer.running("a", HOST) as server:
        found = await outcome(server.address, STREAM)

    assert (None, 200, "a") == (found.failure, found.status, found.pod)
    assert found.took >= STREAM.asked


async def test_a_stream_that_is_cut_is_a_failure() -> None:
    """Also where all that was asked so far was answered."""
    async with GrpcServer.running("a", HOST) as server:
        sent = asyncio.create_task(outcome(server.address, STREAM))
        await server.answered.wait()
        await server.stop()
        found = await sent

    assert (Failure.TRUNCATED, "a") == (found.failure, found.pod)
    assert found.status > 0


async def test_a_stream_without_an_answer_is_a_failure() -> None:
    """No server, or one that speaks something else."""
    async with peers.serving(peers.answering(peers.GOOD)) as port:
        found = await outcome(f"{HOST}:{port}", STREAM)

    assert (Failure.RESET, "") == (found.failure, found.pod)
