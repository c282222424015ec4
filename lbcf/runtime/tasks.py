"""What is done with asyncio's tasks by whoever began them."""

import asyncio
import contextlib

from collections.abc import Iterable, Iterator
from typing import Any

from lbcf.core.errors import LbcfError


class CutError(LbcfError):
    """Something was cancelled from below, as by a library; nobody had asked for its end."""


async def end_tasks(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    """Cancel tasks, and wait until they have ended, however they do."""
    ending = tuple(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


def is_ending() -> bool:
    """Return whether this task was told to end; False: at most something below it was."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


@contextlib.contextmanager
def cut_is_error(what: str) -> Iterator[None]:
    """Have the block end with an error where something below it was cancelled.

    Passed on, that would look like an end that was asked for: the task ends with it, and
    neither a TaskGroup nor anybody else would tell that its work is not done any more.

    Args:
        what: the block is, for the error's text.

    Raises:
        CutError: this task itself was not told to end.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        if is_ending():
            raise
        raise CutError(f"{what} was cut by something below, a defect") from error


def note_error(task: "asyncio.Task[Any]") -> None:
    """Take a task's error as noticed, though nobody may wait for it any more."""
    if not task.cancelled():
        task.exception()
