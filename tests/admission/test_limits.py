"""What callers of the webhook may cost, tried on its own socket, over TLS.

Whoever reaches the port is a caller: the API server, and any pod that the network lets.
"""

import asyncio
import contextlib
import json
import re
import ssl

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import attrs
import pytest
import trustme

from prometheus_client import CollectorRegistry, generate_latest

from lbcf.admission.credentials import Files, Keeper, UnusableError
from lbcf.admission.decisions import DriverFailurePolicy
from lbcf.admission.limits import RequestLimits
from lbcf.admission.reviewer import Reviewer
from lbcf.admission.server import Endpoint, ReviewMetrics, serve
from lbcf.core.model.names import API_VERSION
from lbcf.core.model.operations import Operation
from lbcf.drivers.pool import DriverPool
from lbcf.kube.client import KubeClient
from lbcf.kube.secrets import Secrets
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.flags import BindAddress
from tests.drivers.servers import (
    BESIDE_US,
    free_port,
    read_request,
    replying,
    response,
    serving,
    silent,
)
from tests.kube.tiny_api import Json, TinyApi
from tests.patience import PATIENCE


SOON = timedelta(seconds=0.3)
NEVER = timedelta(hours=1)

Connections = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@attrs.frozen
class Door:
    """The webhook, and how it is called.

    Attributes:
        api: what objects refer to.
    """

    port: int
    tls: ssl.SSLContext
    registry: CollectorRegistry
    api: TinyApi

    def add_driver(self, name: str, url: str) -> None:
        """Make a driver of namespace shop that may take long."""
        path = f"/apis/{API_VERSION}/namespaces/shop/loadbalancerdrivers/{name}"
        patient = {"name": Operation.VALIDATE_LOAD_BALANCER, "timeout": "10m"}
        spec: Json = {"driverType": "Webhook", "url": url, "webhooks": [patient]}
        metadata: Json = {"name": name}
        self.api.put(
            path, {"apiVersion": API_VERSION, "spec": spec, "metadata": metadata}
        )

    @contextlib.asynccontextmanager
    async def connections(self) -> AsyncIterator[Connections]:
        """Connect."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.tls, server_hostname="127.0.0.1"
        )
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def ask(
        self,
        review: object,
        connections: Connections | None = None,
        *,
        in_pieces: bool = False,
    ) -> tuple[int, bytes]:
        """Ask a question; return the status and the body of the answer."""
        if connections is None:
            async with self.connections() as own:
                return await self.ask(review, own, in_pieces=in_pieces)
        reader, writer = connections
        body = json.dumps(review).encode()
        if in_pieces:
            writer.write(head(None) + piece(body) + piece(b""))
        else:
            writer.write(head(len(body)) + body)
        async with asyncio.timeout(PATIENCE):
            top = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            size = int(top.partition("content-length: ")[2].partition("\r")[0])
            return int(top.split()[1]), await reader.readexactly(size)


def head(size: int | None, timeout: str = "10s") -> bytes:
    """Begin a request with a body of so many bytes, whose caller waits for so long.

    None: it comes in pieces, and nobody says how many bytes it will be.
    """
    length = "Transfer-Encoding: chunked" if size is None else f"Content-Length: {size}"
    return (
        f"POST /validate?timeout={timeout} HTTP/1.1\r\nHost: webhook\r\n"
        f"Content-Type: application/json\r\n{length}\r\n\r\n"
    ).encode()


def piece(content: bytes) -> bytes:
    """Return a piece of a body; an empty one is the last (RFC 9112, 7.1)."""
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


def question(
    resource: str = "loadbalancers",
    namespace: str = "shop",
    driver: str = "proxy",
    **request: object,
) -> dict[str, object]:
    """Ask about a new object; about a load balancer, where nothing is said."""
    spec = {"lbDriver": driver, "lbSpec": {"id": "1"}}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "resource": {"resource": resource},
            "operation": "CREATE",
            "namespace": namespace,
            "name": "front",
            "object": {"metadata": {"name": "front"}, "spec": spec},
        }
        | request,
    }


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Make what the webhook shows, and what its callers trust."""
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    client = ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    return server, client


@contextlib.asynccontextmanager
async def door(
    limits: RequestLimits, tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None
) -> AsyncIterator[Door]:
    """Serve the webhook on a free port."""
    server, client = tls or contexts()
    registry, api = CollectorRegistry(), TinyApi()
    clock, kube = SystemClock(), KubeClient(api)
    secrets = Secrets(kube, clock)
    pool = DriverPool(clock, registry, find=secrets.find, allowlist=BESIDE_US)
    async with pool:
        reviewer = Reviewer(kube, pool, secrets, DriverFailurePolicy.FAIL)
        endpoint = Endpoint(reviewer, clock, ReviewMetrics(registry), limits)
        address = BindAddress("127.0.0.1", 0)
        async with serve(endpoint, address, server, timedelta(seconds=1)) as port:
            yield Door(port, client, registry, api)


