"""Calls of hostile and broken servers: each ends in its own error, and soon."""

import asyncio
import gzip
import socket
import ssl

from collections.abc import Sequence
from datetime import timedelta

import pytest
import trustme

from prometheus_client import CollectorRegistry

from lbcf.core.model.operations import Operation
from lbcf.drivers.client import LARGEST_ANSWER, LARGEST_LIST, DriverClient
from lbcf.drivers.errors import (
    BadAnswer,
    BadStatus,
    ConnectionLost,
    DriverError,
    NotAllowed,
    NotSent,
    Redirected,
    TimedOut,
    TooLarge,
)
from lbcf.drivers.pool import DriverPool
from lbcf.drivers.url_allowlist import AllowedUrl
from lbcf.runtime.clock import SystemClock
from lbcf.wire.driver import render_request
from lbcf.wire.driver_answers import ListBackendsAnswer, Status
from lbcf.wire.driver_requests import (
    JudgePodDeregisterRequest,
    ListBackendsRequest,
)
from tests.drivers.servers import (
    BESIDE_US,
    HASTY,
    PATIENT,
    REQUEST,
    SUCC,
    Talk,
    a_driver,
    ensure,
    read_request,
    repeating,
    replying,
    response,
    serving,
    silent,
)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
SECRET = b"the-page-of-somebody-else"


async def failure(pool: DriverPool, talk: Talk) -> DriverError:
    """Call a server that ends the call by itself; return the error."""
    async with serving(talk) as url:
        with pytest.raises(DriverError) as raised:
            await ensure(pool, url)
    return raised.value


