"""A client that watches a rollout: a program that looks whenever it is asked to.

It is asked again and again, soon after each answer. The rollout waits until each member
was seen in each stage, so that what the client did not see has not been.
"""

import asyncio
import contextlib
import json
import os

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from tests.webhooks.witness import Stage


PATIENCE = 60.0
"""Seconds within which a member is seen in the stage that it is in."""

PAUSE = 0.02
"""Seconds between two looks: the emulator has other work, too."""

Read = Callable[[Any], Stage]
"""Tells the stage of a member by what a client printed of it."""


@attrs.define(eq=False)
class Watch:
    """What a client saw.

    Attributes:
        seen: the stages of each member's address, in order, without repetitions.
    """

    seen: dict[str, list[Stage]] = attrs.field(factory=dict)
    _news: asyncio.Condition = attrs.field(factory=asyncio.Condition)

    async def until(self, address: str, stage: Stage) -> None:
        """Return once the member was seen so.

        Raises:
            AssertionError: it was not, in all the time that there is for it.
        """
        try:
            async with asyncio.timeout(PATIENCE), self._news:
                await self._news.wait_for(lambda: stage in self.seen.get(address, []))
        except TimeoutError:
            text = f"{address} was seen {self.seen.get(address)}, never {stage}"
            raise AssertionError(text) from None

    async def note(self, stages: Mapping[str, Stage]) -> None:
        """Take in what all members are now; what was there and is not told is gone."""
        for address in self.seen.keys() | stages.keys():
            history = self.seen.setdefault(address, [])
            stage = stages.get(address, Stage.GONE)
            if history[-1:] != [stage]:
                history.append(stage)
        async with self._news:
            self._news.notify_all()


async def _look(child: asyncio.subprocess.Process, watch: Watch, read: Read) -> None:
    """Have a program look, for ever.

    Raises:
        AssertionError: it ended.
    """
    assert child.stdin is not None
    assert child.stdout is not None
    while True:
        child.stdin.write(b"\n")
        line = await child.stdout.readline()
        assert line, "the client that watches has ended"
        told = json.loads(line)
        stages = {name.rpartition("/")[2]: read(said) for name, said in told.items()}
        await watch.note(stages)
        await asyncio.sleep(PAUSE)


@contextlib.asynccontextmanager
async def watching(
    *words: str | Path, read: Read, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Watch]:
    """Have a program watch for a block; what it complains of is pytest's to show."""
    child = await asyncio.create_subprocess_exec(
        *(str(word) for word in words),
        env=os.environ | dict(environment or {}),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    watch = Watch()
    try:
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(_look(child, watch, read))
            yield watch
            looking.cancel()
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.communicate()
