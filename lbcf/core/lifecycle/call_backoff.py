"""When a driver may be asked again about a load balancer, and when a call is over for good.

Every change of a LoadBalancer brings its key back, our own report of what its driver said
included: without `CallBackoff` the report itself would make the next call, at once.
"""

from datetime import timedelta

import attrs

from lbcf.core.lifecycle.steps import CallFailure, NoAnswer, StillRunning
from lbcf.core.lifecycle.turn import NO_FAILURES, FailureStreak, Now, retry_delay
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver


@attrs.frozen
class CallBackoff:
    """The pause after calls without success; a change of the spec, or a deletion, ends it.

    Attributes:
        generation: of the object whose spec was asked about.
        until: monotonic seconds until which its driver is not asked.
        streak: answers in a row that were no success.
    """

    generation: int = 0
    until: float = 0.0
    streak: FailureStreak = NO_FAILURES

    def rest(self, generation: int, now: Now) -> timedelta:
        """Return how long not to ask about a generation yet; zero: ask."""
        is_current = self.generation == generation
        left = self.until - now.monotonic if is_current else 0.0
        return timedelta(seconds=max(left, 0.0))

    def delay_after(
        self, operation: Operation, trouble: CallFailure, now: Now
    ) -> tuple[timedelta, FailureStreak]:
        """Return the pause that an answer calls for, and the streak that it belongs to."""
        streak = self.streak.with_answer(operation, trouble, now)
        return retry_delay(trouble, streak.length, now), streak


@attrs.frozen
class UnconfirmedCreates:
    """Until when a createLoadBalancer whose end nobody knows may still take effect.

    A load balancer that was never seen created is deleted through its driver only after
    that: sooner, the call that is late would make one that nobody remembers.

    Attributes:
        until: monotonic seconds; None: of an earlier process' calls nothing is known but
            that there may have been some.
    """

    until: float | None = None

    def answered(
        self, trouble: CallFailure, driver: LoadBalancerDriver, now: Now
    ) -> "UnconfirmedCreates":
        """Take in how a call ended that was no success."""
        may_land = isinstance(trouble, StillRunning) or (
            isinstance(trouble, NoAnswer) and trouble.may_land
        )
        return UnconfirmedCreates(_settled(driver, now)) if may_land else self

    def closed(self, driver: LoadBalancerDriver, now: Now) -> "UnconfirmedCreates":
        """Take it that no further call is made: the last one was before this."""
        if self.until is not None:
            return self
        return UnconfirmedCreates(_settled(driver, now))

    def rest(self, now: Now) -> timedelta:
        """Return how long a call may still take effect, once no further one is made."""
        until = now.monotonic if self.until is None else self.until
        return timedelta(seconds=max(until - now.monotonic, 0.0))


NO_BACKOFF = CallBackoff()
NO_CREATES = UnconfirmedCreates()


def _settled(driver: LoadBalancerDriver, now: Now) -> float:
    """Return when a call that is made now can have no effect any more."""
    settling = driver.settling(Operation.CREATE_LOAD_BALANCER)
    return now.monotonic + settling.total_seconds()
