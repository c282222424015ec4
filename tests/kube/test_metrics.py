"""Requests of the API server are counted as client-go counts them."""

from datetime import timedelta

import pytest

from prometheus_client import CollectorRegistry

from lbcf.kube.client import connected
from lbcf.kube.connection import Connection
from lbcf.kube.errors import Conflict, KubeError
from lbcf.kube.list_watch import EVERYTHING
from lbcf.kube.metrics import RequestMetrics
from tests.kube.builders import THINGS, PromptClock, key, thing_json
from tests.kube.scripted import ScriptedServer, answer, refusal, watch


SILENCE = timedelta(seconds=5)


async def test_requests_are_counted_by_what_came_of_them(
    server: ScriptedServer, clock: PromptClock
) -> None:
    """One request counts once, with the answer that it came to in the end."""
    registry = CollectorRegistry()
    series = RequestMetrics(registry, clock)
    server.script(answer(thing_json("web", 1)), watch(), refusal(409, "Conflict"))
    async with connected(
        server.connection, clock, middleware=series.counting
    ) as client:
        await client.get(THINGS, key("web"))
        watching = client.watch(
            THINGS, EVERYTHING, version="1", seconds=5, silence=SILENCE
        )
        async with watching as chunks:
            assert [] == [chunk async for chunk in chunks]
        with pytest.raises(Conflict):
            await client.patch(THINGS, key("web"), {})

    def counted(code: str, method: str) -> float | None:
        """Read a counter."""
        labels = {"code": code, "method": method}
        return registry.get_sample_value("rest_client_requests_total", labels)

    assert (2, 1) == (counted("2xx", "GET"), counted("409", "PATCH"))
    assert 1 == registry.get_sample_value(
        "rest_client_request_duration_seconds_count", {"verb": "GET"}
    )


async def test_request_without_an_answer_is_an_error(clock: PromptClock) -> None:
    """What never got a status is told apart from what was refused."""
    registry = CollectorRegistry()
    series = RequestMetrics(registry, clock)
    nowhere = Connection("http://127.0.0.1:1")
    async with connected(nowhere, clock, middleware=series.counting) as client:
        with pytest.raises(KubeError):
            await client.get(THINGS, key("web"))

    labels = {"code": "<error>", "method": "GET"}
    assert 1 == registry.get_sample_value("rest_client_requests_total", labels)
