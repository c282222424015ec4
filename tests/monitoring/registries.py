"""The metrics of each process, as it registers them: put together, but never started."""

import asyncio

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import attrs

from prometheus_client import CollectorRegistry

from lbcf.admission.app import Admission
from lbcf.admission.flags import Webhook
from lbcf.controller.app import Controller
from lbcf.deregistrar.app import DeregistrarProgram
from lbcf.kube.connection import Connection
from lbcf.process.dependencies import Dependencies, build_dependencies
from lbcf.process.host import Host, Program
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.flags import BindAddress
from lbcf.sdk.metrics import ServiceMetrics
from lbcf.settings import Settings


NOWHERE = Connection("http://127.0.0.1:1")
PROGRAMS: dict[str, Callable[[Dependencies], Program]] = {
    "controller": Controller,
    "deregistrar": DeregistrarProgram,
    "admission": lambda parts: Admission(parts, Webhook(BindAddress("", 0))),
}
DRIVER = "driver"
_PLAIN = ("process_", "python_")
"""Beginnings of what Prometheus' library tells of any process."""


@attrs.frozen
class Family:
    """One metric.

    Attributes:
        name: as queries name it; of a histogram without `_bucket`, `_sum`, `_count`.
        kind: counter, gauge, histogram.
        labels: what tells its series apart.
        text: its help.
        processes: who has it.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str
    processes: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """The names that its series have."""
        if self.kind != "histogram":
            return frozenset({self.name})
        return frozenset(f"{self.name}_{end}" for end in ("bucket", "sum", "count"))


@asynccontextmanager
async def a_host(process: str, *, dry_run: bool = False) -> AsyncIterator[Host]:
    """Put a process together that never meets an API server."""
    probes = BindAddress("127.0.0.1", 0)
    settings = Settings(process, dry_run=dry_run, probes=probes, metrics=probes)
    async with build_dependencies(settings, NOWHERE) as parts:
        yield Host(parts, PROGRAMS[process], asyncio.Event())


async def all_families() -> list[Family]:
    """Find the metrics of all processes, by name."""
    found: dict[str, Family] = {}
    for process in PROGRAMS:
        async with a_host(process, dry_run=process == "controller") as host:
            _merge(found, _families(host.registry, process))
    driver = ServiceMetrics(SystemClock(), lambda: 0.0)
    _merge(found, _families(driver.registry, DRIVER))
    return [found[name] for name in sorted(found)]


def _merge(found: dict[str, Family], more: Iterable[Family]) -> None:
    """Add the families of one process."""
    for family in more:
        known = found.setdefault(family.name, family)
        both = known.processes | family.processes
        found[family.name] = attrs.evolve(known, processes=both)


def _families(registry: CollectorRegistry, process: str) -> Iterable[Family]:
    """Ask each collector of a registry, since a page shows labels of samples alone."""
    for collector in registry._collector_to_names:  # noqa: SLF001 - no public way
        for metric in collector.collect():
            if metric.name.startswith(_PLAIN):
                continue
            owner = collector if hasattr(collector, "_labelnames") else metric
            end = "_total" if metric.type == "counter" else ""
            yield Family(
                metric.name + end,
                metric.type,
                tuple(getattr(owner, "_labelnames", ())),
                metric.documentation,
                frozenset({process}),
            )
