"""The limits that this project sets itself, and whether a run held them."""

from collections.abc import Iterable, Iterator

import attrs

from tests.lab.bench.outcome import Outcome


STORM = 2_000
MIB = 2**20


@attrs.frozen
class Line:
    """One limit.

    Attributes:
        figure: as measured; at most `limit` holds.
    """

    what: str
    figure: float
    limit: float

    @property
    def holds(self) -> bool:
        """Tell whether it holds."""
        return self.figure <= self.limit


def judge(outcomes: Iterable[Outcome]) -> list[Line]:
    """Compare all sizes of a run with the limits."""
    by_size: dict[int, dict[str, Outcome]] = {}
    for found in outcomes:
        by_size.setdefault(found.size, {})[found.name] = found
    return [line for size, all_ in by_size.items() for line in _judge(size, all_)]


def _judge(size: int, found: dict[str, Outcome]) -> Iterator[Line]:
    """Compare one size with the limits."""
    registration, ending = found["registration"], found["deregistration"]
    for phase in (registration, ending):
        if phase.ratio is not None:
            yield Line(f"{size}: {phase.name}, times the floor", phase.ratio, 1.3)
    storm = ending.spreads["deletion to first call"]
    yield Line(f"{size}: deletion to first call in the storm, p99 s", storm.p99, 2.0)
    cpu = 1000 * (registration.our_cpu + ending.our_cpu) / size
    yield Line(f"{size}: CPU per lifecycle, ms", cpu, 6.3)
    writes = (registration.writes + ending.writes) / size
    yield Line(f"{size}: API writes per lifecycle", writes, 4.1)
    base = found["nothing there"].resident["controller"]
    peak = max(p.peak.get("controller", 0) for p in found.values())
    limit = base / MIB + 25 * size / 1024
    yield Line(f"{size}: controller at most, MiB", peak / MIB, limit)
    if "idle" in found:
        yield from _judge_quiet(size, found)


def _judge_quiet(size: int, found: dict[str, Outcome]) -> Iterator[Line]:
    """Compare with the limits that hold where little or nothing happens."""
    spread = found["single deletions"].spreads["deletion to first call"]
    told = f"{size}: deletion to first call of single pods"
    yield Line(f"{told}, p99 s", spread.p99, 0.15)
    idle = found["idle"]
    share = 100 * idle.our_cpu / idle.seconds
    yield Line(f"{size}: CPU of both when idle, % of a core", share, 0.5)
    yield Line(f"{size}: writes when idle", idle.writes, 0)
