"""Signals of the operating system -> one request to end, and an event that a loop waits for.

The first SIGTERM or SIGINT asks for an orderly end; a second one ends the process
where it stands. The records in the cluster carry on from any line.
"""

import asyncio
import contextlib
import os
import signal

from collections.abc import Coroutine, Iterable, Iterator, Sequence
from datetime import timedelta
from types import FrameType
from typing import Any, Final, Protocol

import attrs
import structlog

from lbcf.runtime.tasks import CutError


HURRIED_EXIT = 130
"""Exit status after a second signal; what shells give for an interrupted program."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_log = structlog.get_logger(__name__)


@attrs.define
class StopRequest:
    """Whether somebody has asked the process to end.

    Attributes:
        first: the first signal; None: nobody has.
    """

    first: signal.Signals | None = None

    @property
    def is_made(self) -> bool:
        """Return whether a signal has come."""
        return self.first is not None

    def note(self, number: int) -> None:
        """Take in a signal; the first stays."""
        self.first = self.first or signal.Signals(number)


@contextlib.contextmanager
def note_signals() -> Iterator[StopRequest]:
    """Note the first signal, and end the process at a second one; restore the handlers on leaving.

    Around all loops of a process, it also notes what comes before, between and behind them: what a
    handler raised there would be ignored where it happens to run in a finalizer, and without one
    the kernel drops what is sent to pid 1 of a container. Call it in the main thread.
    """
    request = StopRequest()

    def receive(number: int, _frame: FrameType | None) -> None:
        if request.is_made:
            os._exit(HURRIED_EXIT)
        request.note(number)

    before = {number: signal.signal(number, receive) for number in _SIGNALS}
    try:
        yield request
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextlib.contextmanager
def stop_on_signals(request: StopRequest) -> Iterator[asyncio.Event]:
    """Return an event that the loop sets once the request is made, or at once if it is already.

    Args:
        request: of `note_signals`, which goes on to note.

    Call it in the main thread, inside a running event loop.
    """
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def ask(number: int) -> None:
        asked.set()  # first: to log may fail, where nobody reads it any more
        request.note(number)  # it came before the plain handler was there again
        _log.info("shutdown.requested", signal=signal.Signals(number).name)

    noting = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in noting.items():
        # The loop's own handler wakes it through a socket. A plain one alone is lost
        # when the signal comes just before the loop sleeps, or to another thread:
        # Python runs it once the loop wakes, and nothing wakes it.
        loop.add_signal_handler(number, ask, number)
        # The plain one counts: it also runs while a callback blocks the loop, which
        # is when somebody sends the second signal.
        signal.signal(number, handler)
    if request.first is not None:
        ask(request.first)
    try:
        yield asked
    finally:
        for number, handler in noting.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


class RoundCutError(CutError):
    """A round ended because something below it was cancelled, which nobody had asked for."""


class Stoppable(Protocol):
    """What works in tasks of its own between two calls, such as `Workers`."""

    def start(self) -> None:
        """Begin."""

    async def stop(self, grace: timedelta) -> object:
        """Begin nothing more; cut what is not finished after the grace."""


async def work_until_asked(
    stop: asyncio.Event,
    *,
    rounds: Iterable[Coroutine[Any, Any, object]] = (),
    workers: Sequence[Stoppable],
    grace: timedelta,
) -> None:
    """Have rounds and workers go on until the process is to end, and then end.

    None of their tasks is alive afterwards, whatever ends it: who is cancelled has lost its
    Lease, and others may begin to work. Then nothing is given time to finish.

    Args:
        stop: set when it is to end.
        rounds: they may end before, when they are through.
        workers: finish what is under way.
        grace: how long that may take.

    Raises:
        Exception: as `until_asked`.
    """
    running = [asyncio.create_task(one) for one in rounds]
    left = timedelta(0)
    try:
        for one in workers:
            one.start()
        await until_asked(stop, running)
        left = grace
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(
            *running, *(one.stop(left) for one in workers), return_exceptions=True
        )


async def until_asked(
    stop: asyncio.Event, rounds: Iterable["asyncio.Task[Any]"]
) -> None:
    """Wait until the process is to end, beside rounds that go on until then.

    Args:
        stop: set when it is to end.
        rounds: they may end before, when they are through.

    Raises:
        RoundCutError: a library cancelled something in a round.
        Exception: what ended a round, a defect. Nobody would do its work any more, and
            nothing would tell, until the process begins anew.
    """
    asked = asyncio.create_task(stop.wait())
    pending: set[asyncio.Task[Any]] = {asked, *rounds}
    try:
        while not asked.done():
            done, pending = await asyncio.wait(
                pending, return_when=asyncio.FIRST_COMPLETED
            )
            for one in done:
                if one.cancelled():
                    # Passed on, it would look as if we had been told to end.
                    name = getattr(one.get_coro(), "__qualname__", one.get_name())
                    raise RoundCutError(
                        f"{name} was cancelled by something below it, which is a defect"
                    )
                one.result()
    finally:
        asked.cancel()
