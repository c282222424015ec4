"""Failpoints: which effect, what becomes of it, and nothing at all when unset."""

import asyncio
import os
import subprocess
import sys

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from lbcf.runtime import failpoints
from lbcf.runtime.failpoints import Armed, Failpoint, Mode


ROOT = Path(__file__).parents[3]


class DiedError(Exception):
    """Stands for the end of the process."""


class LostError(Exception):
    """What a caller gets whose answer never came."""


def die(status: int) -> None:
    """End, as far as a test can."""
    raise DiedError(status)


@attrs.define
class World:
    """Counts the effects that took place."""

    effects: int = 0

    async def change(self) -> int:
        """Take effect, and answer the how manyth it was."""
        self.effects += 1
        return self.effects

    async def refuse(self) -> int:
        """Take no effect and say so."""
        raise PermissionError


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """Leave no failpoint behind."""
    yield
    failpoints.arm(None)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("1:crash-before", Failpoint(1, Mode.CRASH_BEFORE)),
        ("27:crash-after", Failpoint(27, Mode.CRASH_AFTER)),
        ("3:hang-before:2.5", Failpoint(3, Mode.HANG_BEFORE, 2.5)),
        ("4:lose-answer", Failpoint(4, Mode.LOSE_ANSWER)),
    ],
)
def test_variable_names_effect_and_mode(text: str, parsed: Failpoint) -> None:
    """Each mode is read as the docstring spells it."""
    assert parsed == Failpoint.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        *("1", "x:crash-after", "0:crash-after", "-1:crash-after", "1:explode"),
        *("1:hang-before", "1:hang-before:", "1:hang-before:inf", "1:hang-before:-1"),
        *("1:crash-after:3", "1:crash-after:0"),
    ],
)
def test_nonsense_is_refused_with_the_form(text: str) -> None:
    """What cannot be read is told together with what can."""
    with pytest.raises(ValueError, match=r"must be N:MODE.*hang-before:SECONDS"):
        Failpoint.parse(text)


def test_unset_variable_hands_back_the_call_itself() -> None:
    """Without a failpoint nothing is wrapped."""
    call = World().change()

    assert call is failpoints.through(call, LostError)
    call.close()


async def test_only_the_chosen_effect_is_hit() -> None:
    """Effects before and after the chosen one are as if there were no failpoint."""
    world = World()
    failpoints.arm("2:lose-answer")

    assert 1 == await failpoints.through(world.change(), LostError)
    with pytest.raises(LostError):
        await failpoints.through(world.change(), LostError)
    assert 3 == await failpoints.through(world.change(), LostError)


async def test_crash_before_takes_no_effect() -> None:
    """The process ends with nothing sent."""
    world = World()
    armed = Armed(Failpoint(1, Mode.CRASH_BEFORE), die)

    with pytest.raises(DiedError, match="86"):
        await armed.through(world.change(), LostError)
    assert 0 == world.effects


async def test_crash_after_takes_effect() -> None:
    """The process ends once it has been answered, and the answer is used by nobody."""
    world = World()
    armed = Armed(Failpoint(1, Mode.CRASH_AFTER), die)

    with pytest.raises(DiedError, match="86"):
        await armed.through(world.change(), LostError)
    assert 1 == world.effects


@pytest.mark.parametrize("mode", [Mode.CRASH_AFTER, Mode.LOSE_ANSWER])
async def test_refusal_is_an_answer_too(mode: Mode) -> None:
    """What was refused is lost, or crashed after, like any other answer."""
    armed = Armed(Failpoint(1, mode), die)

    with pytest.raises((DiedError, LostError)):
        await armed.through(World().refuse(), LostError)


async def test_hang_makes_the_call_later() -> None:
    """The effect waits and then takes place, with its answer."""
    world = World()
    armed = Armed(Failpoint(1, Mode.HANG_BEFORE, 0.05))
    hanging = asyncio.create_task(armed.through(world.change(), LostError))

    await asyncio.sleep(0)
    assert 0 == world.effects
    assert 1 == await hanging


async def test_hang_that_is_cancelled_never_takes_effect() -> None:
    """Who hangs while the process is told to end sends nothing afterwards."""
    world = World()
    armed = Armed(Failpoint(1, Mode.HANG_BEFORE, 60))
    hanging = asyncio.create_task(armed.through(world.change(), LostError))

    await asyncio.sleep(0)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    assert 0 == world.effects


def test_process_refuses_nonsense_in_one_line(tmp_path: Path) -> None:
    """A process with a failpoint that is none does not start, and says why."""
    ended = subprocess.run(
        [sys.executable, "-m", "lbcf", "controller", "--kubeconfig", __file__],
        cwd=ROOT,
        env={**os.environ, failpoints.VARIABLE: "soon", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert 2 == ended.returncode
    assert "LBCF_FAILPOINT=soon: must be N:MODE" in ended.stderr