async def overtime(pool: DriverPool, talk: Talk) -> DriverError:
    """Call a server that would never end; return the error.

    It answers the first request: the time of the call passes on a connection that is
    there, however slowly this machine connects.
    """
    connections = 0

    async def after_one(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        nonlocal connections
        connections += 1
        if connections == 1:
            await read_request(reader)
            writer.write(response())
        await talk(reader, writer)

    async with serving(after_one) as url:
        await ensure(pool, url)
        with pytest.raises(DriverError) as raised:
            await ensure(pool, url, HASTY)
    return raised.value


async def test_a_valid_answer_is_returned(pool: DriverPool) -> None:
    """A 200 with a valid body counts."""
    async with serving(replying(response())) as url:
        assert Status.SUCC is (await ensure(pool, url)).status


@pytest.mark.parametrize("kind", [b"text/html", b"text/plain; charset=latin-1"])
async def test_the_content_type_does_not_matter(pool: DriverPool, kind: bytes) -> None:
    """Many small services do not set it; the body decides."""
    header = b"Content-Type: " + kind + b"\r\n"
    async with serving(replying(response(headers=header))) as url:
        assert Status.SUCC is (await ensure(pool, url)).status


async def test_the_request_is_json_at_the_operation(pool: DriverPool) -> None:
    """The URL's own path comes before the operation, with or without a slash."""
    seen: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(response())

    async with serving(talk) as url:
        await ensure(pool, f"{url}/below")
        await ensure(pool, f"{url}/below/")

    for request in seen:
        assert request.startswith(b"POST /below/ensureBackend HTTP/1.1\r\n")
        assert b"\r\nContent-Type: application/json\r\n" in request
        assert b'"recordID":"r"' in request


async def test_a_large_request_arrives_whole(pool: DriverPool) -> None:
    """All pods of a group may be in one request."""
    pod: dict[str, object] = {"metadata": {"name": "x" * (4 * LARGEST_ANSWER)}}
    request = JudgePodDeregisterRequest(not_ready_pods=[pod])
    seen: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(response(b'{"succ": true}'))

    async with serving(talk) as url:
        operation = Operation.JUDGE_POD_DEREGISTER
        await pool.call(a_driver(url), operation, request, timeout=PATIENT)

    (received,) = seen
    assert received.endswith(render_request(request))


async def test_a_slow_drip_ends_at_the_time_out(pool: DriverPool) -> None:
    """Bytes that keep coming do not prolong a call."""
    error = await overtime(pool, repeating(b" ", first=ENDLESS_HEAD, pause=0.01))

    assert isinstance(error, TimedOut)
    assert not error.definite


async def test_endless_headers_end(pool: DriverPool) -> None:
    """A head that never ends is not collected for ever."""
    error = await failure(
        pool, repeating(b"X-A: " + b"a" * 8000 + b"\r\n", first=b"HTTP/1.1 200 OK\r\n")
    )

    assert isinstance(error, BadAnswer)


async def test_interim_responses_without_end_end(pool: DriverPool) -> None:
    """A server that says 100 Continue for ever runs out of time."""
    error = await overtime(
        pool, repeating(b"HTTP/1.1 100 Continue\r\n\r\n", first=b"", pause=0.001)
    )

    assert isinstance(error, TimedOut)


async def test_silence_ends_at_the_time_out(pool: DriverPool) -> None:
    """A server that took the request and says nothing may still act on it."""
    error = await overtime(pool, silent)

    assert isinstance(error, TimedOut)
    assert not error.definite


async def test_each_call_has_its_own_time_out(pool: DriverPool) -> None:
    """Of two calls of one silent driver, the one that was given less ends first."""
    async with serving(silent) as url:
        patient = asyncio.create_task(ensure(pool, url, PATIENT))
        await asyncio.sleep(0.05)  # it is the first of the two
        with pytest.raises(TimedOut):
            await ensure(pool, url, HASTY)
        assert not patient.done()
        patient.cancel()
        await asyncio.gather(patient, return_exceptions=True)


async def test_people_read_how_long_a_call_took(pool: DriverPool) -> None:
    """What is left of a time-out of 2.2 s is told as 2.2 s."""
    rest = timedelta(seconds=2.199976)
    async with serving(silent) as url:
        with pytest.raises(TimedOut, match=r"no whole answer within 2\.2 s$"):
            await ensure(pool, url, rest)


async def test_an_endless_body_is_cut(pool: DriverPool) -> None:
    """A body without an end is not collected for ever."""
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    error = await failure(pool, repeating(piece, first=CHUNKED))

    assert isinstance(error, TooLarge)


async def test_the_largest_answer_is_taken(pool: DriverPool) -> None:
    """The limit itself is allowed, one byte more is not."""
    body = SUCC.ljust(LARGEST_ANSWER)

    async with serving(replying(response(body))) as url:
        assert Status.SUCC is (await ensure(pool, url)).status
    assert isinstance(await failure(pool, replying(response(body + b" "))), TooLarge)


async def listed(pool: DriverPool, url: str) -> ListBackendsAnswer:
    """Ask a driver for its members."""
    request, operation = ListBackendsRequest(lb_info={}), Operation.LIST_BACKENDS
    return await pool.call(a_driver(url), operation, request, timeout=PATIENT)


def a_list(members: int) -> bytes:
    """Return an answer with so many members, of some 120 bytes each."""
    member = b'{"backendAddr": "%s", "recordID": "r", "state": "Active"}' % (b"a" * 64)
    return b'{"status": "Succ", "backends": [%s]}' % b",".join([member] * members)


async def test_a_list_of_many_members_is_taken(pool: DriverPool) -> None:
    """A reset of a large load balancer is seen, too."""
    body = a_list(50_000)
    assert 4 * LARGEST_ANSWER < len(body) < LARGEST_LIST

    async with serving(replying(response(body))) as url:
        assert 50_000 == len((await listed(pool, url)).backends)


async def test_a_list_that_is_too_large_is_told(pool: DriverPool) -> None:
    """Its reason is not that of an answer that makes no sense."""
    async with serving(replying(response(a_list(2).ljust(LARGEST_LIST + 1)))) as url:
        with pytest.raises(TooLarge) as raised:
            await listed(pool, url)

    assert "DriverAnswerTooLarge" == raised.value.reason


async def test_large_lists_are_read_a_few_at_a_time(pool: DriverPool) -> None:
    """While four are read, a fifth waits in its driver; small ones pass by."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGEST_LIST
    first = head + b" " * (LARGEST_ANSWER + 1)
    async with (
        serving(repeating(b" ", first=first, pause=0.01)) as dripping,
        serving(replying(response(a_list(50_000)))) as large,
        serving(replying(response(a_list(1)))) as small,
    ):
        hogs = [asyncio.create_task(listed(pool, dripping)) for _ in range(4)]
        while not pool._large.locked():  # noqa: ASYNC110, SLF001 - nothing else tells
            await asyncio.sleep(0.01)
        fifth = asyncio.create_task(listed(pool, large))
        await asyncio.sleep(0.5)
        assert 1 == len((await listed(pool, small)).backends)
        waited = not fifth.done()
        hogs.pop().cancel()
        found = await fifth
        for hog in hogs:
            hog.cancel()
        await asyncio.gather(*hogs, return_exceptions=True)

    assert waited
    assert 50_000 == len(found.backends)


async def test_a_gzip_bomb_is_cut(pool: DriverPool) -> None:
    """The limit counts what comes out of the compression."""
    bomb = gzip.compress(SUCC + b" " * (64 * LARGEST_ANSWER))
    assert len(bomb) < LARGEST_ANSWER

    error = await failure(
        pool, replying(response(bomb, headers=b"Content-Encoding: gzip\r\n"))
    )

    assert isinstance(error, TooLarge)


async def test_a_compressed_answer_is_read(pool: DriverPool) -> None:
    """A proxy that compresses unasked does no harm."""
    sent = response(gzip.compress(SUCC), headers=b"Content-Encoding: gzip\r\n")
    async with serving(replying(sent)) as url:
        assert Status.SUCC is (await ensure(pool, url)).status


@pytest.mark.parametrize("status", [b"301 Moved", b"302 Found", b"307 T", b"308 P"])
async def test_redirects_are_not_followed(pool: DriverPool, status: bytes) -> None:
    """A driver cannot send us elsewhere."""
    visited: list[bytes] = []

    async def elsewhere(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        visited.append(await read_request(reader))
        writer.write(response())

    async with serving(elsewhere) as target:
        header = b"Location: " + target.encode() + b"/ensureBackend\r\n"
        error = await failure(pool, replying(response(b"", status, header)))

    assert isinstance(error, Redirected)
    assert [] == visited


@pytest.mark.parametrize("status", [b"201 Created", b"404 No", b"500 Oh", b"503 Busy"])
async def test_other_statuses_are_told_by_number_alone(
    pool: DriverPool, status: bytes
) -> None:
    """The text of the page does not get out, nor does a Succ in it count."""
    body = b'{"status": "Succ", "msg": "' + SECRET + b'"}'
    error = await failure(pool, replying(response(body, status)))

    assert isinstance(error, BadStatus)
    assert int(status[:3]) == error.status
    assert SECRET.decode() not in str(error)
    assert not error.definite


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(response(b"<html>" + SECRET), id="html"),
        pytest.param(response(b'{"status": "' + SECRET + b'"}'), id="unknown status"),
        pytest.param(response(b'{"msg": "' + SECRET + b'"}'), id="other json"),
        pytest.param(response(b'{"status": "Succ", "msg": "\xff"}'), id="no utf-8"),
        pytest.param(response(b"[" * 100_000), id="deep"),
        pytest.param(response(b""), id="empty"),
        pytest.param(
            response(
                b'{"status":"Running","minRetryDelayInSeconds":"' + SECRET + b'"}'
            ),
            id="no delay",
        ),
        pytest.param(SECRET + b"\r\n\r\n", id="no http"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + SECRET + b"\r\n\r\n", id="no header"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: " + SECRET + b"\r\n\r\n",
            id="no length",
        ),
        pytest.param(CHUNKED + SECRET + b"\r\n", id="no chunk"),
        pytest.param(
            response(SECRET, headers=b"Content-Encoding: gzip\r\n"), id="no gzip"
        ),
    ],
)
async def test_what_is_no_answer_is_not_quoted(pool: DriverPool, sent: bytes) -> None:
    """Whatever a URL points to, its words do not reach a condition."""
    error = await failure(pool, replying(sent))

    assert isinstance(error, BadAnswer | ConnectionLost)
    assert SECRET.decode() not in str(error)
    assert not error.definite


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 200", id="in the head"),
        pytest.param(ENDLESS_HEAD + SUCC, id="in the body"),
        pytest.param(CHUNKED + b"12\r\n" + SUCC + b"\r\n", id="before the last chunk"),
    ],
)
async def test_a_cut_answer_is_a_lost_connection(pool: DriverPool, sent: bytes) -> None:
    """Half an answer is none, even where the half is valid JSON."""
    error = await failure(pool, replying(sent))

    assert isinstance(error, ConnectionLost)
    assert not error.definite


async def test_nobody_listening_is_definite(pool: DriverPool) -> None:
    """Without a connection nothing was sent, and the text says why."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(NotSent, match="refused") as raised:
            await ensure(pool, url)

    assert raised.value.definite


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://nowhere.invalid", "cannot be resolved"),
        ("http://", "URL is not valid"),
        ("ftp://192.0.2.1/", "--driver-url-allow"),
    ],
)
async def test_a_url_that_leads_nowhere_is_definite(
    pool: DriverPool, url: str, text: str
) -> None:
    """A wrong URL is told as such."""
    with pytest.raises(NotSent, match=text) as raised:
        await ensure(pool, url)

    assert raised.value.definite


