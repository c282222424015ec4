"""Load: what is counted, what is told, where it ends."""

import asyncio

import attrs
import pytest

from lbcf import sdk
from lbcf.conformance.load import Step, highest_concurrency, quantile, run_load
from lbcf.core.model.values import MemberKey
from tests.conformance.stages import LB, HastyClock, a_target
from webhooks.memory import MemoryDriver


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, 1.0), (0.5, 2.0), (0.75, 3.0), (0.99, 4.0), (1.0, 4.0)],
)
def test_quantiles(share: float, expected: float) -> None:
    """The least value that so many do not exceed."""
    assert expected == quantile([1.0, 2.0, 3.0, 4.0], share)


def test_what_was_borne() -> None:
    """The highest concurrency without a failure; 0 where there is none."""
    fine = [Step(size, 1, [], {}, 1.0) for size in (1, 2, 4)]

    assert 4 == highest_concurrency([*fine, Step(8, 1, ["no"], {}, 1.0)])
    assert 0 == highest_concurrency([Step(1, 1, ["no"], {}, 1.0)])


async def test_all_lifecycles_end() -> None:
    """As many as were wanted, in steps; nothing is left, all calls are counted."""
    driver = MemoryDriver(MemberKey.RECORD)
    async with a_target(lambda: driver, member_key=MemberKey.RECORD) as target:
        steps = await run_load(target, HastyClock(), LB, 45)

    assert [1, 2, 4, 8, 16] == [step.concurrency for step in steps]
    assert all(step.lifecycles >= step.concurrency for step in steps)
    assert 45 == sum(step.lifecycles for step in steps)
    assert 45 == sum(len(step.latencies["deregisterBackend"]) for step in steps)
    assert [] == list(driver.members)


@pytest.mark.parametrize(("lifecycles", "most"), [(1, 1), (2, 1), (3, 2), (63, 32)])
async def test_nothing_is_claimed_that_was_not_tried(
    lifecycles: int, most: int
) -> None:
    """A step has as many lifecycles as it says that there were at a time."""
    async with a_target(MemoryDriver) as target:
        steps = await run_load(target, HastyClock(), LB, lifecycles)

    assert lifecycles == sum(step.lifecycles for step in steps)
    assert all(step.lifecycles >= step.concurrency for step in steps)
    assert most == highest_concurrency(steps)


async def test_few_addresses_bound_the_load() -> None:
    """Where members go by address, no two lifecycles share one."""
    async with a_target(MemoryDriver) as target:
        few = attrs.evolve(target, addresses=target.addresses[:2])
        steps = await run_load(few, HastyClock(), LB, 10)

    assert [1, 2] == [step.concurrency for step in steps]


class Overwhelmed(MemoryDriver):
    """Bears three at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0

    async def ensure_backend(
        self, request: sdk.EnsureBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Refuse the fourth."""
        self.inside += 1
        try:
            await asyncio.sleep(0.01)
            if self.inside > 3:
                raise sdk.Fail("too many")
            return await super().ensure_backend(request)
        finally:
            self.inside -= 1


async def test_it_ends_where_something_fails() -> None:
    """The step that failed is the last, and says what failed first."""
    async with a_target(Overwhelmed) as target:
        steps = await run_load(target, HastyClock(), LB, 60)

    assert 2 == highest_concurrency(steps)
    assert 4 == steps[-1].concurrency
    assert "too many" in "\n".join(steps[-1].lines())


class Remembering(MemoryDriver):
    """Remembers whom it was asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[str] = []

    async def ensure_backend(
        self, request: sdk.EnsureBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Remember the record."""
        self.records.append(request.record_id)
        return await super().ensure_backend(request)


async def records_of(seed: int) -> list[str]:
    """Return the records of a run, in order, repetitions included."""
    driver = Remembering()
    async with a_target(lambda: driver) as target:
        await run_load(attrs.evolve(target, seed=seed), HastyClock(), LB, 8)
    return sorted(driver.records)


async def test_the_same_seed_sends_the_same() -> None:
    """Records of two runs are equal, and others with another seed."""
    first, again, other = [await records_of(seed) for seed in (1, 1, 2)]

    assert first == again
    assert not set(first) & set(other)
