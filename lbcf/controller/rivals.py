"""Keeps two controllers from undoing each other's writes as fast as they can.

Between `apply` and the API server. Leases make two leaders rare, not impossible, and one
of them may have an older view of a group or its pods. It writes a record's spec back, or
deletes a record that the other one creates; that one does it again, and so on, with calls
of the driver each time (sweeps counted a thousand in half a minute). Nothing is lost by
that, and it ends when both have seen the same; until then each waits longer and longer
before it repeats a write that was undone.

Deletions never wait: what is to leave leaves, and without a new record there is nothing to
delete.
"""

from collections import OrderedDict
from collections.abc import Iterable
from datetime import timedelta

import attrs
import structlog

from lbcf.core.backoff import delay_for
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import Uid
from lbcf.core.selection.desired import DesiredRecord, Identity, identity_of
from lbcf.runtime.clock import Clock


_log = structlog.get_logger(__name__)

_LONGEST = timedelta(seconds=30)


@attrs.frozen
class _Write:
    """A write of this process that somebody else may undo.

    Attributes:
        result: the generation of the spec that came of it, or the uid of the new record.
        undone: how often in a row somebody else had undone the one before.
        until: monotonic seconds before which it is not to be repeated.
    """

    result: int | Uid
    undone: int
    until: float


class Rivals:
    """Remembers one's own writes, to notice that somebody else undoes them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changes: dict[Uid, _Write] = {}
        # By group and what the record is about; the first was created longest ago.
        self._creates: OrderedDict[tuple[Uid, Identity], _Write] = OrderedDict()
        self._withdrawn: set[Uid] = set()

    def rest(self, record: BackendRecord) -> timedelta | None:
        """Say how long not to change a record's spec yet; None: change it."""
        write = self._changes.get(record.meta.uid)
        if write is None or write.result == record.meta.generation:
            return None
        return self._left(write)

    def rest_before(self, desired: DesiredRecord) -> timedelta | None:
        """Say how long not to create a record again yet; None: create it.

        A record that is to be created does not exist, or is being deleted. If this
        process created one and has not `withdrawn` it, somebody else deleted it.
        """
        write = self._creates.get(_subject(desired))
        return None if write is None else self._left(write)

    def _left(self, write: _Write) -> timedelta | None:
        """Say how long not to repeat a write that was undone."""
        rest = timedelta(seconds=write.until - self._clock.monotonic())
        return rest if rest > timedelta(0) else None

    def wrote(self, before: BackendRecord, after: BackendRecord) -> None:
        """Note an own change."""
        write = self._changes.get(before.meta.uid)
        is_undone = write is not None and write.result != before.meta.generation
        undone = write.undone + 1 if write is not None and is_undone else 0
        self._changes[after.meta.uid] = _Write(
            after.meta.generation, undone, self._until(undone)
        )

    def created(self, desired: DesiredRecord, record: BackendRecord) -> None:
        """Note an own create.

        One that is undone is repeated at once the first time: a user may have deleted
        the record.
        """
        self._forget_old()
        subject = _subject(desired)
        # Taken out, so that it moves to the end.
        write = self._creates.pop(subject, None)
        if record.meta.uid in self._withdrawn:
            return  # the watch was faster than the answer, and its backend has left
        undone = 0 if write is None else write.undone + 1
        until = self._until(undone) if undone else self._clock.monotonic()
        self._creates[subject] = _Write(record.meta.uid, undone, until)
        if undone:
            name = str(record.meta.key)
            _log.warning("record.created_again", record=name, deleted_by_others=undone)

    def _until(self, undone: int) -> float:
        """Say before which moment a write of now is not to be repeated."""
        pause = delay_for(undone, self._clock.jitter(), cap=_LONGEST)
        return self._clock.monotonic() + pause.total_seconds()

    def withdrawn(self, records: Iterable[BackendRecord]) -> None:
        """Note which records this process itself wants deleted."""
        for record in records:
            subject = (record.group_uid, identity_of(record))
            write = self._creates.get(subject)
            if write is not None and write.result == record.meta.uid:
                del self._creates[subject]
            self._withdrawn.add(record.meta.uid)

    def record_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Forget the changes of a record that has gone, or is going."""
        self._forget_old()
        if old is not None and (new is None or new.is_deleting):
            self._changes.pop(old.meta.uid, None)
        if old is not None and new is None:
            self._withdrawn.discard(old.meta.uid)

    def _forget_old(self) -> None:
        """Forget creates that nobody has undone for long; else memory would grow."""
        before = self._clock.monotonic() - _LONGEST.total_seconds()
        while self._creates and next(iter(self._creates.values())).until <= before:
            self._creates.popitem(last=False)


def _subject(desired: DesiredRecord) -> tuple[Uid, Identity]:
    """Say what a record will be about, and for which group."""
    return (desired.group.meta.uid, desired.identity)