async def test_time_that_runs_out_while_connecting_is_definite(
    pool: DriverPool,
) -> None:
    """A listener whose queue is full takes no connection: nothing was sent."""
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        with pytest.raises(TimedOut, match="no connection") as raised:
            await ensure(pool, f"http://127.0.0.1:{full.getsockname()[1]}", HASTY)

    assert raised.value.definite


async def test_an_untrusted_certificate_is_definite(pool: DriverPool) -> None:
    """The request is not sent before the handshake has ended well."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.start_server(silent, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotSent, match="not signed by anybody trusted") as raised:
            await ensure(pool, f"https://127.0.0.1:{port}")

    assert raised.value.definite


async def test_no_tls_where_tls_is_asked_is_definite(pool: DriverPool) -> None:
    """A plain server at an https URL sees no request."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(response(b"", b"400 Bad Request"))

    async with serving(talk) as url:
        with pytest.raises(NotSent, match="TLS") as raised:
            await ensure(pool, url.replace("http:", "https:"))

    assert raised.value.definite


async def test_connections_are_used_again(pool: DriverPool) -> None:
    """Two calls, one after the other, take one connection."""
    connections: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        while True:
            await read_request(reader)
            writer.write(response())

    async with serving(talk) as url:
        await ensure(pool, url)
        await ensure(pool, url)

    assert [1] == connections


