"""Notes ensures for the run that begins in the place of this one.

That run takes the marks of this one for its own, and must know which of its ensures may
still take effect: else it has to expect one of every record that is not settled, and could
sign none of them off for Δ. So each ensure is noted as one without an answer before it is
made (w57), and with what came of it after.
"""

from collections.abc import Mapping

import msgspec

from lbcf.core.model.resources import SENDING_MARGIN
from lbcf.core.model.values import Uid
from lbcf.runtime.journal import Journal, Predecessor


class NotedEnsures:
    """What one run notes, and finds.

    Args:
        journal: where.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def begin(
        self, run: str, predecessor: Predecessor | None
    ) -> Mapping[Uid, float] | None:
        """Begin to note; returns what the run before has left, None: that is not known.

        Of each record of which it may have an ensure out, that is until when that may
        take effect, in monotonic seconds.

        Args:
            run: our name, that no other run has.
            predecessor: in whose place we begin.
        """
        after = "" if predecessor is None else predecessor.run
        found = self._journal.begin(run, after)
        if found is None or predecessor is None:
            return None
        try:
            notes = {
                Uid(uid): msgspec.convert(value, _Note) for uid, value in found.items()
            }
        except msgspec.ValidationError:
            return None  # another version of this program wrote it
        return {uid: _read(note, predecessor.ended_at) for uid, note in notes.items()}

    def before(self, uid: Uid, until: float, settling: float) -> None:
        """Note that a record is about to be ensured.

        Args:
            uid: of the record.
            until: as in `after`, of earlier ensures.
            settling: Δ of this one, in seconds.

        Raises:
            OSError: it cannot be noted; do not call.
        """
        self._journal.put(uid, msgspec.to_builtins(_Note(until, settling)))

    def after(self, uid: Uid, until: float) -> None:
        """Note until when an ensure of a record may take effect, 0: none may."""
        self._journal.put(uid, msgspec.to_builtins(_Note(until)) if until else None)


class _Note(msgspec.Struct, array_like=True):
    """What is noted of a record's ensures.

    Attributes:
        until: monotonic seconds until which one may take effect; 0: none may.
        settling: Δ of one that is under way, in seconds; None: none is.
    """

    until: float
    settling: float | None = None


def _read(note: _Note, ended_at: float) -> float:
    if note.settling is None:
        return note.until
    # When it was sent is not known: when that run had ended, at the latest.
    sent_at = ended_at - SENDING_MARGIN.total_seconds()
    return max(note.until, sent_at + note.settling)
