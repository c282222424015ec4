"""`drains -w`: follows the records, and shows what is on its way out after each change.

Before it: `reading` has listed everything once. After it: `output.screen`. On a terminal
the times are counted on each second as well; a pipe hears of changes alone.
"""

import asyncio

from contextlib import suppress
from datetime import timedelta
from typing import Final, NoReturn

import attrs

from lbcf.core.model.resources import BackendRecord
from lbcf.ctl.drains import drains_now
from lbcf.ctl.gaps import gap_for
from lbcf.ctl.output import Prints, is_looked_at, screen
from lbcf.ctl.reading import Reading
from lbcf.kube.errors import Forbidden, Gone
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import RECORDS
from lbcf.kube.list_watch import Selection
from lbcf.runtime.clock import Clock


_SECOND: Final = 1.0
_GATHER: Final = timedelta(milliseconds=100)
"""Changes within this time are shown as one."""


async def watch_drains(reading: Reading, clock: Clock, output: str) -> NoReturn:
    """Show the records on their way out until cancelled.

    Raises:
        BrokenPipeError: who reads has seen enough.
        CtlError: the library that draws tables is not installed.
    """
    with screen(output) as show:
        await follow_drains(reading, clock, show, ticks=is_looked_at(output))


async def follow_drains(
    reading: Reading, clock: Clock, show: Prints, *, ticks: bool
) -> NoReturn:
    """Follow the records.

    Args:
        reading: what was listed once; its view follows.
        clock: tells the time.
        show: shows a report; what it raises ends this.
        ticks: show again each second, since times are counted.
    """
    changed = asyncio.Event()
    changed.set()

    def record_changed(old: BackendRecord | None, new: BackendRecord | None) -> None:
        """Hear of records that begin, go on with, or end their way out."""
        if any(record is not None and record.is_deleting for record in (old, new)):
            changed.set()

    reading.view.records.on_change(record_changed)
    informer = Informer(
        reading.client,
        RECORDS,
        clock,
        store=reading.view.records,
        selection=Selection(reading.namespace),
    )
    # A group of tasks would wrap the end of a pipe, of which the shell is to know.
    following = asyncio.create_task(informer.run())
    try:
        await _Screen(reading, clock, show, ticks).follow(informer, changed)
    finally:
        following.cancel()
        await asyncio.wait([following])


@attrs.define
class _Screen:
    """What is shown.

    Attributes:
        ticks: the times are counted on each second.
        told: why changes are not heard of, as it was last shown.
    """

    reading: Reading
    clock: Clock
    show: Prints
    ticks: bool
    told: str = ""

    async def follow(
        self, informer: Informer[BackendRecord], changed: asyncio.Event
    ) -> NoReturn:
        """Show again whenever something changed, and when changes are no longer told."""
        while True:
            # wait_for of Python 3.11 loses a Ctrl-C that comes together with a change.
            with suppress(TimeoutError):
                async with asyncio.timeout(_SECOND):
                    await changed.wait()
            trouble = self._trouble(informer.last_error)
            if changed.is_set() or self.ticks or trouble != self.told:
                changed.clear()
                self.told = trouble
                report = drains_now(self.reading, self.clock.now())
                unread = (*report.unread, *filter(None, (trouble,)))
                self.show(attrs.evolve(report, unread=unread))
                await self.clock.sleep(_GATHER)

    def _trouble(self, error: Exception | None) -> str:
        """Say why changes are not heard of, empty where they are, or soon will be."""
        match error:
            case None | Gone():
                return ""
            case Forbidden():
                return str(gap_for("watch", RECORDS, self.reading.namespace))
            case _:
                return f"changes, for now: {' '.join(str(error).split())}"
