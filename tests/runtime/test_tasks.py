"""Tasks end with whoever began them."""

import asyncio

import pytest

from lbcf.runtime.tasks import CutError, cut_is_error, end_tasks


async def test_tasks_have_ended_however_they_take_it() -> None:
    """One that clears up, one that breaks down in that, and one that is through already."""
    told: list[str] = []

    async def clears_up(*, breaks: bool) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            told.append("ended")
            if breaks:
                raise ValueError("a defect")

    going = [asyncio.create_task(clears_up(breaks=one)) for one in (False, True)]
    through = asyncio.create_task(asyncio.sleep(0))
    await through
    await asyncio.sleep(0)

    await end_tasks(one for one in (*going, through))

    assert ["ended"] * 2 == told
    assert all(one.done() for one in going)


async def test_cut_from_below_is_an_error() -> None:
    """As where a library cancels: it must not look like an end that was asked for."""
    below = asyncio.get_running_loop().create_future()
    below.cancel()

    with (
        pytest.raises(CutError, match="the reading was cut"),
        cut_is_error("the reading"),
    ):
        await below


async def test_end_that_was_asked_for_is_none() -> None:
    """A task that is told to end ends; so does one whose time is over."""

    async def waits() -> None:
        with cut_is_error("the reading"):
            await asyncio.Event().wait()

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await waits()