async def test_a_connection_closed_while_idle_is_replaced(pool: DriverPool) -> None:
    """A server that hangs up after each answer costs no failed call."""
    async with serving(replying(response())) as url:
        for _ in range(5):
            assert Status.SUCC is (await ensure(pool, url)).status
            # Lets the end of the connection arrive.
            await asyncio.sleep(0.02)


async def test_a_connection_found_closed_is_replaced_within_the_call(
    pool: DriverPool,
) -> None:
    """A call that could not be written at all is made on a new connection."""
    requests: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        writer.write(response())

    async with serving(talk) as url:
        await ensure(pool, url)
        # The end of the connection arrives between its being chosen and being used.
        await ensure(pool, url)

    assert 2 == len(requests)


async def test_an_answered_call_leaves_a_connection_that_ends_politely(
    registry: CollectorRegistry,
) -> None:
    """A driver is not told of a broken connection whenever an idle one is closed."""
    ended = asyncio.Event()
    resets: list[Exception] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(response())
        try:
            await silent(reader, writer)
        except ConnectionResetError as error:
            resets.append(error)
        ended.set()

    async with serving(talk) as url:
        async with DriverPool(SystemClock(), registry, allowlist=BESIDE_US) as pool:
            await ensure(pool, url)
        await ended.wait()

    assert [] == resets


async def test_a_connection_closed_at_reuse_is_lost(pool: DriverPool) -> None:
    """A request that was written once is not sent again: it may have arrived."""
    requests: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        writer.write(response())
        requests.append(await read_request(reader))

    async with serving(talk) as url:
        await ensure(pool, url)
        with pytest.raises(ConnectionLost) as raised:
            await ensure(pool, url)

    assert 2 == len(requests)
    assert not raised.value.definite


async def test_a_name_that_leads_beside_us_is_not_called() -> None:
    """It is refused when it is looked up, unless the operator names it."""
    asked: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await read_request(reader))
        writer.write(response(SUCC))

    async def post(url: str, allowed_urls: Sequence[AllowedUrl] = ()) -> bytes:
        async with DriverClient(url, allowed_urls=allowed_urls) as client:
            return await client.post("web", Operation.ENSURE_BACKEND, b"{}", PATIENT)

    async with serving(talk) as address:
        url = address.replace("127.0.0.1", "localhost")
        with pytest.raises(NotAllowed, match="--driver-url-allow"):
            await post(url)
        assert [] == asked
        assert await post(url, BESIDE_US.allowed_urls) == SUCC


async def test_cookies_are_not_kept(pool: DriverPool) -> None:
    """What one driver sets must not be sent to another at the same host."""
    requests: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            requests.append(await read_request(reader))
            writer.write(response(headers=b"Set-Cookie: a=b; Path=/\r\n"))

    async with serving(talk) as url:
        named = url.replace("127.0.0.1", "localhost")  # an IP's are never kept
        await ensure(pool, named)
        await ensure(pool, named)

    assert 2 == len(requests)
    assert not any(b"cookie" in request.lower() for request in requests)


async def test_a_cancelled_call_resets_its_connection(pool: DriverPool) -> None:
    """A caller that is stopped leaves no connection behind, and nothing on its way."""
    connected, ended = asyncio.Event(), asyncio.Event()
    resets: list[bool] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        connected.set()
        try:
            await silent(reader, writer)
        except ConnectionResetError:
            resets.append(True)
        ended.set()

    async with serving(talk) as url:
        call = asyncio.create_task(ensure(pool, url))
        await connected.wait()
        call.cancel()
        await ended.wait()

    assert call.cancelled()
    assert [True] == resets


async def test_messages_name_driver_and_operation_and_are_short(
    pool: DriverPool,
) -> None:
    """A condition's reader learns who failed at what."""
    error = await failure(pool, replying(response(b"", b"500 Oh")))

    assert str(error).startswith(f"{Operation.ENSURE_BACKEND} of driver web/mine:")
    assert "DriverBadStatus" == error.reason
    assert 256 == len(BadAnswer("x" * 1000).message)


async def test_a_request_of_another_operation_is_a_mistake(pool: DriverPool) -> None:
    """What is called and what is asked must agree."""
    async with serving(silent) as url:
        with pytest.raises(ValueError, match="drainBackend is not asked by"):
            await pool.call(
                a_driver(url), Operation.DRAIN_BACKEND, REQUEST, timeout=HASTY
            )
