"""Keeps two controllers from rewriting a record in turns, as fast as they can.

Between `apply` and the API server. Leases make two leaders rare, not impossible, and one
of them may have an older view of the group: it undoes what the other has just done, and
the other way round, with an ensure each time (a sweep counted a thousand in half a
minute). Nothing is lost by that, and it ends when both have seen the same; until then
each waits longer and longer before it undoes the other's change again.
"""

from datetime import timedelta

import attrs

from lbcf.core.backoff import delay_for
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import Uid
from lbcf.runtime.clock import Clock


_LONGEST = timedelta(seconds=30)


@attrs.frozen
class _Word:
    """What this process last wrote into the spec of a record.

    Attributes:
        generation: that came of it.
        undone: how often in a row somebody else had written in between.
        until: monotonic seconds before which it is not to be said again.
    """

    generation: int
    undone: int
    until: float


class Rivals:
    """Remembers one's own changes of specs, to notice those of others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._words: dict[Uid, _Word] = {}

    def rest(self, record: BackendRecord) -> timedelta | None:
        """Say how long not to change a record's spec yet; None: change it."""
        word = self._words.get(record.meta.uid)
        if word is None or word.generation == record.meta.generation:
            return None
        rest = timedelta(seconds=word.until - self._clock.monotonic())
        return rest if rest > timedelta(0) else None

    def wrote(self, before: BackendRecord, after: BackendRecord) -> None:
        """Note an own change."""
        word = self._words.get(before.meta.uid)
        is_undone = word is not None and word.generation != before.meta.generation
        undone = word.undone + 1 if word is not None and is_undone else 0
        pause = delay_for(undone, self._clock.jitter(), cap=_LONGEST)
        until = self._clock.monotonic() + pause.total_seconds()
        self._words[after.meta.uid] = _Word(after.meta.generation, undone, until)

    def record_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Forget a record that has gone, or is going."""
        if old is not None and (new is None or new.is_deleting):
            self._words.pop(old.meta.uid, None)
