"""`drains`: the records that are being deleted, earliest drain deadline first.

With `-w` it follows them: on a terminal redrawn each second, since it shows remaining
times; a pipe gets a report for each change alone.
"""

import asyncio

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

import attrs

from lbcf.core.model.resources import BackendRecord, backend_name
from lbcf.ctl.errors import missing_right
from lbcf.ctl.flags import Kind
from lbcf.ctl.reading import Reading
from lbcf.ctl.records import attempt_of, stage_of, waits_for
from lbcf.ctl.report import object_ref
from lbcf.kube.errors import Expired, Forbidden
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import RECORDS
from lbcf.kube.list_watch import Selection
from lbcf.runtime.clock import Clock


_NO_DEADLINE: Final = datetime.max.replace(tzinfo=UTC)
_TICK: Final = 1.0
_BATCH: Final = timedelta(milliseconds=100)
"""Changes within this time are shown as one."""


@attrs.frozen
class DrainRow:
    """A record that is being deleted.

    Attributes:
        since: when its end was asked for.
        connections: as its driver last said, None where it does not say.
        deadline: when the drain ends at the latest, None where it has not begun, or
            there is none.
        next: when its driver was to be asked again, as it was written once.
    """

    namespace: str
    record: str
    load_balancer: str
    backend: str
    address: str
    since: datetime | None
    connections: int | None
    deadline: datetime | None
    stage: str
    waits_for: str
    next: datetime | None


@attrs.frozen
class DrainsReport:
    """All of them.

    Attributes:
        at: the moment of the question.
        namespace: what was asked about, empty for all of them.
        unread: what could not be read, in words.
    """

    at: datetime
    namespace: str
    drains: tuple[DrainRow, ...]
    unread: tuple[str, ...] = ()


def drains_report(reading: Reading, now: datetime) -> DrainsReport:
    """Report the records that are being deleted."""
    found = [record for record in reading.view.records.values() if record.is_deleting]
    found.sort(key=lambda one: (_deadline(one) or _NO_DEADLINE, one.meta.key))
    drains = tuple(row_of(record, reading, now) for record in found)
    unread = (*reading.unread(), *_unreadable(reading))
    return DrainsReport(now, reading.namespace or "", drains, unread)


def _unreadable(reading: Reading) -> Iterator[str]:
    """Yield the records that cannot be understood: they may be on their way out."""
    for key, error in sorted(reading.view.records.unreadable.items()):
        name = object_ref(Kind.RECORD, key)
        yield f"{name} in namespace {key.namespace} cannot be understood: {error}"


def _deadline(record: BackendRecord) -> datetime | None:
    return None if record.status.drain is None else record.status.drain.deadline


def row_of(record: BackendRecord, reading: Reading, now: datetime) -> DrainRow:
    """Return a record as it is shown: how far it is, and whom it waits for."""
    drain, deadline = record.status.drain, _deadline(record)
    return DrainRow(
        namespace=record.meta.key.namespace,
        record=record.meta.key.name,
        load_balancer=record.spec.load_balancer,
        backend=backend_name(record.spec.backend),
        address=record.address,
        since=record.meta.deleting_since,
        connections=None if drain is None else drain.connections,
        deadline=deadline,
        stage=stage_of(record),
        waits_for=waits_for(record, reading, now),
        next=attempt_of(record),
    )


async def follow_drains(
    reading: Reading, clock: Clock, show: Callable[[object], None], *, ticks: bool
) -> NoReturn:
    """Show a report after each change of a record that is being deleted.

    Args:
        reading: what was listed once; its view follows.
        clock: tells the time.
        show: shows a report; what it raises ends this.
        ticks: show again each second, since times are counted.
    """
    changed = asyncio.Event()
    changed.set()

    def record_changed(old: BackendRecord | None, new: BackendRecord | None) -> None:
        if any(record is not None and record.is_deleting for record in (old, new)):
            changed.set()

    reading.view.records.on_change(record_changed)
    reading.view.records.on_unreadable(lambda _key: changed.set())
    informer = Informer(
        reading.client,
        RECORDS,
        clock,
        store=reading.view.records,
        selection=Selection(reading.namespace),
    )
    # A TaskGroup would wrap the BrokenPipeError that the command line looks for.
    following = asyncio.create_task(informer.run())
    try:
        await _redraw(reading, clock, show, informer, changed, ticks=ticks)
    finally:
        following.cancel()
        await asyncio.wait([following])


async def _redraw(
    reading: Reading,
    clock: Clock,
    show: Callable[[object], None],
    informer: Informer[BackendRecord],
    changed: asyncio.Event,
    *,
    ticks: bool,
) -> NoReturn:
    """Show again after each change, and when the watch fails or recovers."""
    shown_error = ""
    while True:
        # wait_for of Python 3.11 loses a Ctrl-C that comes together with a change.
        with suppress(TimeoutError):
            async with asyncio.timeout(_TICK):
                await changed.wait()
        error = _watch_error(informer.last_error, reading.namespace)
        if changed.is_set() or ticks or error != shown_error:
            changed.clear()
            shown_error = error
            report = drains_report(reading, clock.now())
            unread = (*report.unread, *filter(None, (error,)))
            show(attrs.evolve(report, unread=unread))
            await clock.sleep(_BATCH)


def _watch_error(error: Exception | None, namespace: str | None) -> str:
    """Return why changes are not heard of, empty where they are, or soon will be."""
    match error:
        case None | Expired():  # the informer then lists anew at once
            return ""
        case Forbidden():
            return str(missing_right("watch", RECORDS, namespace))
        case _:
            return f"changes, for now: {' '.join(str(error).split())}"
