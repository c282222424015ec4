"""The port that pods ask at, over real connections: what it says, and to how many."""

import asyncio
import socket
import struct

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from lbcf.core.model.names import LABEL_POD_UID
from lbcf.deregistrar.drain_gate import DrainGate, GateMetrics, pod_of
from lbcf.deregistrar.gate_server import GateServer, Limits
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import RECORDS
from lbcf.kube.requests import ApiRequest
from lbcf.kube.store import Store
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.flags import BindAddress
from lbcf.runtime.health import CannotListen
from lbcf.runtime.metrics import Metrics
from tests.kube.tiny_api import TinyApi
from tests.patience import PATIENCE


HELD = "11111111-2222-3333-4444-555555555555"
FREE = "99999999-2222-3333-4444-555555555555"
ASKED = "GET /v1/pods/{}/drained?timeoutSeconds={} HTTP/1.0\r\n\r\n"


class Service:
    """A server that answers for one pod with a record, and all without."""

    def __init__(
        self, limits: Limits | None = None, api: TinyApi | None = None
    ) -> None:
        self.client = KubeClient(api or TinyApi())
        metrics = Metrics()
        self.registry = metrics.registry
        series = GateMetrics(metrics)
        gate = DrainGate(self.client, Store({"pod": pod_of}), SystemClock(), series)
        self.server = GateServer(gate, series, limits)
        self.port = 0

    async def create(self) -> None:
        """Have a record name a pod."""
        labels = {LABEL_POD_UID: HELD}
        spec = {"lbName": "front", "lbDriver": "memory", "staticAddr": "10.0.0.1:80"}
        body = {"metadata": {"name": "web", "labels": labels}, "spec": spec}
        await self.client.create(RECORDS, "shop", body)

    async def until_open(self, number: int) -> None:
        """Wait until there are so many connections."""
        while len(self.server.open) != number:  # noqa: ASYNC110 - others open them
            await asyncio.sleep(0.01)

    async def say(self, text: str) -> str:
        """Send a text; return what comes until the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(text.encode())
        try:
            return (await reader.read()).decode()
        finally:
            # With a reset: a plain close could as well be one that listens on.
            held = writer.get_extra_info("socket")
            held.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            writer.transport.abort()


@asynccontextmanager
async def serving(limits: Limits | None = None) -> AsyncIterator[Service]:
    """Serve on a free port."""
    service = Service(limits)
    await service.create()
    async with service.server.serve(BindAddress("127.0.0.1", 0)) as port:
        service.port = port
        yield service


async def test_yes_and_no_and_nothing_else() -> None:
    """Who asks learns whether that pod may end, not what holds it."""
    async with serving() as service:
        head, _, body = (await service.say(ASKED.format(FREE, 30))).partition(
            "\r\n\r\n"
        )
        assert head.startswith("HTTP/1.1 200 OK")
        assert '{"drained":true}\n' == body
        said = await service.say(ASKED.format(HELD, 0))
        assert said.endswith('{"drained":false}\n')


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("GET / HTTP/1.1\r\n\r\n", 404),
        ("POST /v1/pods/1/drained HTTP/1.1\r\n\r\n", 404),
        (ASKED.format("1) or (x", 1), 404),
        (ASKED.format("a" * 64, 1), 404),
        ("\x16\x03\x01\r\n\r\n", 404),
        ("GET /" + "a" * 5000, 431),
    ],
)
async def test_other_requests_are_refused(text: str, status: int) -> None:
    """A uid is what uids are made of: it goes into a selector."""
    async with serving() as service:
        assert (await service.say(text)).startswith(f"HTTP/1.1 {status} ")


async def test_connection_that_asks_nothing_is_closed() -> None:
    """A head that does not come is not waited for."""
    async with serving(Limits(head=0.05)) as service:
        assert "408" in await service.say("GET /v1")
        assert not service.server.open


@pytest.mark.parametrize("limits", [Limits(connections=3), Limits(per_peer=3)])
async def test_there_is_room_for_so_many(limits: Limits) -> None:
    """One more is sent to another replica; who leaves makes room."""
    async with serving(limits) as service:
        held = [
            asyncio.create_task(service.say(ASKED.format(HELD, 60))) for _ in range(3)
        ]
        await service.until_open(len(held))
        assert (await service.say(ASKED.format(FREE, 1))).startswith("HTTP/1.1 503 ")
        for one in held:
            one.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        await service.until_open(0)
        assert "true" in await service.say(ASKED.format(FREE, 1))
        refused = {"answer": "Refused"}
        assert 1.0 == service.registry.get_sample_value(
            "lbcf_drain_gate_answers_total", refused
        )


async def test_who_waits_is_cut_off_when_the_replica_ends() -> None:
    """The head says that somebody was there, no body says yes: the pod asks again."""
    async with serving() as service:
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(ASKED.format(HELD, 60).encode())
        head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert not await reader.read()
    writer.close()


async def test_address_that_is_taken() -> None:
    """The process does not start, and says why."""
    async with serving() as service:
        with pytest.raises(CannotListen, match=r"cannot listen on 127\.0\.0\.1"):
            async with Service().server.serve(BindAddress("127.0.0.1", service.port)):
                raise AssertionError("it listens")


class BrokenApi(TinyApi):
    """One whose answers break what reads them."""

    async def send(
        self,
        request: ApiRequest,
        within: timedelta | None = None,  # noqa: ARG002 - as the real one has it
    ) -> bytes:
        """Fail in a way that nobody expects."""
        raise RuntimeError(f"cannot read the answer to {request.path}")


async def test_process_ends_with_what_answers() -> None:
    """Else it would go on to take pods in, and let each of them wait in vain."""
    service = Service(api=BrokenApi())
    broken = pytest.RaisesExc(RuntimeError, match="cannot read")
    with pytest.RaisesGroup(broken, flatten_subgroups=True):
        async with (
            asyncio.timeout(PATIENCE),
            service.server.serve(BindAddress("127.0.0.1", 0)) as port,
        ):
            service.port = port
            await service.say(ASKED.format(HELD, 60))
            await asyncio.Event().wait()
