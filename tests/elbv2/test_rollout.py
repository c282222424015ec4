"""A rollout of fifty members while slow clients are connected to all of them."""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta

import attrs
import pytest

from lbcf.sdk import Running
from tests.elbv2.clients import (
    a_deregister,
    a_drain,
    an_ensure,
    an_identity,
    somebody_else,
)
from tests.elbv2.clocks import QuickClock
from tests.elbv2.emulator import OURS, Emulator
from tests.elbv2.state import EmulatedGroup
from tests.haproxy.waiting import until
from webhooks.elbv2.driver import Elbv2Driver


FIFTY = range(1, 51)
OLD = [f"198.18.1.{n}:80" for n in FIFTY]
NEW = [f"198.18.2.{n}:80" for n in FIFTY]
SHORT, LONG = timedelta(seconds=40), timedelta(hours=1)
"""Less than the target group's delay, and more than anybody waits."""


Looks = Callable[[], Awaitable[dict[str, list[str]]]]


@attrs.define(eq=False)
class Watcher:
    """Somebody who looks all the time, with AWS' own client and keys of other people.

    Attributes:
        seen: the states of each target, in order, without repetitions.
    """

    seen: dict[str, list[str]] = attrs.field(factory=dict)

    def note(self, states: Mapping[str, str]) -> None:
        """Take in what all targets are now; what is not told is gone."""
        for address in [*OLD, *NEW]:
            history = self.seen.setdefault(address, [])
            state = states.get(address, "gone")
            if not history or history[-1] != state:
                history.append(state)


@pytest.fixture(name="look")
async def _look(emulator: Emulator, group: EmulatedGroup) -> AsyncIterator[Looks]:
    """Return what lets the watcher look once; answers are noted as they were given."""
    watcher, one_at_a_time = Watcher(), asyncio.Lock()
    async with somebody_else(emulator) as client:

        async def look() -> dict[str, list[str]]:
            """Read the health of all targets."""
            async with one_at_a_time:
                return await look_now()

        async def look_now() -> dict[str, list[str]]:
            """Read it, and take it in before anybody reads it again."""
            answer = await client.describe_target_health(TargetGroupArn=group.arn)
            watcher.note(
                {
                    f"{one['Target']['Id']}:{one['Target']['Port']}": one[
                        "TargetHealth"
                    ]["State"]
                    for one in answer["TargetHealthDescriptions"]
                }
            )
            return watcher.seen

        yield look


@contextlib.asynccontextmanager
async def looking(look: Looks) -> AsyncIterator[None]:
    """Have the watcher look all the time of a block."""
    over = asyncio.Event()

    async def keep_looking() -> None:
        """Look again and again."""
        while not over.is_set():
            await look()

    async with asyncio.TaskGroup() as group:
        group.create_task(keep_looking())
        yield
        over.set()


async def drained(driver: Elbv2Driver, group: EmulatedGroup, address: str) -> None:
    """Drain and deregister one member as the deregistrar does."""
    lb_info = an_identity(group)

    async def is_over() -> bool:
        """Ask once."""
        answer = await driver.drain_backend(a_drain(lb_info, address, address))
        return not isinstance(answer, Running)

    await until(is_over)
    await driver.deregister_backend(a_deregister(lb_info, address, address))


async def test_fifty_members(
    driver: Elbv2Driver,
    group: EmulatedGroup,
    clock: QuickClock,
    look: Looks,
) -> None:
    """Each connection ends by itself or at its deadline; draining comes before gone."""
    lb_info = an_identity(group)
    await asyncio.gather(
        *(driver.ensure_backend(an_ensure(lb_info, one, one)) for one in OLD)
    )
    early = [group.connect(SHORT if n % 2 else LONG) for n in range(200)]
    await look()
    async with looking(look):
        await asyncio.gather(
            *(driver.ensure_backend(an_ensure(lb_info, one, one)) for one in NEW)
        )
        leaving = [asyncio.create_task(drained(driver, group, one)) for one in OLD]

        async def are_draining() -> bool:
            """Tell whether all of the old ones have been taken out."""
            return len(group.owners) == len(NEW)

        await until(are_draining)
        await look()
        late = [group.connect(SHORT) for _ in range(100)]
        pending_before = sum(not one.done() for one in leaving)
        clock.advance(timedelta(seconds=60))
        await asyncio.gather(*leaving)
    seen = await look()
    group.sweep()

    assert len(OLD) == pending_before
    assert {"198.18.1"} == {one.key[0].rpartition(".")[0] for one in early}
    assert {"198.18.2"} == {one.key[0].rpartition(".")[0] for one in late}
    short, long = early[1::2], early[::2]
    assert [] == [one for one in short + late if one.cut_at is not None]
    assert 100 == len([one for one in long if one.cut_at is not None])
    assert all(["healthy", "draining", "gone"] == seen[one] for one in OLD)
    assert all(["gone", "healthy"] == seen[one] for one in NEW)
    assert [OURS] * len(NEW) == list(group.owners.values())
