"""`kill -9` of the controller, the deregistrar or the driver, about every second.

Who it is, is chance: a fixed order would soon kill the controller each time when the
driver is down. Mostly one is killed while all work, so that something gets done between
two kills on a busy machine, too; now and then also while another one is still starting.
"""

import asyncio
import random

from collections.abc import Sequence

from tests.lab.demo.children import Supervised
from tests.lab.demo.journal import Journal


DRIVER = "driver"
HASTE = 0.15
"""The part of the kills that do not wait until all work."""


class Killer:
    """Kills.

    Args:
        victims: whom.
        driver: where the driver listens, HOST:PORT.
        journal: told of each kill.
        pause: seconds between two kills, about.
        chance: chooses whom and when.

    Attributes:
        paused: while it is set, nobody is killed.
    """

    def __init__(
        self,
        victims: Sequence[Supervised],
        driver: str,
        journal: Journal,
        *,
        pause: float,
        chance: random.Random,
    ) -> None:
        self.paused = False
        self._victims = victims
        self._driver = driver
        self._journal = journal
        self._pause = pause
        self._chance = chance

    async def run(self) -> None:
        """Kill until cancelled."""
        while True:
            await asyncio.sleep(self._pause * self._chance.uniform(0.5, 1.5))
            working = [v for v in self._victims if await self._works(v)]
            patient = self._chance.random() >= HASTE
            if (
                self.paused
                or not working
                or (patient and len(working) < len(self._victims))
            ):
                continue
            victim = self._chance.choice(working)
            if victim.kill():
                self._journal.killed(victim.name)

    async def _works(self, victim: Supervised) -> bool:
        """Say whether a process does what it is for."""
        if victim.name != DRIVER:
            return victim.working
        host, port = self._driver.split(":")
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            return False
        writer.close()
        return True
