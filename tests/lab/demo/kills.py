"""`kill -9` of the controller and of the deregistrar, every few seconds.

The two are killed in turns, each while it works: a process that is still starting has
nothing to lose. The moments wander, so that the kills hit different lines. Kills pause
while HAProxy is reloaded: that gap is measured, and would else measure the start of a
killed process.
"""

import asyncio

from collections.abc import Sequence

from tests.lab.demo.children import Supervised
from tests.lab.demo.journal import Journal


LONGEST = 6.0
SHORTEST = 4.0
SPARE = 1.3
GOLDEN = 0.618034
LOOKS = 100
LOOK_INTERVAL = 0.1


def interval(seconds: float, kills: int) -> float:
    """Seconds between two kills of one process, so that `kills` fit with room to spare."""
    return max(SHORTEST, min(LONGEST, seconds / (kills * SPARE)))


class Killer:
    """Kills processes in turns.

    Attributes:
        paused: while it is set, nobody is killed.
    """

    def __init__(
        self, victims: Sequence[Supervised], journal: Journal, every: float
    ) -> None:
        self._victims = victims
        self._journal = journal
        self._pause = every / len(victims)
        self.paused = asyncio.Event()

    async def run(self) -> None:
        """Kill until cancelled."""
        number = 0
        while True:
            victim = self._victims[number % len(self._victims)]
            await until_working(victim)
            # 0.7 to 1.3 of the pause, in a row that does not repeat
            await asyncio.sleep(self._pause * (0.7 + 0.6 * (number * GOLDEN % 1)))
            if not self.paused.is_set() and victim.kill():
                self._journal.killed(victim.name)
            number += 1


async def until_working(victim: Supervised) -> None:
    """Wait until a process is at work, but not for ever."""
    for _ in range(LOOKS):
        if victim.working:
            return
        await asyncio.sleep(LOOK_INTERVAL)
