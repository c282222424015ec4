"""The probe and metrics server, over real connections."""

import socket

from collections.abc import Mapping

import aiohttp
import pytest

from lbcf.runtime.flags import BindAddress
from lbcf.runtime.health import CannotListen, Check, serve
from lbcf.runtime.metrics import Metrics


LOCAL = BindAddress("127.0.0.1", 0)


def well() -> str | None:
    """Find nothing wrong."""
    return None


def unwell() -> str | None:
    """Find something wrong."""
    return "no watch for 90 s"


def broken() -> str | None:
    """Be wrong itself."""
    raise KeyError("x")


async def ask(port: int | None, path: str) -> tuple[int, str]:
    """Get a path; return status and body."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, await response.text()


async def probed(path: str, ready: Mapping[str, Check]) -> tuple[int, str]:
    """Serve the checks and ask one path."""
    async with serve(
        probes=LOCAL,
        metrics=None,
        live={"loop": well},
        ready=ready,
        registry=Metrics(),
    ) as bound:
        return await ask(bound.probes, path)


@pytest.mark.parametrize(
    ("path", "ready", "expected"),
    [
        pytest.param("/healthz", {}, (200, "ok"), id="well"),
        pytest.param("/readyz", {}, (200, "ok"), id="no checks"),
        pytest.param(
            "/readyz?verbose",
            {"lease": well, "cache": well},
            (200, "[+]lease ok\n[+]cache ok\nreadyz check passed\n"),
            id="verbose",
        ),
        pytest.param(
            "/readyz",
            {"lease": well, "cache": unwell},
            (
                500,
                "[+]lease ok\n[-]cache failed: no watch for 90 s\nreadyz check failed\n",
            ),
            id="one fails",
        ),
        pytest.param(
            "/readyz?exclude=cache&exclude=x",
            {"cache": unwell},
            (200, "ok"),
            id="left out",
        ),
        pytest.param(
            "/readyz",
            {"cache": broken},
            (
                500,
                "[-]cache failed: the check itself failed: KeyError: 'x'\nreadyz check failed\n",
            ),
            id="check raises",
        ),
        pytest.param("/healthz", {"cache": unwell}, (200, "ok"), id="ready only"),
    ],
)
async def test_probe_answers_like_the_api_server(
    path: str, ready: dict[str, Check], expected: tuple[int, str]
) -> None:
    """A probe is short when all is well, and says line by line what is not."""
    assert expected == await probed(path, ready)


async def test_checks_added_later_are_asked() -> None:
    """The mapping may grow while the server runs."""
    ready: dict[str, Check] = {}
    async with serve(
        probes=LOCAL, metrics=None, live={}, ready=ready, registry=Metrics()
    ) as bound:
        ready["cache"] = unwell

        assert 500 == (await ask(bound.probes, "/readyz"))[0]


async def test_one_address_serves_both() -> None:
    """Probes and metrics given the same address share it."""
    async with serve(
        probes=LOCAL, metrics=LOCAL, live={}, ready={}, registry=Metrics()
    ) as bound:
        assert bound.probes == bound.metrics
        assert (200, "ok") == await ask(bound.probes, "/healthz")
        assert 200 == (await ask(bound.metrics, "/metrics"))[0]


async def test_two_addresses_serve_one_thing_each() -> None:
    """Metrics are not on the probes' port, nor probes on the metrics'."""
    other = BindAddress("0.0.0.0", 0)  # noqa: S104 - another address
    async with serve(
        probes=LOCAL, metrics=other, live={}, ready={}, registry=Metrics()
    ) as bound:
        assert 404 == (await ask(bound.probes, "/metrics"))[0]
        assert 404 == (await ask(bound.metrics, "/healthz"))[0]
        assert 200 == (await ask(bound.metrics, "/metrics"))[0]


async def test_both_off_serve_nothing() -> None:
    """Without addresses there are no ports."""
    async with serve(
        probes=None, metrics=None, live={}, ready={}, registry=Metrics()
    ) as bound:
        assert (None, None) == (bound.probes, bound.metrics)


async def test_metrics_page_has_the_media_type_of_prometheus() -> None:
    """A scraper is told what it gets."""
    metrics = Metrics()
    metrics.set_leader("lbcf-controller", leading=True)
    async with (
        serve(probes=None, metrics=LOCAL, live={}, ready={}, registry=metrics) as bound,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{bound.metrics}/metrics") as response,
    ):
        text = await response.text()
        media_type = response.headers["Content-Type"]

    assert "text/plain; version=0.0.4; charset=utf-8" == media_type
    assert 'leader_election_master_status{name="lbcf-controller"} 1.0' in text


async def test_taken_address_is_told_and_nothing_is_left_open() -> None:
    """The error names the address and the reason; the other port is closed again."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = BindAddress("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(CannotListen, match=f"{address}: .*in use"):
            async with serve(
                probes=LOCAL, metrics=address, live={}, ready={}, registry=Metrics()
            ):
                pytest.fail("it listens on a taken address")


async def test_port_is_closed_after_the_block() -> None:
    """Who leaves the block listens no more."""
    async with serve(
        probes=LOCAL, metrics=None, live={}, ready={}, registry=Metrics()
    ) as bound:
        port = bound.probes

    with pytest.raises(aiohttp.ClientConnectorError):
        await ask(port, "/healthz")
