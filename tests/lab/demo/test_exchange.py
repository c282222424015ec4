"""The load generator's client is honest: what is not a complete 200 is a failure."""

import asyncio

from collections.abc import Callable

import pytest

from tests.lab.demo import peers
from tests.lab.demo.answer import FailedError, Failure, parse_head, pod_of
from tests.lab.demo.exchange import Client, Order, Outcome
from tests.patience import PATIENCE


KEPT = Order("/", fresh=False, asked=0.0, limit=PATIENCE)
NEW = Order("/", fresh=True, asked=0.0, limit=PATIENCE)
NO_LENGTH = b"HTTP/1.1 200 OK\r\n\r\npod=a\n"
NO_HTTP = b"ICY 200 OK\r\nContent-Length: 0\r\n\r\n"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nX-Member: m1\r\nContent-Length: 0\r\n\r\n"


async def outcomes(behaviour: peers.Behaviour, *orders: Order) -> list[Outcome]:
    """Send orders one after the other to a server that behaves so."""
    async with peers.serving(behaviour) as port:
        client = Client("127.0.0.1", port)
        try:
            return [await client.send(order) for order in orders]
        finally:
            client.close()


@pytest.mark.parametrize("order", [KEPT, NEW], ids=["kept", "new"])
@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        pytest.param(peers.answering(BUSY), Failure.STATUS, id="a 503"),
        pytest.param(peers.resetting(), Failure.RESET, id="a reset"),
        pytest.param(peers.answering(b""), Failure.RESET, id="a close without answer"),
        pytest.param(
            peers.answering(peers.GOOD[:-2]), Failure.TRUNCATED, id="a cut body"
        ),
        pytest.param(
            peers.answering(peers.GOOD[:20]), Failure.TRUNCATED, id="a cut head"
        ),
        pytest.param(
            peers.answering(peers.GOOD + b"x"), Failure.GARBAGE, id="a byte too many"
        ),
        pytest.param(peers.answering(NO_HTTP), Failure.GARBAGE, id="no HTTP"),
        pytest.param(peers.answering(NO_LENGTH), Failure.GARBAGE, id="no length"),
    ],
)
async def test_counts_what_is_no_complete_200(
    behaviour: peers.Behaviour, expected: Failure, order: Order
) -> None:
    """Each way of not answering is a failure of its kind, on any connection."""
    (outcome,) = await outcomes(behaviour, order)

    assert expected == outcome.failure


async def test_counts_a_hanging_answer() -> None:
    """An answer that does not end in time is a failure."""
    order = Order("/", fresh=True, asked=0.0, limit=0.05)

    (outcome,) = await outcomes(peers.hanging, order)

    assert Failure.TIMEOUT == outcome.failure


async def test_counts_a_refused_connection() -> None:
    """A connection that cannot be made is a failure."""
    async with peers.serving(peers.answering()) as port:
        pass

    outcome = await Client("127.0.0.1", port).send(NEW)

    assert Failure.CONNECT == outcome.failure


async def test_counts_a_reset_on_a_kept_connection() -> None:
    """A reset that meets a request on a kept connection is a failure: no retry."""
    first, second = await outcomes(peers.resetting(peers.GOOD), KEPT, KEPT)

    assert (None, Failure.RESET) == (first.failure, second.failure)


async def test_succeeds_on_a_complete_answer() -> None:
    """A complete 200 is a success and names its pod."""
    (outcome,) = await outcomes(peers.answering(peers.GOOD), NEW)

    assert (None, 200, "a") == (outcome.failure, outcome.status, outcome.pod)


async def test_keeps_connections() -> None:
    """Two kept requests share one connection: the second answer comes from it."""
    other = peers.GOOD.replace(b"=a", b"=b")

    found = await outcomes(peers.answering(peers.GOOD, other), KEPT, KEPT)

    assert ["a", "b"] == [outcome.pod for outcome in found]


async def test_a_close_while_idle_is_no_failure() -> None:
    """A kept connection that is closed while idle is replaced before sending."""
    first, second, client = await around_an_end(asyncio.StreamWriter.close)

    assert (None, None, 1) == (first.failure, second.failure, client.idle_closed)


async def test_a_reset_while_idle_is_a_failure() -> None:
    """A kept connection that is reset while idle was not closed cleanly."""
    _, second, client = await around_an_end(peers.reset)

    assert (Failure.RESET, 0) == (second.failure, client.idle_closed)


async def around_an_end(
    end: Callable[[asyncio.StreamWriter], None],
) -> tuple[Outcome, Outcome, Client]:
    """Send an order before and one after the server ends the connection that is kept."""
    ended = asyncio.Event()

    async def behave(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await peers.answering(peers.GOOD)(reader, writer)
        end(writer)
        await writer.wait_closed()
        ended.set()

    async with peers.serving(behave) as port:
        client = Client("127.0.0.1", port)
        first = await client.send(KEPT)
        await ended.wait()
        second = await client.send(KEPT)
        client.close()
    return first, second, client


async def test_an_announced_close_ends_the_connection() -> None:
    """After an answer with `Connection: close` the next request has a new one."""
    closing = peers.GOOD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with peers.serving(peers.answering(closing)) as port:
        client = Client("127.0.0.1", port)
        found = [await client.send(KEPT) for _ in range(2)]

    assert [None, None] == [outcome.failure for outcome in found]
    assert client.idle_closed == 0


async def test_names_the_member_of_a_failed_answer() -> None:
    """The header that HAProxy adds tells which member failed."""
    (outcome,) = await outcomes(peers.answering(BUSY), NEW)

    assert (503, "m1") == (outcome.status, outcome.pod)


def test_refuses_a_length_that_is_no_number() -> None:
    """A head with such a length is garbage, not a crash."""
    with pytest.raises(FailedError, match="garbage"):
        parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: many")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"pod=web-1 node=n1 version=2\n", "web-1"),
        (b"done web-2\n", "web-2"),
        (b"hello\n", ""),
        (b"", ""),
    ],
)
def test_reads_the_pod_from_the_body(body: bytes, expected: str) -> None:
    """The web app says who it is in two ways; other bodies name nobody."""
    assert expected == pod_of(body)
