"""`drains -w`: follows the records, and shows what is on its way out after each change.

Before it: `reading` has listed everything once. After it: `output.screen`. On a terminal
the times are counted on each second as well; a pipe hears of changes alone.
"""

import asyncio

from contextlib import suppress
from datetime import timedelta
from typing import Final, NoReturn

from lbcf.core.resources import BackendRecord
from lbcf.ctl.drains import drains_now
from lbcf.ctl.output import Prints, is_looked_at, screen
from lbcf.ctl.reading import Reading
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import RECORDS
from lbcf.kube.pages import Selection
from lbcf.runtime.clock import Clock


_SECOND: Final = 1.0
_GATHER: Final = timedelta(milliseconds=100)
"""Changes within this time are shown as one."""


async def watch_drains(reading: Reading, clock: Clock, output: str) -> NoReturn:
    """Show the records on their way out until cancelled.

    Raises:
        KubeError: the API server cannot be asked.
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
    with screen(output) as show:
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            second = _SECOND if is_looked_at(output) else None
            await _show(reading, clock, changed, show, second)


async def _show(
    reading: Reading,
    clock: Clock,
    changed: asyncio.Event,
    show: Prints,
    second: float | None,
) -> NoReturn:
    """Show again whenever something changed, and after a second where one is given."""
    while True:
        # wait_for of Python 3.11 loses a Ctrl-C that comes together with a change.
        with suppress(TimeoutError):
            async with asyncio.timeout(second):
                await changed.wait()
        changed.clear()
        show(drains_now(reading, clock.now()))
        await clock.sleep(_GATHER)
