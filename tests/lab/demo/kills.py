"""`kill -9` of the controller, the deregistrars and the driver, every few seconds.

Each is killed in its turn, while it works: a process that is still starting has
nothing to lose. Moments and order
are drawn, so that the kills hit different lines. Kills pause
while HAProxy is reloaded: that gap is measured, and would else measure the start of a
killed process.
"""

import asyncio
import random
import time

from collections.abc import Sequence

from tests.lab.demo.children import Supervised
from tests.lab.demo.journal import Journal


LONGEST = 6.0
SHORTEST = 4.0
SPARE = 1.3
LOOK_INTERVAL = 0.1


def interval(seconds: float, kills: int) -> float:
    """Seconds between two kills of one process, so that `kills` fit with room to spare."""
    return max(SHORTEST, min(LONGEST, seconds / (kills * SPARE)))


class Killer:
    """Kills processes in turns.

    Args:
        victims: whom, in a drawn order each time; who is to be killed more often is there
            more than once.
        journal: told of each kill.
        every: seconds for all of them, about.
        chance: draws order and moments.

    Attributes:
        paused: while it is set, nobody is killed.
    """

    def __init__(
        self,
        victims: Sequence[Supervised],
        journal: Journal,
        every: float,
        chance: random.Random,
    ) -> None:
        self._victims = victims
        self._journal = journal
        self._pause = every / len(victims)
        self._chance = chance
        self.paused = asyncio.Event()

    async def run(self) -> None:
        """Kill until cancelled."""
        while True:
            for victim in self._chance.sample(self._victims, len(self._victims)):
                began = time.monotonic()
                await until_working(victim)
                # On a machine on which starts take long the work does, too.
                pause = max(self._pause, time.monotonic() - began)
                await asyncio.sleep(pause * self._chance.uniform(0.7, 1.3))
                if not self.paused.is_set() and victim.kill():
                    self._journal.killed(victim.name)


async def until_working(victim: Supervised) -> None:
    """Wait until a process is at work, or kept from it.

    However long that takes: on a busy machine, where a start takes ten seconds, a limit below
    that would keep the process down for good, which is another thing than kills.
    """
    while True:
        if victim.working or victim.held:
            return
        await asyncio.sleep(LOOK_INTERVAL)
