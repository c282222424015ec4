"""Tasks end with whoever began them."""

import asyncio

from lbcf.runtime.tasks import end_tasks


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
