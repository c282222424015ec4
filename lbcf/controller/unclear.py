"""How long a createLoadBalancer whose end nobody knows may still take effect.

Beside `patience`, for LoadBalancers and the entries of Binds alike: one that was never
seen created is deleted through its driver only after that. Sooner, the call that is late
would make a load balancer that nobody remembers.
"""

from datetime import timedelta

from lbcf.core.lifecycle.steps import CallRefused, NoAnswer, StillRunning
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import Uid
from lbcf.runtime.clock import Clock


class UnclearCreates:
    """Remembers them; of those of an earlier run nothing is known but that they were."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[Uid, float] = {}

    def begun(self, uid: Uid) -> None:
        """Note that the first call of all is about to be made, by this process."""
        self._until[uid] = self._clock.monotonic()

    def answered(
        self,
        uid: Uid,
        driver: LoadBalancerDriver,
        trouble: CallRefused | StillRunning | NoAnswer,
    ) -> None:
        """Note what a call came to that was no success."""
        unclear = isinstance(trouble, StillRunning) or (
            isinstance(trouble, NoAnswer) and trouble.may_land
        )
        if unclear:
            self._until[uid] = self._settled(driver)

    def rest(self, uid: Uid, driver: LoadBalancerDriver) -> timedelta:
        """Say how long a call may still take effect; from now on none is made."""
        until = self._until.setdefault(uid, self._settled(driver))
        return timedelta(seconds=max(until - self._clock.monotonic(), 0))

    def forget(self, uid: Uid) -> None:
        """Be done with a load balancer: it is created, or gone."""
        self._until.pop(uid, None)

    def _settled(self, driver: LoadBalancerDriver) -> float:
        """Say when a call that is made now can have no effect any more."""
        settling = driver.settling(Operation.CREATE_LOAD_BALANCER)
        return self._clock.monotonic() + settling.total_seconds()
