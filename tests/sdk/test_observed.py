"""What a driver tells of itself: series for Prometheus, and logs that name the call."""

import json

from typing import cast

import aiohttp
import pytest
import structlog

from prometheus_client import CollectorRegistry, Counter
from structlog.testing import capture_logs

from lbcf.sdk import EnsureBackendRequest, Fail, Running, Succ
from lbcf.sdk.server import Service
from tests.sdk.services import PlainDriver, call, post, serving


TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
ENDED = 'lbcf_sdk_operations_total{operation="ensureBackend",outcome="%s"} 1.0'


class Picky(PlainDriver):
    """Refuses one address, and counts for itself."""

    def register_series(self, registry: CollectorRegistry) -> None:
        """Count refusals."""
        self.refusals = Counter("picky_refusals_total", "Refusals.", registry=registry)

    async def ensure_backend(self, request: EnsureBackendRequest) -> Succ | Running:
        """Refuse the address `full`, with a line of its own in the log."""
        structlog.get_logger().info("author.line")
        if request.backend_addr == "full":
            self.refusals.inc()
            raise Fail("no more places")
        return Succ()


async def page(url: str) -> str:
    """Read /metrics."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/metrics") as response,
    ):
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return await response.text()


async def test_operations_are_counted() -> None:
    """By outcome; the driver's own series are there, too."""
    async with serving(Service(Picky())) as url:
        await call(url, "ensureBackend")
        await call(url, "ensureBackend", backendAddr="full")
        await post(url, "ensureBackend", b"nonsense")
        await post(url, "nonsense", b"{}")
        text = await page(url)

    for line in (
        ENDED % "Succ",
        ENDED % "Fail",
        'lbcf_sdk_requests_refused_total{status="400"} 1.0',
        'lbcf_sdk_requests_refused_total{status="404"} 1.0',
        "lbcf_sdk_operations_in_flight 0.0",
        "lbcf_sdk_busy_members 0.0",
        'duration_seconds_count{operation="ensureBackend"} 2.0',
        "picky_refusals_total 1.0",
        "process_resident_memory_bytes",
    ):
        assert line in text


@pytest.mark.parametrize("traced", [True, False])
async def test_logs_name_the_call(traced: bool) -> None:
    """All lines of a call do, those of the author included."""
    headers = {"traceparent": f"00-{TRACE}-{SPAN}-01"} if traced else {}
    body = {"recordID": "r-1", "backendAddr": "full"}
    merge = structlog.contextvars.merge_contextvars
    async with (
        serving(Service(Picky())) as url,
        aiohttp.ClientSession(headers=headers) as session,
    ):
        with capture_logs(processors=[merge]) as logged:
            async with session.post(f"{url}/ensureBackend", json=body) as response:
                assert "Fail" == json.loads(await response.read())["status"]

    lines = [cast("dict[str, object]", line) for line in logged]
    assert ["author.line", "operation.ended"] == [line["event"] for line in lines]
    for line in lines:
        assert ("ensureBackend", "r-1") == (line["operation"], line["record_id"])
        assert (TRACE if traced else None) == line.get("trace_id")
        assert (SPAN if traced else None) == line.get("parent_id")
    assert "no more places" == lines[-1]["msg"]


async def test_a_call_leaves_nothing_behind_in_the_log() -> None:
    """What a call has bound is not on the lines of the next one."""
    async with serving(Service(Picky())) as url:
        await call(url, "ensureBackend")

    assert {} == structlog.contextvars.get_contextvars()
