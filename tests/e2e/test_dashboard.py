"""A real Prometheus scrapes the real processes: dashboard and alerts ask what it has."""

import itertools
import time

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.stage import Stage
from tests.e2e.watched import metrics_address
from tests.monitoring.answers import answered, panels
from tests.monitoring.queries import ELSEWHERE, series_of
from tests.monitoring.server import Prometheus, Span, scraping
from tests.monitoring.test_rules import rules


pytestmark = [pytest.mark.cluster, pytest.mark.prometheus]

PROCESSES = ("controller", "deregistrar", "admission")
EMPTY_ON_A_GOOD_DAY = {
    "Oldest registration",  # over before anybody scrapes
    "Removals held",
    "Records in trouble",
    "Calls whose effect nobody knows",
    "Questions of the API server",  # no webhook configuration leads to this one
}
PARTS = ("_bucket", "_sum", "_count")
_WINDOW = 60.0


@pytest.fixture(name="watched")
async def _watched(stage: Stage, tmp_path: Path) -> AsyncIterator[Prometheus]:
    """A Prometheus that scrapes all processes of a stage."""
    await stage.start("admission", "--webhook-configuration", stage.namespace)
    targets = {f"lbcf-{p}": metrics_address(stage.processes[p]) for p in PROCESSES}
    async with scraping(tmp_path, targets, 2.0) as prometheus:
        await prometheus.until_scraped()
        yield prometheus


async def _come_and_go(stage: Stage, name: str) -> None:
    """Let one pod be registered, drain and leave."""
    await stage.add_pod(name, "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await stage.control("sessions", backendAddr="10.0.0.1:80", sessions=1)
    await stage.terminate_pod(name)
    await stage.until_reason("Drained", "Draining")
    await stage.control("sessions", backendAddr="10.0.0.1:80", sessions=0)
    await stage.until_registered()
    await stage.let_pod_go(name)


async def test_every_panel_has_an_answer(stage: Stage, watched: Prometheus) -> None:
    """But those that tell of trouble; and no query is refused."""
    numbers = itertools.count()

    async def settled() -> bool:
        await _come_and_go(stage, f"pod-{next(numbers)}")
        now = time.time()
        shown = await answered(watched, Span(now - _WINDOW, now, 1, _WINDOW))
        return {one.title for one in shown if one.is_empty} <= EMPTY_ON_A_GOOD_DAY

    await stage.until("the panels have lines", settled)


async def test_every_alert_and_panel_asks_for_what_there_is(
    stage: Stage, watched: Prometheus
) -> None:
    """Each alert is evaluated; each metric is on a page, its series may come later."""

    async def looked_at() -> dict[str, str]:
        health = await watched.health_of_rules()
        return {} if "unknown" in health.values() else health

    health = await stage.until("the alerts are evaluated", looked_at)
    assert dict.fromkeys(rules(), "ok") == health

    queries = [t["expr"] for panel in panels() for t in panel.get("targets", ())]
    queries += [rule["expr"] for rule in rules().values()]
    asked = {name for query in queries for name, _ in series_of(query)}
    asked -= ELSEWHERE.keys()

    async def all_known() -> bool:
        """Look at the pages; one that could not be scraped in time is forgotten for a while."""
        known = await watched.families()
        return all(known & _spellings(name) for name in asked)

    await stage.until("the pages have every metric", all_known)


def _spellings(name: str) -> set[str]:
    """A metric's name, and what it is if this is one of a histogram's series."""
    return {name, *(name.removesuffix(end) for end in PARTS if name.endswith(end))}
