"""One run: a scenario in a setting, with a plan of faults, judged.

`explore` runs many, the command line one.
"""

import asyncio

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from tests.lab.sweep.faults import Kind, Plan
from tests.lab.sweep.loop import BusyLoop
from tests.lab.sweep.objects import Setting
from tests.lab.sweep.world import BreachError, News, Step, World


SETTLE = 900.0
"""Seconds after the last act of users in which all must be as it should be."""
FAULTS = 60.0
"""Seconds after the last act of users in which steps still may fail."""
QUIET = 600.0
"""Seconds after that in which nobody writes."""
_LAST = 40
"""Steps that are told of a run that broke a rule."""

Script = Callable[[World], Awaitable[None]]


@attrs.frozen
class Scenario:
    """What users do.

    Attributes:
        settings: in which it is played, by name.
        is_short: pairs of faults are tried as well.
        settle: seconds within which all must be as it should be.
        quiet: seconds in which nobody writes after that.
    """

    name: str
    script: Script
    settings: dict[str, Setting]
    is_short: bool = False
    settle: float = SETTLE
    quiet: float = QUIET


@attrs.frozen
class Outcome:
    """What came of a run.

    Attributes:
        breach: what was broken, None: nothing.
        steps: all steps, in order.
        news: what watches told, in order.
        looks: how often the oracle looked.
        played: how many steps there were until faults begin to be unfair: what fails
            later may leave its traces in the quiet time.
    """

    breach: str | None
    steps: tuple[Step, ...]
    news: tuple[News, ...]
    looks: int
    played: int

    @property
    def ending(self) -> str:
        """The last steps in words: of a run in CI there is nothing but what was printed."""
        last = [f"{s.number} {s.at:.3f} {s.who} {s.what}" for s in self.steps]
        return "\n".join(last[-_LAST:])


def play(scenario: Scenario, setting: Setting, plan: Plan) -> Outcome:
    """Run it."""
    loop = BusyLoop()
    try:
        return loop.run_until_complete(_play(scenario, setting, plan))
    finally:
        loop.close()


async def _play(scenario: Scenario, setting: Setting, plan: Plan) -> Outcome:
    """Run it in the running loop."""
    world = World(setting, plan)

    prepare(world)
    breach: str | None = None
    try:
        await world.run(lambda w: _judged(scenario, w))
    except BreachError as error:
        breach = str(error)
    finally:
        await world.close()
    last = min(world.played_at + FAULTS, world.faults_until)
    played = sum(1 for step in world.steps if step.at <= last)
    steps, news = tuple(world.steps), tuple(world.news)
    return Outcome(breach, steps, news, world.oracle.looks, played)


def prepare(world: World) -> None:
    """Let the running loop know whose tasks are whose, and notice when it runs hot."""

    def factory(
        loop: asyncio.AbstractEventLoop, work: Any, context: Any = None
    ) -> "asyncio.Task[Any]":
        """Make a task and note whose it is."""
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
        (world.own(task) if context is None else context.run(world.own, task))
        return task

    running = asyncio.get_running_loop()
    running.set_task_factory(factory)
    running.set_exception_handler(world.on_error)
    if isinstance(running, BusyLoop):
        running.on_spin = lambda: world.fail("it runs hot, and waits for nothing")


async def _judged(scenario: Scenario, world: World) -> None:
    """Play, then wait until all is well and stays so.

    Raises:
        BreachError: it is not.
    """
    world.put_group()
    world.start_shards(world.setting.shards)
    await scenario.script(world)
    world.played_at = asyncio.get_running_loop().time()
    await asyncio.sleep(scenario.settle)
    wrong = list(world.oracle.unsettled())
    if wrong:
        raise BreachError(f"not converged: {'; '.join(wrong)}")
    before = len(world.steps)
    await asyncio.sleep(scenario.quiet)
    loud = [step for step in world.steps[before:] if is_write(step)]
    if loud:
        raise BreachError(f"not quiet: {loud[0].who} {loud[0].what}")


def is_write(step: Step) -> bool:
    """Tell whether a step writes anything but a Lease.

    Leaders renew theirs, and who waits for an address asks for its lock again.
    """
    return step.kind is Kind.WRITE and "/leases" not in step.what
