"""Programs are restarted when they end, killed when told, and gone at the end."""

import asyncio
import os
import random

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from tests.lab.demo.children import Supervised
from tests.lab.demo.errors import DemoError
from tests.lab.demo.ground import Ground
from tests.lab.demo.journal import Journal
from tests.lab.demo.kills import Killer
from tests.patience import PATIENCE


AT_THE_WORD = "while [ ! -e go ]; do sleep 0.1; done"
"""What a program of the shell does until there is a file of this name."""


@pytest.fixture(name="ground")
def _ground(tmp_path: Path) -> Ground:
    """A ground without a cluster: programs run on this machine."""
    return Ground(
        folder=tmp_path,
        root=tmp_path,
        environment=os.environ,
        entry=(),
        kubeconfigs={},
        nodes=(),
        audit_log=None,
        foreign=True,
    )


async def pids(log: Path, count: int) -> list[int]:
    """Wait until a program that prints its pid has been started so often."""
    await until(lambda: len(printed(log)) >= count)
    return printed(log)


async def until(happens: Callable[[], bool]) -> None:
    """Try until it happens."""
    async with asyncio.timeout(PATIENCE):
        while not happens():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)


def printed(log: Path) -> list[int]:
    """The pids that were printed so far."""
    return [int(word) for word in log.read_text().split()] if log.exists() else []


def is_running(pid: int) -> bool:
    """Tell whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Watched:
    """A supervised program, the lines told about it, and its log."""

    def __init__(self, ground: Ground, argv: Sequence[str]) -> None:
        self.told: list[str] = []
        self.program = Supervised(ground, "p", argv)
        self.log = ground.folder / "p.log"
        self.task = asyncio.create_task(self.program.run(self.told.append))

    async def end(self) -> None:
        """Stop supervising."""
        self.task.cancel()
        await asyncio.wait([self.task])


@pytest.fixture(name="sleeper")
async def _sleeper(ground: Ground) -> AsyncIterator[Watched]:
    """A program that prints its pid and stays."""
    watched = Watched(ground, ["sh", "-c", "echo $$; exec sleep 60"])
    yield watched
    await watched.end()


async def test_restarts_what_it_killed(sleeper: Watched) -> None:
    """A kill is counted as a kill, and the program comes back."""
    (first,) = await pids(sleeper.log, 1)
    await until(sleeper.program.kill)
    second = (await pids(sleeper.log, 2))[1]

    assert (1, 0, []) == (sleeper.program.kills, sleeper.program.crashes, sleeper.told)
    assert (False, True) == (is_running(first), is_running(second))


async def test_is_working_once_its_log_says_so(ground: Ground) -> None:
    """What an earlier life wrote does not count, nor does a dead one."""
    script = f"""echo starts; {AT_THE_WORD}; echo '"work.started"'; exec sleep 60"""
    (ground.folder / "p.log").write_text('"work.started"')
    watched = Watched(ground, ["sh", "-c", script])
    await until(lambda: "starts" in watched.log.read_text())
    before = watched.program.working
    (ground.folder / "go").touch()
    await until(lambda: watched.program.working)
    await watched.end()

    assert (False, False) == (before, watched.program.working)


async def test_held_program_stays_down(sleeper: Watched) -> None:
    """It is killed, and comes back when it is released, not before."""
    (first,) = await pids(sleeper.log, 1)
    sleeper.program.hold()
    await until(lambda: not is_running(first))
    await asyncio.sleep(0.5)
    before = printed(sleeper.log)
    sleeper.program.release()
    await pids(sleeper.log, 2)

    assert ([first], []) == (before, sleeper.told)


async def test_is_not_killed_before_it_works(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long its start takes: killed in it each time, it would never come up."""
    monkeypatch.setattr("tests.lab.demo.kills.LOOK_INTERVAL", 0.001)
    script = f"echo $$; {AT_THE_WORD}; echo work.started; exec sleep 60"
    watched = Watched(ground, ["sh", "-c", script])
    await pids(watched.log, 1)
    chance = random.Random(1)  # noqa: S311 - any will do
    journal = Journal()
    killing = asyncio.create_task(
        Killer([watched.program], journal, 0.01, chance).run()
    )
    await asyncio.sleep(1)
    before = len(journal.kills)
    (ground.folder / "go").touch()
    await until(lambda: bool(journal.kills))
    killing.cancel()
    await watched.end()

    assert 0 == before


async def test_leaves_nothing_running(sleeper: Watched) -> None:
    """The program ends with its supervision."""
    (pid,) = await pids(sleeper.log, 1)
    await sleeper.end()

    assert not is_running(pid)
    assert not sleeper.program.kill()


async def test_a_crash_is_told(ground: Ground) -> None:
    """An end that nobody asked for is told and is no kill."""
    watched = Watched(ground, ["sh", "-c", "echo $$; exit 3"])
    await pids(watched.log, 2)
    await watched.end()

    assert "p ended by itself with code 3" == watched.told[0]
    assert 0 == watched.program.kills


async def test_gives_up_on_what_keeps_ending(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that ends again and again stops the demo, with the end of its log."""
    monkeypatch.setattr("tests.lab.demo.children.RESTART_DELAY", 0.0)
    watched = Watched(ground, ["sh", "-c", "echo no such flag; exit 2"])

    with pytest.raises(DemoError, match="no such flag"):
        await asyncio.wait_for(watched.task, PATIENCE)
