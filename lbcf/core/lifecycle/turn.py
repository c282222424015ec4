"""What registration and deregistration have in common: moments, reports, pauses.

A turn is one visit to one record. It begins with no permission, goes from step to
step, and ends with `Finish`; what must outlive it is in the record or in the memory
that the two modules keep, and the memory may be lost at any time.
"""

from datetime import datetime, timedelta

import attrs

from lbcf.core.backoff import delay_for
from lbcf.core.lifecycle.steps import CallRefused, NoAnswer, StillRunning
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    BackendRecord,
    DrainProgress,
    LoadBalancerDriver,
    RecordStatus,
    Waiting,
)
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation, Reason


DRIVER_RECHECK = timedelta(minutes=2)
"""How soon to look again for a driver, should the news of it have been missed."""

_POLL_FIRST = timedelta(seconds=1)
_POLL_LAST = timedelta(seconds=5)


@attrs.frozen
class Now:
    """The time and the chance of one decision.

    Attributes:
        wall: wall clock, for what people and other processes read.
        monotonic: seconds, for what this process measures itself.
        jitter: from 0 up to 1.
    """

    wall: datetime
    monotonic: float
    jitter: float = 0.0


UNKNOWN_DRIVER = Explanation(
    Reason.DRIVER_NOT_FOUND, "no driver has been looked for yet"
)


def find_driver(
    key: ObjectKey, driver: LoadBalancerDriver | None, unreadable: str | None
) -> LoadBalancerDriver | Explanation:
    """Say who operates a load balancer, or why nobody can.

    Args:
        key: where the driver should be.
        driver: as found, None where it was not; its last readable version where it
            cannot be understood now, which nobody may go by.
        unreadable: why it could not be understood, None where that is not so.
    """
    if unreadable is not None:
        message = f"LoadBalancerDriver {key} cannot be understood: {unreadable}"
        return Explanation(Reason.DRIVER_UNREADABLE, message)
    return driver or Explanation(
        Reason.DRIVER_NOT_FOUND, f"LoadBalancerDriver {key} does not exist; create it"
    )


def driver_for_namespace(
    driver: LoadBalancerDriver | Explanation, namespace: str
) -> LoadBalancerDriver | Explanation:
    """Say who operates load balancers of a namespace, or who has to allow it.

    For what is to be made or changed alone: what there is can always end.
    """
    if isinstance(driver, Explanation) or driver.serves(namespace):
        return driver
    return Explanation(
        Reason.DRIVER_OUT_OF_SCOPE,
        f"LoadBalancerDriver {driver.meta.key} does not serve load balancers of "
        f"namespace {namespace}: whoever operates it has to add the namespace to its "
        "spec.scope, or to make a LoadBalancer in kube-system that has it in scope",
    )


def max_concurrent_calls(driver: LoadBalancerDriver | Explanation) -> int:
    """Say how many calls a driver bears at a time; one that is absent gets none."""
    return 32 if isinstance(driver, Explanation) else driver.max_concurrent_calls


def namespace_share(driver: ObjectKey, namespace: str, places: int) -> int:
    """Say how many of a driver's places calls for one namespace may hold.

    Three quarters where other namespaces may use the driver, too: what hangs for one
    leaves room for the others. All of them where the driver is the namespace's own.
    """
    return places if namespace == driver.namespace else max(1, places * 3 // 4)


@attrs.frozen
class Report:
    """What a turn has to tell the reader of the record.

    Attributes:
        drain: progress to show, None where there is none to add.
        marker: what `ensuring` must say from now on; None: as it is.
        due: written even if only numbers changed.
        waiting: for whose end; None: as it is.
    """

    condition: Condition
    drain: DrainProgress | None = None
    marker: str | None = None
    next_attempt: datetime | None = None
    due: bool = False
    waiting: Waiting | None = None

    def is_news(self, record: BackendRecord) -> bool:
        """Tell whether the record does not say so yet."""
        old = conditions.find(record.status.conditions, self.condition.type)
        drain, marker = record.status.drain, record.status.ensuring
        return (
            not self.condition.says_the_same(old)
            or (self.marker is not None and self.marker != marker)
            or (self.drain is not None and (drain is None or self.due))
            or self._waits_for_another(record.status)
        )

    def _waits_for_another(self, status: RecordStatus) -> bool:
        """Tell whether a status does not name the record that is waited for."""
        if self.waiting is None:
            return False
        named = status.waiting
        return named is None or named.holder != self.waiting.holder

    def applied(self, status: RecordStatus, now: datetime) -> RecordStatus:
        """Add it to a record's status; a drain's clock that is written there stays."""
        drain = self.drain or status.drain
        if drain is not None and status.drain is not None:
            drain = attrs.evolve(status.drain, connections=drain.connections)
        return attrs.evolve(
            status,
            conditions=conditions.with_condition(
                status.conditions, self.condition, now
            ),
            drain=drain,
            ensuring=status.ensuring if self.marker is None else self.marker,
            next_attempt=self.next_attempt,
            # What a deregistrar wrote of the same holder stays.
            waiting=self.waiting if self._waits_for_another(status) else status.waiting,
        )


@attrs.frozen
class FailureStreak:
    """Answers of one kind in a row, none of them a success.

    A driver that was busy for long and then fails once is not one that fails for long.

    Attributes:
        operation: what was asked.
        is_busy: the answers were Running; else they were Fail, or none at all.
        length: how many there were.
    """

    operation: Operation | None = None
    is_busy: bool = False
    length: int = 0

    def with_answer(
        self, operation: Operation, reply: CallRefused | StillRunning | NoAnswer
    ) -> "FailureStreak":
        """Count an answer in, or begin to count another kind."""
        is_busy = isinstance(reply, StillRunning)
        same = (operation, is_busy) == (self.operation, self.is_busy)
        return FailureStreak(operation, is_busy, self.length + 1 if same else 1)


NO_FAILURES = FailureStreak()


def poll_delay(polls: int, wish: timedelta | None) -> timedelta:
    """Say when to ask a busy driver again: its wish, or 1 s growing to 5 s."""
    return wish if wish is not None else min(_POLL_FIRST * polls, _POLL_LAST)


def retry_delay(
    reply: CallRefused | StillRunning | NoAnswer, attempts: int, now: Now
) -> timedelta:
    """Say when to try again after anything but a success.

    Args:
        reply: what came instead.
        attempts: how often that was so in a row, this one included.
        now: gives the chance.
    """
    match reply:
        case StillRunning(again_after=wish):
            return poll_delay(attempts, wish)
        case CallRefused(again_after=wish):
            return delay_for(attempts, now.jitter, at_least=wish)
        case NoAnswer():
            return delay_for(attempts, now.jitter)


def describe_failure(
    reply: CallRefused | StillRunning | NoAnswer,
    driver: LoadBalancerDriver,
    operation: Operation,
) -> Explanation:
    """Put a driver's answer, or the lack of one, into words."""
    who = f"driver {driver.meta.key} at {operation}"
    match reply:
        case CallRefused(message=said):
            message = f"{who} answered Fail: {said or '(no message)'}"
            return Explanation(Reason.DRIVER_REFUSED, message)
        case StillRunning(message=said):
            message = f"{who} answered Running: {said or '(no message)'}"
            return Explanation(Reason.DRIVER_RUNNING, message)
        case NoAnswer(reason=reason, message=message):
            return Explanation(reason, f"{who}: {message}")
