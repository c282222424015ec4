"""The unsteady driver fails in the way that is drawn, at a real socket."""

import asyncio
import random

import pytest

from tests.lab.faults.history import Journal
from tests.lab.faults.witness import served
from tests.lab.soak.unsteady import UnsteadyDriver, losing
from tests.sdk.services import call


HOST = "10.0.0.1:80"
LOST = 3.5
"""Drawn, of the four ways to fail: the last one."""


class _Drawn(random.Random):
    """Draws the same way to fail each time."""

    def random(self) -> float:
        return LOST / 4


async def test_call_whose_answer_is_lost_is_over() -> None:
    """It has taken effect, nobody hears of it, and the next call need not wait for it."""
    journal = Journal()
    driver = UnsteadyDriver(journal, _Drawn(), 1 / 4)
    async with served(driver, [losing]) as url:
        lost = asyncio.create_task(
            call(url, "ensureBackend", recordID="u1", lbInfo={}, backendAddr=HOST)
        )
        while not journal.effects:  # noqa: ASYNC110 - the journal has no event
            await asyncio.sleep(0.01)
        driver.part = 0.0
        answer = await call(
            url, "ensureBackend", recordID="u1", lbInfo={}, backendAddr=HOST
        )

        assert "Succ" == answer["status"]
        assert not lost.done()
        assert ["lost", "Succ"] == [one.outcome for one in journal.calls]
        lost.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lost
