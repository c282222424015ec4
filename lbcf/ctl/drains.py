"""`drains`: the records on their way out, the ones that must end first in front.

Before it: `reading`, or a watch of records. After it: `tables`, once or after each change.
"""

from datetime import UTC, datetime

import attrs

from lbcf.core.model.resources import BackendRecord
from lbcf.ctl.reading import Reading
from lbcf.ctl.records import backend_of, next_attempt, stage_of, waits_for
from lbcf.ctl.spans import since, when


@attrs.frozen
class Drain:
    """A record on its way out.

    Attributes:
        since: for how long its end has been asked for, in words.
        connections: as its driver last said, None where it does not say.
        deadline: when the drain ends at the latest, None where it has not begun, or
            there is none.
        left: the same in words.
        next: when its driver is asked again, in words.
    """

    namespace: str
    record: str
    load_balancer: str
    backend: str
    address: str
    since: str
    connections: int | None
    deadline: datetime | None
    left: str
    stage: str
    waits_for: str
    next: str


@attrs.frozen
class Drains:
    """All of them.

    Attributes:
        namespace: what was asked about, empty for all of them.
        unread: what may not be read, in words.
    """

    namespace: str
    drains: tuple[Drain, ...]
    unread: tuple[str, ...] = ()


_NEVER = datetime.max.replace(tzinfo=UTC)


def drains_now(reading: Reading, now: datetime) -> Drains:
    """Find the records on their way out."""
    found = [record for record in reading.view.records.values() if record.is_deleting]
    found.sort(key=lambda record: (_deadline(record) or _NEVER, record.meta.key))
    drains = tuple(_drain(record, reading, now) for record in found)
    return Drains(reading.namespace or "", drains, reading.unread())


def _deadline(record: BackendRecord) -> datetime | None:
    """Say when its drain ends at the latest."""
    return None if record.status.drain is None else record.status.drain.deadline


def _drain(record: BackendRecord, reading: Reading, now: datetime) -> Drain:
    """Say one of them in a line."""
    drain, deadline = record.status.drain, _deadline(record)
    return Drain(
        namespace=record.meta.key.namespace,
        record=record.meta.key.name,
        load_balancer=record.spec.load_balancer,
        backend=backend_of(record.spec.backend),
        address=record.address,
        since=since(record.meta.deleting_since, now),
        connections=None if drain is None else drain.connections,
        deadline=deadline,
        left="" if deadline is None else when(deadline, now),
        stage=stage_of(record),
        waits_for=waits_for(record, reading, now),
        next=next_attempt(record, now),
    )