async def ended(connections: Connections) -> bytes:
    """Read until the other end closes the connection."""
    async with asyncio.timeout(PATIENCE):
        try:
            return await connections[0].read()
        except ConnectionError:
            return b""


@contextlib.asynccontextmanager
async def hanging_reviews(webhook: Door, number: int) -> AsyncIterator[None]:
    """Ask so many questions of namespace shop, whose driver never answers."""
    hanging = asyncio.Semaphore(0)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Tell of a call, and never answer it."""
        await read_request(reader)
        hanging.release()
        await silent(reader, writer)

    async with serving(hang) as url, contextlib.AsyncExitStack() as stack:
        webhook.add_driver("proxy", url)
        for _ in range(number):
            _, writer = await stack.enter_async_context(webhook.connections())
            body = json.dumps(question()).encode()
            writer.write(head(len(body), "10m") + body)
            async with asyncio.timeout(PATIENCE):
                await hanging.acquire()
        yield


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(b"", id="says nothing"),
        # The header of a TLS record, whose 512 bytes never come.
        pytest.param(b"\x16\x03\x01\x02\x00", id="half a hello"),
    ],
)
async def test_handshake_that_does_not_come_is_not_waited_for(begun: bytes) -> None:
    """Whoever agrees on no TLS is sent away, whatever else would be waited for."""
    async with door(RequestLimits(handshake=SOON, idle=NEVER)) as webhook:
        connections = await asyncio.open_connection("127.0.0.1", webhook.port)
        try:
            connections[1].write(begun)
            await ended(connections)
        finally:
            connections[1].close()


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(b"", id="says nothing"),
        pytest.param(b"POST /validate HTTP/1.1\r\nHost: we", id="half a head"),
    ],
)
async def test_connection_that_asks_nothing_is_closed(begun: bytes) -> None:
    """It may be open for a while, and no longer."""
    async with (
        door(RequestLimits(idle=SOON)) as webhook,
        webhook.connections() as connections,
    ):
        connections[1].write(begun)
        await ended(connections)


async def test_body_that_does_not_come_is_not_waited_for() -> None:
    """Twenty callers who begin large bodies are sent away, and told why."""
    limits = RequestLimits(body=SOON, idle=NEVER)
    async with door(limits) as webhook, contextlib.AsyncExitStack() as stack:
        lines = [
            await stack.enter_async_context(webhook.connections()) for _ in range(20)
        ]
        for _, writer in lines:
            writer.write(head(8 * 2**20) + b"x" * 2**16)
        answers = await asyncio.gather(*map(ended, lines))

    assert {b"HTTP/1.1 408"} == {answer[:12] for answer in answers}


async def test_large_bodies_keep_no_small_one_waiting() -> None:
    """Four large ones are read at a time; a small question passes by them."""
    limits = RequestLimits(body=NEVER, idle=NEVER)
    async with door(limits) as webhook, contextlib.AsyncExitStack() as stack:
        lines = [
            await stack.enter_async_context(webhook.connections()) for _ in range(12)
        ]
        for _, writer in lines:
            writer.write(head(8 * 2**20) + b"x" * 2**16)
        status, _ = await webhook.ask(question())

    assert 200 == status


@pytest.mark.parametrize("in_pieces", [False, True], ids=["length", "pieces"])
async def test_four_large_bodies_are_in_memory_at_a_time(*, in_pieces: bool) -> None:
    """They keep their places while they are judged; a fifth is not read, and told so.

    One that does not say its length may be large.
    """
    limits = RequestLimits(small=0, body=timedelta(seconds=1), idle=NEVER)
    async with door(limits) as webhook, hanging_reviews(webhook, 4):
        status, _ = await webhook.ask(question(namespace="calm"), in_pieces=in_pieces)

    assert 408 == status


async def test_a_body_that_is_too_large_is_not_read() -> None:
    """No question has as many bytes."""
    async with door(RequestLimits()) as webhook, webhook.connections() as connections:
        connections[1].write(head(9 * 2**20) + b"x" * 2**16)
        async with asyncio.timeout(PATIENCE):
            answer = await connections[0].readuntil(b"\r\n")

    assert b"413" in answer


async def test_a_body_without_its_length_is_read_no_further() -> None:
    """What comes in pieces has as many bytes as any other question."""
    limits = RequestLimits(largest=2**18, body=NEVER, idle=NEVER)
    async with door(limits) as webhook, webhook.connections() as connections:
        connections[1].write(head(None) + piece(b"x" * 2**16) * 5)
        async with asyncio.timeout(PATIENCE):
            answer = await connections[0].readuntil(b"\r\n")

    assert b"413" in answer


async def test_there_is_room_for_who_asks() -> None:
    """Idle connections make room, the oldest first; the one that asks has its answer."""
    limits = RequestLimits(connections=4, idle=NEVER)
    async with door(limits) as webhook, contextlib.AsyncExitStack() as stack:
        idle = [
            await stack.enter_async_context(webhook.connections()) for _ in range(4)
        ]
        for _ in range(2):
            status, _ = await webhook.ask(question())
            assert 200 == status
        await ended(idle[0])
        status, _ = await webhook.ask(question(), idle[3])

    assert 200 == status


async def test_invented_words_make_no_series() -> None:
    """Of what the API server never asks here, one series is told."""
    async with door(RequestLimits()) as webhook:
        for number in range(40):
            asked = question(f"kind{number}", operation=f"DO{number}")
            await webhook.ask(asked)
        page = generate_latest(webhook.registry).decode()

    assert "kind" not in page
    assert (
        'reviews_total{operation="other",resource="other",verdict="Admitted"} 40.0'
        in page
    )


async def test_series_of_drivers_that_were_asked_last_are_kept() -> None:
    """Nobody tells the webhook that a driver is gone: of 257 it keeps 256."""
    order = [*range(256), 0, 256]
    async with (
        serving(replying(response(b'{"succ": true}'))) as url,
        door(RequestLimits()) as webhook,
        webhook.connections() as connections,
    ):
        for number in order:
            webhook.add_driver(f"driver-{number}", url)
            asked = question(driver=f"driver-{number}")
            _, answer = await webhook.ask(asked, connections)
            assert json.loads(answer)["response"]["allowed"]
        page = generate_latest(webhook.registry).decode()

    told = {int(number) for number in re.findall(r'driver="shop/driver-(\d+)"', page)}
    assert {*order} - {1} == told


async def test_driver_that_is_about_to_listen_is_asked_again() -> None:
    """A Service refuses for a moment after its first pod has become ready."""
    bound = free_port()
    async with door(RequestLimits()) as webhook:
        webhook.add_driver("proxy", "http://{}:{}".format(*bound.getsockname()))
        asked = asyncio.create_task(webhook.ask(question()))
        async with asyncio.timeout(PATIENCE):
            while b"Unreachable" not in generate_latest(webhook.registry):  # noqa: ASYNC110 - metrics tell
                await asyncio.sleep(0)
        async with serving(replying(response(b'{"succ": true}')), bound):
            _, answer = await asked

    assert json.loads(answer)["response"]["allowed"]


@pytest.mark.parametrize("found", [[], 7, "x", [{}]], ids=str)
async def test_object_that_is_none_is_a_bad_request(found: object) -> None:
    """The caller is told; it is no fault of this process."""
    async with door(RequestLimits()) as webhook:
        status, body = await webhook.ask(question(object=found))

    assert 400 == status
    assert b"object of an AdmissionReview" in body


async def test_one_namespace_takes_no_others_place() -> None:
    """Reviews that wait for a hanging driver are numbered by namespace."""
    limits = RequestLimits(per_namespace=2, handshake=NEVER, idle=NEVER, body=NEVER)
    async with door(limits) as webhook, hanging_reviews(webhook, 2):
        _, refused = await webhook.ask(question())
        _, admitted = await webhook.ask(question(namespace="calm"))

    assert b"too many objects of namespace shop are being judged" in refused
    assert json.loads(admitted)["response"]["allowed"]


async def test_callers_without_a_certificate_of_theirs(tmp_path: Path) -> None:
    """With --client-ca-file nobody else gets as far as a request."""
    ours, others, server = trustme.CA(), trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(tmp_path / "clients.pem")
    leaf = server.issue_cert("127.0.0.1")
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    leaf.private_key_pem.write_to_path(tmp_path / "tls.key")
    files = Files(tmp_path / "tls.crt", tmp_path / "tls.key")
    keeper = Keeper(files, SystemClock(), tmp_path / "clients.pem")
    await keeper.load()
    client = ssl.create_default_context()
    server.configure_trust(client)
    async with door(RequestLimits(), (keeper.context, client)) as webhook:
        with pytest.raises((ssl.SSLError, OSError, asyncio.IncompleteReadError)):
            await webhook.ask(question())
        others.issue_cert("apiserver").configure_cert(client)
        with pytest.raises((ssl.SSLError, OSError, asyncio.IncompleteReadError)):
            await webhook.ask(question())
        ours.issue_cert("apiserver").configure_cert(client)
        status, _ = await webhook.ask(question())

    assert 200 == status


def test_a_file_without_authorities_is_named(tmp_path: Path) -> None:
    """Nobody is let in by mistake: the process does not start."""
    (tmp_path / "clients.pem").write_text("nobody")

    with pytest.raises(UnusableError, match=r"--client-ca-file .*clients\.pem"):
        Keeper(Files(tmp_path, tmp_path), SystemClock(), tmp_path / "clients.pem")
