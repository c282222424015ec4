"""A real Prometheus that scrapes our processes, and its answers.

The rules of manifests/monitoring are loaded as docs/operate.md tells those to do it who
have a Prometheus of their own; labels are those that the operator's PodMonitor gives.
"""

import asyncio
import contextlib
import json
import re
import time

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import attrs
import yaml

from tests.lab.cluster.ports import free_ports
from tests.lab.cluster.unpacked import prometheus
from tests.patience import PATIENCE


RULES = Path("manifests/monitoring/rules.yaml")
JOB = "lbcf"
NAMESPACE = "lbcf-system"
"""Of the pods; what our own series say of a namespace is kept."""
_NO_VALUE = "NaN"
"""What Prometheus says of a quantile of nothing; Grafana leaves a gap."""


class PrometheusError(Exception):
    """It refused, or never became what was waited for; the text says why."""


@attrs.frozen
class Span:
    """What a graph covers.

    Attributes:
        begin: Unix time of its left edge, in seconds.
        end: that of its right edge.
        step: seconds from one value to the next.
        rate: seconds that a rate looks back, in the place of `$__rate_interval`.
    """

    begin: float
    end: float
    step: float
    rate: float


@attrs.frozen
class ReviewMetrics:
    """One line of an answer.

    Attributes:
        labels: what tells it apart.
        points: moments, as Unix time, with the values there.
    """

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]

    def called(self, legend: str) -> str:
        """Put labels into a legend, as Grafana does; a missing one is nothing."""
        return re.sub(r"{{\s*(\w+)\s*}}", lambda m: self.labels.get(m[1], ""), legend)


@attrs.frozen
class Prometheus:
    """A server that runs."""

    url: str

    async def ask(self, path: str, **words: str) -> Any:
        """Ask its HTTP API.

        Raises:
            PrometheusError: it refused.
        """
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/api/v1/{path}", params=words) as answer,
        ):
            told = await answer.json()
        if told["status"] != "success":
            raise PrometheusError(f"{words.get('query', path)}: {told['error']}")
        return told["data"]

    async def graph(self, query: str, span: Span) -> tuple[ReviewMetrics, ...]:
        """Ask as Grafana asks for a graph.

        Raises:
            PrometheusError: the query is refused.
        """
        bound = {"start": span.begin, "end": span.end, "step": span.step}
        found = await self.ask(
            "query_range",
            query=query.replace("$__rate_interval", f"{span.rate:g}s"),
            **{name: str(value) for name, value in bound.items()},
        )
        return tuple(
            ReviewMetrics(one["metric"], points)
            for one in found["result"]
            if (points := _points(one["values"]))
        )

    async def families(self) -> frozenset[str]:
        """The metrics that the scraped pages declare, those without a series, too."""
        return frozenset(told["metric"] for told in await self.ask("targets/metadata"))

    async def health_of_rules(self) -> dict[str, str]:
        """Say of each alert whether its last evaluation was `ok`, `err`, or is to come."""
        groups = (await self.ask("rules"))["groups"]
        return {rule["name"]: rule["health"] for g in groups for rule in g["rules"]}

    async def until_scraped(self) -> None:
        """Wait until every target has been scraped.

        Raises:
            PrometheusError: one cannot be; says what is wrong with it.
        """
        end = time.monotonic() + PATIENCE
        while True:
            targets = (await self.ask("targets"))["activeTargets"]
            if targets and all(target["health"] == "up" for target in targets):
                return
            if time.monotonic() > end:
                wrong = {t["labels"]["pod"]: t["lastError"] for t in targets}
                raise PrometheusError(f"not scraped within {PATIENCE:g} s: {wrong}")
            await asyncio.sleep(0.1)


def _points(values: list[tuple[float, str]]) -> tuple[tuple[float, float], ...]:
    """Read the points of a series, without those that have no value."""
    return tuple((at, float(text)) for at, text in values if text != _NO_VALUE)


@contextlib.asynccontextmanager
async def scraping(
    folder: Path, targets: Mapping[str, str], interval: float
) -> AsyncIterator[Prometheus]:
    """Run a server that scrapes these and knows our rules.

    Args:
        folder: for its files.
        targets: addresses by the names of the pods that they stand for.
        interval: seconds between two scrapes, and two looks at the rules.

    Raises:
        PrometheusError: it does not start; its log is the text.
    """
    _configure(folder, targets, interval)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    argv = [
        str(prometheus(print)),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    log = folder / "prometheus.log"
    with log.open("wb") as out:
        running = await asyncio.create_subprocess_exec(*argv, stdout=out, stderr=out)
    try:
        await _until_ready(f"http://{address}", running, log)
        yield Prometheus(f"http://{address}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            running.terminate()
        await running.wait()


def _configure(folder: Path, targets: Mapping[str, str], interval: float) -> None:
    """Write its files."""
    spec = yaml.safe_load(RULES.read_text())["spec"]
    (folder / "rules.yaml").write_text(yaml.safe_dump(spec))
    (folder / "prometheus.yml").write_text(_configuration(targets, interval))


def _configuration(targets: Mapping[str, str], interval: float) -> str:
    """Write what is scraped; JSON is YAML."""
    often = f"{round(interval * 1000)}ms"
    return json.dumps(
        {
            "global": {
                "scrape_interval": often,
                "scrape_timeout": often,
                "evaluation_interval": often,
            },
            "rule_files": ["rules.yaml"],
            "scrape_configs": [
                {
                    "job_name": JOB,
                    "honor_labels": True,
                    "static_configs": [
                        {
                            "targets": [address],
                            "labels": {"pod": pod, "namespace": NAMESPACE},
                        }
                        for pod, address in targets.items()
                    ],
                }
            ],
        }
    )


async def _until_ready(
    url: str, running: asyncio.subprocess.Process, log: Path
) -> None:
    """Wait until it answers.

    Raises:
        PrometheusError: it ended instead, or never did.
    """
    end = time.monotonic() + PATIENCE
    async with aiohttp.ClientSession() as session:
        while running.returncode is None and time.monotonic() < end:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{url}/-/ready") as answer:
                    if answer.ok:
                        return
            await asyncio.sleep(0.05)
    raise PrometheusError(f"Prometheus does not serve:\n{_end_of(log)}")


def _end_of(log: Path) -> str:
    """Read what a log says last."""
    return log.read_text()[-2000:]
