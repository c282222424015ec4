"""Spans of turns and calls, as a collector gets them over OTLP: sockets, no fake."""

import asyncio
import http.server
import json
import queue
import sys
import threading

from collections.abc import Iterator

import attrs
import pytest
import structlog

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import BatchShape, ObjectKey
from lbcf.drivers.batches import Batches, Item, Lane, Permitted
from lbcf.drivers.errors import DriverError
from lbcf.drivers.pool import DriverPool
from lbcf.runtime import spans
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.spans import TRACE_HEADER, parse_trace
from lbcf.runtime.worker import Done, Failed, Result, Workers
from lbcf.wire.driver_requests import EnsureBackendRequest
from tests.drivers.servers import (
    PATIENT,
    a_driver,
    ensure,
    read_request,
    replying,
    response,
    serving,
)


EXPORTER = "opentelemetry.exporter.otlp.proto.http"
NAMES = ("one", "two")


@attrs.frozen
class Collector:
    """Something that takes spans at an address.

    Attributes:
        url: where it listens.
        bodies: what it got.
    """

    url: str
    bodies: "queue.Queue[bytes]"

    def got(self, *wanted: str) -> tuple[str, dict[str, Span]]:
        """Take what came: the service's name, and its spans by name.

        Spans come together, unless some seconds pass between their ends.
        """
        service, found = "", dict[str, Span]()
        while not found.keys() >= set(wanted):
            request = ExportTraceServiceRequest.FromString(self.bodies.get(timeout=30))
            [resource] = request.resource_spans
            names = {a.key: a.value.string_value for a in resource.resource.attributes}
            service = names["service.name"]
            found |= {s.name: s for scope in resource.scope_spans for s in scope.spans}
        return service, found


@pytest.fixture(name="collector")
def _collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector in a thread, since a process that ends waits for its answer."""
    bodies: queue.Queue[bytes] = queue.Queue()

    class Taking(http.server.BaseHTTPRequestHandler):
        """Takes every body."""

        def do_POST(self) -> None:
            """Take one."""
            bodies.put(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Taking) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv(spans.PLACES[0], url)
        yield Collector(url, bodies)
        server.shutdown()


def told(span: Span) -> dict[str, str]:
    """What is said of a span."""
    return {a.key: a.value.string_value for a in span.attributes}


async def turn(pool: DriverPool, answer: bytes) -> str:
    """Let a worker call a driver in its turn; returns the header that came there."""
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await read_request(reader)).decode()
        [connections] = [
            x for x in head.split("\r\n") if x.startswith(f"{TRACE_HEADER}: ")
        ]
        ended.set_result(connections.partition(": ")[2])
        writer.write(answer)

    async with serving(talk) as url:

        async def reconcile(_: str) -> Result:
            try:
                await ensure(pool, url)
            except DriverError as error:
                return Failed(error)
            return Done()

        work: WorkQueue[str] = WorkQueue("records", SystemClock())
        workers = Workers(work, reconcile, 1, SystemClock())
        workers.start()
        work.add("shop/web-1")
        header = await ended
        await workers.stop(PATIENT)
    return header


async def test_call_is_within_its_turn(collector: Collector, pool: DriverPool) -> None:
    """With the ids that the driver got, what was asked, and what came of it."""
    with spans.export_spans("lbcf-controller", {spans.PLACES[0]: collector.url}):
        header = await turn(pool, response())
    service, found = collector.got("records", "ensureBackend")
    work, call = found["records"], found["ensureBackend"]

    assert "lbcf-controller" == service
    assert (work.trace_id, work.span_id) == (call.trace_id, call.parent_span_id)
    assert {"lbcf.key": "shop/web-1", "lbcf.result": "Done"} == told(work)
    assert {"lbcf.driver": "web/mine", "lbcf.outcome": "Succ"} == told(call)
    assert Span.SPAN_KIND_CLIENT == call.kind
    assert f"00-{call.trace_id.hex()}-{call.span_id.hex()}-01" == header


async def test_batch_is_linked_to_its_calls(
    collector: Collector, pool: DriverPool
) -> None:
    """In a trace of its own, since they are of as many; the driver gets its ids."""
    answers = [{"recordID": name, "status": "Succ"} for name in NAMES]
    body = json.dumps({"results": answers}).encode()
    with spans.export_spans("lbcf-controller", {spans.PLACES[0]: collector.url}):
        async with serving(replying(response(body))) as url:
            shapes = {Operation.ENSURE_BACKEND.value: BatchShape(len(NAMES), PATIENT)}
            driver = attrs.evolve(a_driver(url), batches=shapes)
            batches = Batches(pool, SystemClock())
            await asyncio.gather(*(send(batches, driver, name) for name in NAMES))
    _, found = collector.got("ensureBackends", *NAMES)

    batch, calls = found["ensureBackends"], [found[name] for name in NAMES]
    assert {call.span_id for call in calls} == {one.span_id for one in batch.links}
    assert not batch.parent_span_id
    assert batch.trace_id not in {call.trace_id for call in calls}


async def send(batches: Batches, driver: LoadBalancerDriver, name: str) -> None:
    """Have a call sent in a batch, within a span of this name."""
    key, operation = driver.meta.key, Operation.ENSURE_BACKEND
    lane = Lane(key, operation, ObjectKey("web", "front"), frozenset(), "web")
    request = EnsureBackendRequest(record_id=name, backend_addr="192.0.2.1:80")

    async def permit() -> Permitted:
        until = SystemClock().monotonic() + PATIENT.total_seconds()
        return Permitted(request, until, until)

    with spans.open_span(name) as span:
        await batches.send(lane, Item(name, driver, permit, span=span))


async def test_failure_is_told(collector: Collector, pool: DriverPool) -> None:
    """Of the call and of the turn, with the same words as in the log."""
    with spans.export_spans("lbcf-controller", {spans.PLACES[0]: collector.url}):
        await turn(pool, response(status=b"500 No"))
    _, found = collector.got("records", "ensureBackend")

    for name, outcome in (("records", "Failed"), ("ensureBackend", "DriverBadStatus")):
        assert Status.STATUS_CODE_ERROR == found[name].status.code
        assert outcome in told(found[name]).values()
    assert "500" in found["records"].status.message


async def test_nothing_is_sent_unless_asked(
    collector: Collector, pool: DriverPool
) -> None:
    """The driver gets a trace all the same, that nobody keeps."""
    with spans.export_spans("lbcf-controller", {}):
        header = await turn(pool, response())

    assert parse_trace(header) is not None
    assert header.endswith("-00")
    assert collector.bodies.empty()


async def test_nothing_is_open_after_the_end(
    collector: Collector, pool: DriverPool
) -> None:
    """What is done then is as if nobody had asked."""
    with spans.export_spans("lbcf-controller", {spans.PLACES[0]: collector.url}):
        pass

    assert (await turn(pool, response())).endswith("-00")
    assert collector.bodies.empty()


def test_process_without_the_library_says_so_and_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An injector sets the variables for every pod, whatever is in its image."""
    monkeypatch.setitem(sys.modules, EXPORTER, None)
    with (
        structlog.testing.capture_logs() as logs,
        spans.export_spans("lbcf-controller", {spans.PLACES[0]: "http://192.0.2.1"}),
        spans.open_span("records") as span,
    ):
        assert span.trace is None

    assert ["traces.unavailable"] == [connections["event"] for connections in logs]
