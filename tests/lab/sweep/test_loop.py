"""Who stands still does nothing at all, everybody else goes on; what ends a test is told."""

import asyncio
import contextvars

import pytest

from tests.lab.sweep.loop import BusyLoop
from tests.lab.sweep.objects import RECORD
from tests.lab.sweep.run import Scenario, Script, play
from tests.lab.sweep.stage import ONE
from tests.lab.sweep.world import World


WHO = contextvars.ContextVar("who", default="world")


def is_paused(context: contextvars.Context) -> bool:
    """Tell whose callback it is."""
    return context.get(WHO) == "paused"


async def tick(said: list[tuple[str, float]], after: float) -> None:
    """Wait, and say who one is and when that was."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(after)
    said.append((WHO.get(), round(loop.time(), 3)))


def played(*delays: float) -> list[tuple[str, float]]:
    """Let somebody stand still for 40 s from the first second on, beside the world."""
    said: list[tuple[str, float]] = []
    loop = BusyLoop()

    async def play() -> None:
        """Start both, and stop one."""
        tasks = []
        for who in ("paused", "world"):
            context = contextvars.copy_context()
            context.run(WHO.set, who)
            for delay in delays:
                task = asyncio.Task(tick(said, delay), loop=loop, context=context)
                tasks.append(task)
        await asyncio.sleep(1)
        loop.stand_still(
            is_paused, 40, lambda: said.append(("awake", round(loop.time(), 3)))
        )
        await asyncio.gather(*tasks)

    try:
        loop.run_until_complete(play())
    finally:
        loop.close()
    return said


def test_timers_of_a_paused_one_ring_when_it_wakes() -> None:
    """In the order in which they should have; what comes later comes in time."""
    said = played(9.0, 3.0, 60.0)

    world = [("world", 3.0), ("world", 9.0)]
    late = [("awake", 41.0), ("paused", 41.0), ("paused", 41.0)]
    assert [*world, *late, ("paused", 60.0), ("world", 60.0)] == said


def test_what_was_due_already_runs_first_when_it_wakes() -> None:
    """It was about to run when the process was stopped."""
    loop, said = BusyLoop(), list[str]()

    def note(what: str) -> None:
        """Note that it ran."""
        said.append(what)

    async def play() -> None:
        """Stop somebody who has something ready, and a timer."""
        context = contextvars.copy_context()
        context.run(WHO.set, "paused")
        loop.call_later(5, note, "timer", context=context)
        loop.call_soon(note, "ready", context=context)
        loop.stand_still(is_paused, 40, lambda: said.append("came in"))
        await asyncio.sleep(50)

    try:
        loop.run_until_complete(play())
    finally:
        loop.close()

    assert {"came in", "ready", "timer"} == set(said)
    assert said.index("ready") < said.index("timer")


class Struck(BaseException):
    """What ends a test from outside."""


def strike(_step: object = None) -> None:
    """End whatever runs."""
    raise Struck


async def in_a_process(world: World) -> None:
    """Strike while a process sends a request."""
    world.on_step = strike
    world.put_pod("web-1", ONE)
    await asyncio.sleep(1)


async def in_a_callback(world: World) -> None:
    """Strike while nobody's task runs."""
    world.later(0.1, strike)
    await asyncio.sleep(1)


@pytest.mark.parametrize("script", [in_a_process, in_a_callback])
def test_time_limit_of_a_test_is_told_as_what_it_is(script: Script) -> None:
    """The loop would go on without the task, and its process be blamed for the rest."""
    outcome = play(Scenario("struck", script, {}, settle=60, quiet=10), RECORD, {})

    assert "the run was ended from outside: Struck()" == outcome.breach
