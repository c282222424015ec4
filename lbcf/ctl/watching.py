"""`status -w`: shows the status again when something has changed.

Watches of our kinds only ring a bell; what is shown is read anew, at most once in a
second, and every 15 s in any case: of Leases, and of kinds that may be listed but not
watched, nothing else would be heard.
"""

import asyncio

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

import attrs

from lbcf.core.model.names import SYSTEM_NAMESPACE
from lbcf.ctl.reading import Reading
from lbcf.ctl.status import StatusReport
from lbcf.kube.errors import Throttled, Unavailable
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import (
    BINDS,
    DRIVERS,
    GROUPS,
    LOAD_BALANCERS,
    RECORDS,
    Resource,
)
from lbcf.kube.list_watch import Selection
from lbcf.runtime.clock import Clock
from lbcf.runtime.tasks import end_tasks


_TICK: Final = timedelta(seconds=1)
_AT_LATEST: Final = timedelta(seconds=15)
_NO_MOMENT: Final = datetime.min.replace(tzinfo=UTC)

Look = Callable[[], Awaitable[StatusReport]]
"""Reads everything, and reports on it."""


async def follow_status(
    reading: Reading,
    look: Look,
    clock: Clock,
    show: Callable[[object], None],
    *,
    ticks: bool,
) -> NoReturn:
    """Show a report now, and after each change.

    Args:
        reading: of what is asked about; tells what may be read.
        look: reads it anew.
        clock: tells the time.
        show: shows a report; what it raises ends this.
        ticks: show again each second, since times are counted.

    Raises:
        KubeError: the API server cannot be asked in the beginning.
    """
    report, changed = await look(), asyncio.Event()
    tasks = [asyncio.create_task(one.run()) for one in _bells(reading, clock, changed)]
    try:
        await _redraw(report, look, clock, show, changed, ticks=ticks)
    finally:
        await end_tasks(tasks)


def _bells(
    reading: Reading, clock: Clock, changed: asyncio.Event
) -> Iterable[Informer[Any]]:
    """Return informers that ring when an object changes that may be watched."""
    for kind, selection in _watched(reading):
        informer: Informer[Any] = Informer(
            reading.client, kind, clock, selection=selection
        )
        informer.store.on_change(lambda _old, _new: changed.set())
        yield informer


def _watched(reading: Reading) -> Iterable[tuple[Resource[Any], Selection]]:
    places: list[tuple[Resource[Any], str | None]] = [
        (kind, reading.namespace)
        for kind in (GROUPS, BINDS, RECORDS, LOAD_BALANCERS, DRIVERS)
    ]
    if reading.namespace not in {None, SYSTEM_NAMESPACE}:
        places += [(LOAD_BALANCERS, SYSTEM_NAMESPACE), (DRIVERS, SYSTEM_NAMESPACE)]
    for kind, namespace in places:
        is_hidden = reading.missing_right(kind, namespace or "") is not None
        if not is_hidden and kind.plural not in reading.unknown_kinds:
            yield kind, Selection(namespace)


async def _redraw(
    report: StatusReport,
    look: Look,
    clock: Clock,
    show: Callable[[object], None],
    changed: asyncio.Event,
    *,
    ticks: bool,
) -> NoReturn:
    """Show again whatever has changed, with times counted on where that is wanted."""
    looked, shown = clock.now(), None
    while True:
        if ticks or _essence(report) != shown:
            show(attrs.evolve(report, at=clock.now()))
        shown = _essence(report)
        await clock.sleep(_TICK)
        if changed.is_set() or clock.now() - looked >= _AT_LATEST:
            changed.clear()
            looked = clock.now()
            report = await _look_again(report, look)


async def _look_again(before: StatusReport, look: Look) -> StatusReport:
    """Look; what cannot be asked for now is said, beside what was there before."""
    try:
        return await look()
    except (Throttled, Unavailable) as error:
        gap = f"changes, for now: {' '.join(str(error).split())}"
        known = [one for one in before.unread if not one.startswith("changes, ")]
        return attrs.evolve(before, unread=(*known, gap))


def _essence(report: StatusReport) -> StatusReport:
    """Return a report without what changes by itself."""
    leaders = tuple(attrs.evolve(one, renewed=None) for one in report.leaders)
    return attrs.evolve(report, at=_NO_MOMENT, leaders=leaders)
