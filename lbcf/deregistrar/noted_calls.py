"""Notes calls for records' ends for the run that begins in the place of this one.

Where members are known by address alone, that run must know which calls may still take
effect: those that it does not know of it has to expect of every record that it finds being
deleted, and the addresses of all of these would be away for Δ after each restart. So each
call is noted as one without an answer before it is made, and with what came of it after.
An end after which no call is out, or none that is not known, is noted, too: whoever comes
for the address later may ask the next run.
"""

import math

from collections.abc import Mapping

import attrs
import msgspec

from lbcf.core.lifecycle.deregistration import LateCalls
from lbcf.core.model.resources import SENDING_MARGIN
from lbcf.core.model.values import Uid
from lbcf.runtime.journal import Journal, Predecessor


@attrs.frozen
class NotedEnd:
    """An end that left no call out, or none that we do not know of.

    Attributes:
        since: monotonic seconds from which on somebody else's Δ counts.
        over_at: the same, from which on none is out; infinite where that is not known.
        forget_at: the same, from which on nobody could gain by it.
    """

    since: float
    over_at: float
    forget_at: float


@attrs.frozen
class Left:
    """What the run before this one has left.

    Attributes:
        calls: of each record for whose end it may have calls out, when the latest counts
            from, and for how long; for no other record it has any.
        ends: records that it has let go.
    """

    calls: Mapping[Uid, LateCalls]
    ends: Mapping[Uid, NotedEnd]


class NotedCalls:
    """What one run notes, and finds.

    Args:
        journal: where.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def begin(self, run: str, predecessor: Predecessor | None) -> Left | None:
        """Begin to note; returns what the run before has left, None where that is unknown.

        Args:
            run: our name, that no other run has.
            predecessor: in whose place we begin.
        """
        after = "" if predecessor is None else predecessor.run
        found = self._journal.begin(run, after)
        if found is None or predecessor is None:
            return None
        try:
            left = _read(found, predecessor.ended_at)
        except (msgspec.ValidationError, ValueError):
            return None  # another version of this program wrote it
        for uid, late in left.calls.items():
            self.after(uid, late)
        return left

    def before(self, uid: Uid, late: LateCalls | None, settling: float) -> None:
        """Note that a call for a record's end is about to be made.

        Args:
            uid: of the record.
            late: earlier calls without a definite answer.
            settling: Δ of the call, in seconds.

        Raises:
            OSError: it cannot be noted; do not call.
        """
        longest = settling if late is None else max(late.settling, settling)
        # When it is sent is not known yet: the next run takes it for the latest moment.
        self.after(uid, LateCalls(math.inf, longest))

    def after(self, uid: Uid, late: LateCalls | None) -> None:
        """Note what came of the calls for a record's end so far."""
        told = late and [_finite(late.since), _finite(late.settling)]
        self._journal.put(f"{_CALL}{uid}", told)

    def ended(self, uid: Uid, end: NotedEnd | None) -> None:
        """Note an end; None: it is of no interest any more."""
        told = None if end is None else [*map(_finite, attrs.astuple(end))]
        self._journal.put(f"{_END}{uid}", told)


_CALL = "call/"
_END = "end/"


def _finite(seconds: float) -> float | None:
    """Return seconds as JSON has them."""
    return None if math.isinf(seconds) else seconds


def _read(found: Mapping[str, object], ended_at: float) -> Left:
    calls: dict[Uid, LateCalls] = {}
    ends: dict[Uid, NotedEnd] = {}
    # When a call that was under way was sent is not known: when that run ended, at the latest.
    sent_at = ended_at - SENDING_MARGIN.total_seconds()
    for name, value in found.items():
        uid = Uid(name.partition("/")[2])
        if name.startswith(_CALL):
            since, settling = msgspec.convert(value, tuple[float | None, float | None])
            calls[uid] = LateCalls(
                sent_at if since is None else since,
                math.inf if settling is None else settling,
            )
        else:
            told = msgspec.convert(value, tuple[float, float | None, float])
            over_at = math.inf if told[1] is None else told[1]
            ends[uid] = NotedEnd(told[0], over_at, told[2])
    return Left(calls, ends)
