"""When a driver may be asked again about a load balancer, whatever else happens to that.

Between `load_balancers` and its queue: every change of a LoadBalancer brings its key,
also our own report of what the driver said. Without this the report itself would make
the next call, at once.
"""

from datetime import timedelta

import attrs

from lbcf.core.lifecycle.steps import CallRefused, NoAnswer, StillRunning
from lbcf.core.lifecycle.turn import NO_FAILURES, FailureStreak, Now, retry_delay
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import Meta
from lbcf.core.model.values import Uid
from lbcf.runtime.clock import Clock


@attrs.frozen
class _Pause:
    """Until when one version of a spec is not to be asked about."""

    generation: int
    until: float
    streak: FailureStreak


class Patience:
    """Remembers pauses; a change of the spec, or a deletion, ends one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pauses: dict[Uid, _Pause] = {}

    def rest(self, meta: Meta) -> timedelta | None:
        """Say how long not to ask yet; None: ask."""
        pause = self._pauses.get(meta.uid)
        if pause is None or pause.generation != meta.generation:
            return None
        rest = pause.until - self._clock.monotonic()
        return timedelta(seconds=rest) if rest > 0 else None

    def wait(
        self,
        meta: Meta,
        operation: Operation,
        trouble: CallRefused | StillRunning | NoAnswer,
    ) -> timedelta:
        """Begin a pause after an answer that was no success; say how long it is."""
        clock, known = self._clock, self._pauses.get(meta.uid)
        streak = NO_FAILURES if known is None else known.streak
        streak = streak.with_answer(operation, trouble)
        now = clock.monotonic()
        moment = Now(clock.now(), now, clock.jitter())
        delay = retry_delay(trouble, streak.length, moment)
        until = now + delay.total_seconds()
        self._pauses[meta.uid] = _Pause(meta.generation, until, streak)
        return delay

    def forget(self, uid: Uid) -> None:
        """Be done with a load balancer, or with its trouble."""
        self._pauses.pop(uid, None)
