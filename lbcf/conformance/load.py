"""Measures how many lifecycles of backends at a time a driver can serve.

A lifecycle is ensure (once or twice), drain (three of four, where declared), deregister; the
same seed sends the same ones. The result is the last concurrency without a failure.
"""

import asyncio
import hashlib
import itertools
import math

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import attrs

from lbcf.conformance.bench import Bench, Member, seeded_ids
from lbcf.conformance.client import RecordingClient
from lbcf.conformance.findings import Finding
from lbcf.conformance.target import Target
from lbcf.core.model.values import MemberKey
from lbcf.runtime.clock import Clock


STEPS = (1, 2, 4, 8, 16, 32, 64)
"""Concurrency of each step; 32 calls at a time are a controller's default."""

_MOST_REPEATS = 2


@attrs.frozen
class Step:
    """The result of one concurrency.

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
        """Generate the lines of the printed report."""
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


def highest_concurrency(steps: Sequence[Step]) -> int:
    """Return the highest concurrency that nothing failed at; 0: none."""
    fine = [step.concurrency for step in steps if not step.failures]
    return max(fine, default=0)


async def run_load(
    target: Target,
    clock: Clock,
    lb_info: dict[str, str],
    lifecycles: int,
    on_step: Callable[[Step], None] = lambda _step: None,
) -> list[Step]:
    """Run lifecycles, shared out among the steps; end at the first failing step.

    A step has at least as many as there are at a time in it: so fewer lifecycles make
    fewer steps.
    """
    most = lifecycles
    if target.member_key is MemberKey.ADDRESS:
        # Two records with one address would be one member.
        most = min(most, len(target.addresses))
    places = zip(STEPS, itertools.accumulate(STEPS), strict=True)
    sizes = [size for size, total in places if size <= most and total <= lifecycles]
    left = lifecycles - sum(sizes)
    steps: list[Step] = []
    for number, size in enumerate(sizes):
        share = size + left // len(sizes) + (number < left % len(sizes))
        step = await _run_step(target, clock, lb_info, size, share)
        on_step(step)
        steps.append(step)
        if step.failures:
            break
    return steps


async def _run_step(
    target: Target, clock: Clock, lb_info: dict[str, str], size: int, share: int
) -> Step:
    """Run one step: `size` workers take lifecycles until none is left."""
    failures: list[str] = []
    ids = seeded_ids(target.seed, "load", size)
    left = iter([next(ids) for _ in range(share)])
    began = clock.monotonic()
    async with RecordingClient(target, clock) as client:

        async def work(number: int) -> None:
            # An address for each worker: two lifecycles at one address would be one member.
            address = target.addresses[number % len(target.addresses)]
            for record in left:
                bench = Bench(target, client, clock, lb_info, record)
                try:
                    await _lifecycle(bench, Member(record, address))
                except Finding as finding:
                    failures.append(f"{finding.text} (record {record})")

        await asyncio.gather(*(work(number) for number in range(size)))
        latencies: dict[str, list[float]] = defaultdict(list)
        for exchange in client.exchanges:
            latencies[exchange.operation].append(exchange.seconds)
    ordered = {name: sorted(values) for name, values in latencies.items()}
    return Step(size, share, failures, ordered, clock.monotonic() - began)


async def _lifecycle(bench: Bench, member: Member) -> None:
    """Run one; its record id decides how often it is ensured, and whether drained."""
    dice = hashlib.sha256(member.record_id.encode()).digest()
    for _ in range(1 + dice[0] % _MOST_REPEATS):
        await bench.ensure(member)
    await bench.clock.sleep(timedelta(milliseconds=dice[1] % 4))
    is_drained = bench.can_drain and bool(dice[2] % 4)
    if is_drained:
        await bench.drain(member)
    await bench.deregister(member, drained=is_drained)
