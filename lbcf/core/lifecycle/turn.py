"""What registration and deregistration share: clocks, drivers, reports, retry delays.

A turn is one reconcile of one record. It begins with no permission but that of an own
write, or of the watch where members are named after their records, goes from step to step,
and ends with `Finish`. What must outlive it is in the record, or in a state that a
process remembers and may lose at any time.
"""

from datetime import datetime, timedelta

import attrs

from lbcf.core.backoff import delay_for
from lbcf.core.lifecycle.steps import CallFailure, CallRefused, NoAnswer, StillRunning
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
from lbcf.core.model.values import BootTime, ObjectKey
from lbcf.core.reasons import Explanation, Reason


DRIVER_RECHECK = timedelta(minutes=2)
"""How soon to look again for a driver, should the news of it have been missed."""

RETRY_FIRST = timedelta(milliseconds=250)
"""The shortest wait after a call that failed. Most calls that fail once succeed when they
are made again, and meanwhile a member is missing, or stays without a pod behind it."""
_POLL_FIRST = timedelta(seconds=1)
_POLL_LAST = timedelta(seconds=5)


@attrs.frozen
class Now:
    """The clocks and the random number of one decision.

    Attributes:
        wall: wall clock, for what people and other processes read.
        monotonic: seconds, for what this process measures itself.
        jitter: from 0 up to 1.
        boot: which boot of which machine `monotonic` counts from, empty: not known.
    """

    wall: datetime
    monotonic: float
    jitter: float = 0.0
    boot: str = ""

    def began_at(self, began: float, written: BootTime | None) -> float:
        """Return since when something has been so, in monotonic seconds.

        Args:
            began: as this process knows.
            written: as a process before it wrote; of no use on another machine.
        """
        if written is None or not self.boot or written.boot != self.boot:
            return began
        # The earlier one: a machine restored from a snapshot may have seen later moments.
        return min(began, written.seconds)


UNKNOWN_DRIVER = Explanation(
    Reason.DRIVER_NOT_FOUND, "no driver has been looked for yet"
)


def find_driver(
    key: ObjectKey, driver: LoadBalancerDriver | None, unreadable: str | None
) -> LoadBalancerDriver | Explanation:
    """Return the driver of a load balancer, or why it cannot be called.

    Args:
        key: of the driver.
        driver: as found, None: it was not; where it cannot be decoded, its last readable
            version, which is not used.
        unreadable: why it could not be decoded, None: it could.
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
    """Return the driver if it serves a namespace, else why it does not.

    Asked before something is created or changed only: what exists can always be removed.
    """
    if isinstance(driver, Explanation) or driver.serves(namespace):
        return driver
    return Explanation(
        Reason.DRIVER_OUT_OF_SCOPE,
        f"LoadBalancerDriver {driver.meta.key} does not serve load balancers of "
        f"namespace {namespace}: whoever operates it has to add the namespace to its "
        "spec.scope, or to make a LoadBalancer in kube-system that has it in scope",
    )


def turns_at_once(driver: LoadBalancerDriver | Explanation) -> int:
    """Return how many members a driver's calls may be about at the same time."""
    return 32 if isinstance(driver, Explanation) else driver.turns_at_once


def namespace_share(driver: ObjectKey, namespace: str, places: int) -> int:
    """Return how many of a driver's call slots one namespace may hold.

    Three quarters where other namespaces may use the driver, too, so that calls that hang
    for one leave room for the others; all where the driver is the namespace's own.
    """
    return places if namespace == driver.namespace else max(1, places * 3 // 4)


@attrs.frozen
class Report:
    """What a turn has to write into the status of a record.

    Attributes:
        drain: progress to show, None where there is none to add.
        marker: what `ensuring` must say from now on; None: as it is.
        due: write even if only numbers changed.
        waiting: for the end of which record; None: as it is.
        deletion_seen_at: when the deletion was seen; None: as it is.
    """

    condition: Condition
    drain: DrainProgress | None = None
    marker: str | None = None
    next_attempt: datetime | None = None
    due: bool = False
    waiting: Waiting | None = None
    deletion_seen_at: BootTime | None = None

    def is_news(self, record: BackendRecord) -> bool:
        """Return whether the record does not say so yet."""
        old = conditions.find(record.status.conditions, self.condition.type)
        drain, marker = record.status.drain, record.status.ensuring
        return (
            not self.condition.says_the_same(old)
            or (self.marker is not None and self.marker != marker)
            or (self.drain is not None and (drain is None or self.due))
            or self._waiting_after(record.status) != record.status.waiting
        )

    def _waiting_after(self, status: RecordStatus) -> Waiting | None:
        """Return for whose end a record waits; what is known of the same one stays."""
        named, found = status.waiting, self.waiting
        if found is None or named is None or named.holder != found.holder:
            return found or named
        if found.gone_at is None or _is_of_same_boot(named.gone_at, found.gone_at):
            return named
        return attrs.evolve(named, gone_at=found.gone_at)

    def applied(self, status: RecordStatus, now: datetime) -> RecordStatus:
        """Return a record's status with the report; a written drain's clock stays."""
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
            waiting=self._waiting_after(status),
            deletion_seen_at=self.deletion_seen_at or status.deletion_seen_at,
        )


def _is_of_same_boot(one: BootTime | None, other: BootTime) -> bool:
    return one is not None and one.boot == other.boot


@attrs.frozen
class FailureStreak:
    """Answers of one kind in a row, none of them a success.

    Running and failing are counted apart: one failure after a long Running is the first.

    Attributes:
        operation: that was called.
        is_busy: the answers were Running; else they were Fail, or none at all.
        length: how many there were.
        not_before: until when the driver wishes not to be asked again, monotonic seconds.
    """

    operation: Operation | None = None
    is_busy: bool = False
    length: int = 0
    not_before: float = 0.0

    def with_answer(
        self, operation: Operation, reply: CallFailure, now: Now
    ) -> "FailureStreak":
        """Return the streak with one more answer, of the same kind or a new one."""
        is_busy = isinstance(reply, StillRunning)
        same = (operation, is_busy) == (self.operation, self.is_busy)
        wish = None if isinstance(reply, NoAnswer) else reply.again_after
        not_before = 0.0 if wish is None else now.monotonic + wish.total_seconds()
        return FailureStreak(
            operation, is_busy, self.length + 1 if same else 1, not_before
        )

    def may_end(self, now: Now) -> bool:
        """Return whether calls have failed, and may be made again before their pause ends."""
        return (
            bool(self.length) and not self.is_busy and now.monotonic >= self.not_before
        )


NO_FAILURES = FailureStreak()


def poll_delay(polls: int, wish: timedelta | None) -> timedelta:
    """Return when to poll a busy driver again: as it asked, or 1 s growing to 5 s."""
    return wish if wish is not None else min(_POLL_FIRST * polls, _POLL_LAST)


def retry_delay(reply: CallFailure, attempts: int, now: Now) -> timedelta:
    """Return the delay before the next try after anything but a success.

    Args:
        reply: what came instead.
        attempts: how often that was so in a row, this one included.
        now: its jitter spreads the delay.
    """
    match reply:
        case StillRunning(again_after=wish):
            return poll_delay(attempts, wish)
        case CallRefused(again_after=wish):
            return delay_for(attempts, now.jitter, base=RETRY_FIRST, at_least=wish)
        case NoAnswer():
            return delay_for(attempts, now.jitter, base=RETRY_FIRST)


def describe_failure(
    reply: CallFailure, driver: LoadBalancerDriver, operation: Operation
) -> Explanation:
    """Return why a condition is not true, for an answer that is no success."""
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
