"""Who asks for the same at the same time shares an answer that is new enough."""

import asyncio

from datetime import timedelta

import pytest

from lbcf.runtime.shared_call import SharedCall
from tests.fakes.loop import run_virtual


TAKES = 1.0


class Asked:
    """Answers with the moment at which it was asked, after a while; or fails."""

    def __init__(self) -> None:
        self.began: list[float] = []
        self.hangs = self.fails = False

    async def __call__(self) -> float:
        """Answer."""
        moment = asyncio.get_running_loop().time()
        self.began.append(moment)
        await asyncio.sleep(3600.0 if self.hangs else TAKES)
        if self.fails:
            raise ConnectionError("no answer")
        return moment


async def ask(shared: SharedCall[float], moment: float) -> float:
    """Ask at a moment."""
    await asyncio.sleep(moment)
    return await shared.since_now()


def test_answer_is_to_a_call_that_began_after_the_question() -> None:
    """Who asks while one is under way waits for the next, with all who ask until then."""
    asked, moments = Asked(), [0.0, 0.2, 0.9, 1.1, 2.5, 3.5]
    shared = SharedCall(asked)

    async def play() -> list[float]:
        return await asyncio.gather(*(ask(shared, moment) for moment in moments))

    assert [0.0, 1.0, 1.0, 2.0, 3.0, 4.0] == run_virtual(play())
    assert [0.0, 1.0, 2.0, 3.0, 4.0] == asked.began


def test_call_without_an_answer_holds_nobody_up_for_longer_than_patience() -> None:
    """The next one begins beside it."""
    asked = Asked()
    shared = SharedCall(asked, timedelta(seconds=2))

    async def play() -> float:
        asked.hangs = True
        first = asyncio.create_task(shared.since_now())
        await asyncio.sleep(0.5)
        asked.hangs = False
        answer = await shared.since_now()
        first.cancel()
        return answer

    assert run_virtual(play()) == 2.5


def test_error_is_everybodys_and_the_next_call_is_another_one() -> None:
    """Nobody takes an old error for an answer."""
    asked = Asked()
    shared = SharedCall(asked)

    async def play() -> float:
        asked.fails = True
        both = [shared.since_now(), shared.since_now()]
        found = await asyncio.gather(*both, return_exceptions=True)
        assert [ConnectionError, ConnectionError] == [type(one) for one in found]
        asked.fails = False
        return await shared.since_now()

    assert run_virtual(play()) == TAKES
    assert [0.0, TAKES] == asked.began


def test_one_who_gives_up_takes_the_answer_from_nobody() -> None:
    """The call goes on for the others."""
    asked = Asked()
    shared = SharedCall(asked)

    async def play() -> float:
        first = asyncio.create_task(shared.since_now())
        second = asyncio.create_task(shared.since_now())
        await asyncio.sleep(0.1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await second

    assert run_virtual(play()) == 0.0
