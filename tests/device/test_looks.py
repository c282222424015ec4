"""Looks that are told again: for how long, and after what not."""

import asyncio

from datetime import timedelta

import pytest

from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from webhooks.device.errors import Busy
from webhooks.device.looks import Looks


PERIOD = timedelta(seconds=10)


class Counter:
    """Something to look at, which takes a second.

    Attributes:
        looks: how many times it was looked at.
        is_down: a member is.
    """

    looks = 0
    is_down = False

    async def look(self) -> int:
        """Count a look."""
        self.looks += 1
        await asyncio.sleep(1)
        return self.looks


async def lately(looks: Looks[int], clock: VirtualClock, seen: Counter) -> int:
    """Return the number of the look that is told."""
    return await looks.lately(
        seen.look, clock, PERIOD, has_down=lambda _look: seen.is_down
    )


def test_they_are_told_for_a_while() -> None:
    """From the beginning of the look on; all who ask meanwhile share it."""

    async def play() -> list[int]:
        looks, clock, seen = Looks[int](), VirtualClock(), Counter()
        asked = [lately(looks, clock, seen) for _ in range(5)]
        told = list(await asyncio.gather(*asked))
        for pause in (8.9, 0.1):
            await asyncio.sleep(pause)
            told.append(await lately(looks, clock, seen))
        return told

    assert [1, 1, 1, 1, 1, 1, 2] == run_virtual(play())


def test_changes_are_looked_at() -> None:
    """A look that a change came into is not told again."""

    async def play() -> list[int]:
        looks, clock, seen = Looks[int](), VirtualClock(), Counter()
        first = asyncio.create_task(lately(looks, clock, seen))
        await asyncio.sleep(0.5)
        looks.note_change()
        told = [await first, await lately(looks, clock, seen)]
        looks.note_change()
        return [*told, await lately(looks, clock, seen)]

    assert [1, 2, 3] == run_virtual(play())


def test_members_that_wait_for_their_first_checks_are_looked_at() -> None:
    """Each time, for half a minute after a change; then they are just down."""

    async def play() -> list[int]:
        looks, clock, seen = Looks[int](), VirtualClock(), Counter()
        seen.is_down = True
        told = [await lately(looks, clock, seen), await lately(looks, clock, seen)]
        looks.note_change()
        told += [await lately(looks, clock, seen) for _ in range(32)]
        seen.is_down = False
        looks.note_change()
        told += [await lately(looks, clock, seen), await lately(looks, clock, seen)]
        return told

    assert [1, 1, *range(2, 32), 32, 32, 33, 33] == run_virtual(play())


def test_a_change_before_the_first_look_counts_as_any() -> None:
    """Members that were put in before anybody listed them are looked at each time."""

    async def play() -> list[int]:
        looks, clock, seen = Looks[int](), VirtualClock(), Counter()
        seen.is_down = True
        looks.note_change()
        return [await lately(looks, clock, seen) for _ in range(3)]

    assert [1, 2, 3] == run_virtual(play())


def test_failures_are_not_kept() -> None:
    """Who asks next looks anew."""

    async def play() -> int:
        looks, clock, seen = Looks[int](), VirtualClock(), Counter()

        async def fail() -> int:
            raise Busy("not now")

        with pytest.raises(Busy):
            await looks.lately(fail, clock, PERIOD, has_down=bool)
        return await lately(looks, clock, seen)

    assert 1 == run_virtual(play())
