"""Finds out what a driver bears: lifecycles of members, more and more at a time.

A lifecycle is ensure, drain (where declared), deregister. The same seed sends the same
ones. The last number of concurrent ones without a failure is what it bore.
"""

import asyncio
import hashlib
import math

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import attrs

from lbcf.conformance.bench import Bench
from lbcf.conformance.findings import Finding
from lbcf.conformance.identities import Member, seeded_ids
from lbcf.conformance.line import Line
from lbcf.conformance.target import Target
from lbcf.core.model.values import MemberKey
from lbcf.runtime.clock import Clock


STEPS = (1, 2, 4, 8, 16, 32, 64)
"""Lifecycles at a time; 32 calls at a time is what controllers do unless told."""

_MOST_REPEATS = 2


@attrs.frozen
class Step:
    """How it went with so many at a time.

    Attributes:
        concurrency: lifecycles at a time.
        lifecycles: how many there were.
        failures: what went wrong, one text for each lifecycle that did not end well.
        latencies: seconds of all calls, by operation, in ascending order.
        seconds: the whole step took.
    """

    concurrency: int
    lifecycles: int
    failures: Sequence[str]
    latencies: dict[str, list[float]]
    seconds: float

    def lines(self) -> Iterator[str]:
        """Give what people read about it."""
        rate = self.lifecycles / max(self.seconds, 1e-9)
        yield (
            f"load  {self.concurrency} at a time: {self.lifecycles} lifecycles, "
            f"{len(self.failures)} failed, {rate:.0f}/s"
        )
        for operation, seconds in self.latencies.items():
            middle, high = (1000 * quantile(seconds, q) for q in (0.5, 0.99))
            yield (
                f"      {operation}: {len(seconds)} calls, "
                f"p50 {middle:.1f} ms, p99 {high:.1f} ms"
            )
        if self.failures:
            yield f"      first failure: {self.failures[0]}"


def quantile(ascending: Sequence[float], share: float) -> float:
    """Return the least value that at least this share of the values do not exceed."""
    return ascending[max(math.ceil(share * len(ascending)) - 1, 0)]


def borne(steps: Sequence[Step]) -> int:
    """Return the highest concurrency that nothing failed at; 0: none."""
    fine = [step.concurrency for step in steps if not step.failures]
    return max(fine, default=0)


async def put_under_load(
    target: Target,
    clock: Clock,
    lb_info: dict[str, str],
    lifecycles: int,
    told: Callable[[Step], None] = lambda _step: None,
) -> list[Step]:
    """Run so many lifecycles, shared out among the steps; end at the first failure."""
    most = lifecycles
    if target.member_key is MemberKey.ADDRESS:
        # Two records with one address would be one member.
        most = min(most, len(target.addresses))
    sizes = [size for size in STEPS if size <= most]
    steps: list[Step] = []
    for number, size in enumerate(sizes):
        share = lifecycles // len(sizes) + (number < lifecycles % len(sizes))
        step = await _stepped(target, clock, lb_info, size, share)
        told(step)
        steps.append(step)
        if step.failures:
            break
    return steps


async def _stepped(
    target: Target, clock: Clock, lb_info: dict[str, str], size: int, share: int
) -> Step:
    """Run one step: `size` workers take lifecycles until none is left."""
    failures: list[str] = []
    ids = seeded_ids(target.seed, "load", size)
    left = iter([next(ids) for _ in range(share)])
    began = clock.monotonic()
    async with Line(target, clock) as line:

        async def work(place: int) -> None:
            """Live one life after the other, always at the same address."""
            for record in left:
                bench = Bench(target, line, clock, lb_info, record)
                address = target.addresses[place % len(target.addresses)]
                try:
                    await _life(bench, Member(record, address))
                except Finding as finding:
                    failures.append(f"{finding.text} (record {record})")

        await asyncio.gather(*(work(place) for place in range(size)))
        latencies: dict[str, list[float]] = defaultdict(list)
        for exchange in line.exchanges:
            latencies[exchange.operation].append(exchange.seconds)
    ordered = {name: sorted(values) for name, values in latencies.items()}
    return Step(size, share, failures, ordered, clock.monotonic() - began)


async def _life(bench: Bench, member: Member) -> None:
    """Live one life; its record says how often it is ensured, and how it ends."""
    dice = hashlib.sha256(member.record_id.encode()).digest()
    for _ in range(1 + dice[0] % _MOST_REPEATS):
        await bench.ensure(member)
    await bench.clock.sleep(timedelta(milliseconds=dice[1] % 4))
    is_drained = bench.drains and bool(dice[2] % 4)
    if is_drained:
        await bench.drain(member)
    await bench.deregister(member, drained=is_drained)
