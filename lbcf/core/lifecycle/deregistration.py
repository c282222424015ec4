"""The end of a record, drain, deregister, finalizer off: a state machine without I/O.

`next_step` asks the stages below in order, and the first that has something to do names
the step; `learn` takes in what came of it. It begins with a deletionTimestamp and ends when
the record is gone. The rules, under the numbers that they have in docs/lifecycle.md, which
explains them:

1. Without an address nothing was ever registered, and nobody is called. Else calls go out
   only under a permission: a quorum read that showed the record deleting (w02). Where
   members are named after their records, the watch is enough: a deletion is never taken
   back, what others write after it takes nothing back, and a call that comes after the
   record's end finds nobody's member. That saves a third of the requests.
2. The drain's clock starts with the first call that may have reached the driver, and is
   written once it has to wait: while the driver could not be reached, nothing was drained.
   The incarnation that began it counts by its monotonic clock. Another one has only the
   wall clock, which may be wrong, and takes no more from it than one whole drain.
3. A settled record is deregistered once. For any other, an ensure may still be out: one
   call at once so that traffic stops, and one that counts after all ensures are over
   (w21, w22).
4. The finalizer goes by compare-and-swap, after a success that counts, of this
   incarnation (w23, w24). What counted counts for later versions, too: all that a
   registrar writes into a record that it has read as deleting is that no ensure is out.
5. A call without a definite answer may take effect when the record is gone. Where members
   are known by address alone it is the lock that keeps the address from its next owner
   until then, also after a crash, when nobody remembers the call. A call that may take
   effect for longer than the lock says is announced before it is sent (w45, w46).
6. The address is free after an end of which this incarnation knows that no call is out
   (`is_clean`): at once, or when the calls without a definite answer are over;
   `lbcf.deregistrar.successors` tells whoever waits for it (w33 to w44).
7. A drain is over when the record says that its backend is gone: the address may be
   another's. `lbcf.controller.gone_backends` writes that.
"""

import math

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum

import attrs

from lbcf.core.lifecycle.steps import (
    Abandoned,
    CallDriver,
    CallFailure,
    CallRefused,
    Conflicted,
    CoverEnd,
    Deregistered,
    EndCovered,
    Finish,
    NeverRegistered,
    NoAnswer,
    Observed,
    Permission,
    ReadRecord,
    RecordGone,
    Released,
    ReleaseRecord,
    Reply,
    Step,
    StillRunning,
    Succeeded,
    Superseded,
    WriteStatus,
)
from lbcf.core.lifecycle.turn import (
    DRIVER_RECHECK,
    NO_FAILURES,
    UNKNOWN_DRIVER,
    FailureStreak,
    Now,
    Report,
    describe_failure,
    retry_delay,
)
from lbcf.core.model import conditions, names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    ANY_INCARNATION,
    BackendRecord,
    DrainProgress,
    LoadBalancerDriver,
)
from lbcf.core.model.values import BootTime, MemberKey
from lbcf.core.reasons import Explanation, Reason


_CLOCK_WAS_SET = timedelta(seconds=5)
"""Two readings of one deadline that differ by more are those of different clocks."""
_ALMOST_A_SECOND = timedelta(seconds=1, microseconds=-1)
_CONNECTIONS_NEWS = 10.0
"""Seconds between two writes that only tell another number of connections."""


@attrs.frozen
class LateCalls:
    """Calls for a record's end, under our name, that had no definite answer.

    Attributes:
        since: monotonic seconds from which the time of the latest one counts.
        settling: seconds for which one may take effect from then on, at most (Δ), by the
            driver as each was timed by; infinite where a run before us timed it.
    """

    since: float
    settling: float

    def over_at(self, settling: float) -> float:
        """Return when all are over, in monotonic seconds.

        Args:
            settling: Δ of the driver as it is now, in seconds: the longer one counts.
        """
        return self.since + max(self.settling, settling)

    def since_for(self, settling: float) -> float:
        """Return from when somebody else is to count the Δ that they know themselves.

        Args:
            settling: Δ of the driver as it is now, in seconds.
        """
        if math.isinf(self.settling):
            return self.since
        return self.over_at(settling) - settling


def late_calls_before(ended_at: float) -> LateCalls:
    """Return what may be out of a run in whose place we go on.

    It sent nothing since, but by which driver it timed its calls nobody knows (w44).

    Args:
        ended_at: monotonic seconds by which it had ended.
    """
    return LateCalls(ended_at, math.inf)


@attrs.frozen
class DeregistrationState:
    """What a deregistrar remembers of one deletion; a crash may lose all of it.

    Attributes:
        first_seen: monotonic seconds at which this incarnation saw the deletion.
        incarnation: our name; new at every start of a process but for one that begins
            in the place of one that has ended.
        late: calls under our name that had no definite answer; None: each had one.
        is_clean: we have let the record go, nobody else has called for its end, and all
            calls under our name had definite answers but for those in `late`.
        covered: Δ that we have announced to whoever takes the address over.
        permission: the latest observation of this turn.
        driver: the driver to call, or why there is none.
        drain: how far a drain is, before it is written.
        drain_until: monotonic seconds at which it is over; None: it has not begun, or
            another incarnation began it.
        connections: how many were left when the drain was last asked about, None where the
            driver does not say, or we have not asked.
        drained: the driver said that nothing is left.
        early_done: a deregister succeeded while ensures might still be out.
        final_done: a deregister succeeded that nothing can undo.
        streak: failures in a row.
        reported_at: monotonic seconds of the last condition written.
        report: what is to be written into the record's conditions.
        pause: ends the turn; until the next one.
    """

    first_seen: float
    incarnation: str = ""
    late: LateCalls | None = None
    is_clean: bool = False
    covered: timedelta = timedelta(0)
    permission: Permission | None = None
    driver: LoadBalancerDriver | Explanation = UNKNOWN_DRIVER
    drain: DrainProgress | None = None
    drain_until: float | None = None
    connections: int | None = None
    drained: bool = False
    early_done: bool = False
    final_done: bool = False
    streak: FailureStreak = NO_FAILURES
    reported_at: float = 0.0
    report: Report | None = None
    pause: timedelta | None = None
    is_over: bool = False

    def begin_turn(
        self, driver: LoadBalancerDriver | Explanation, seen: Permission | None = None
    ) -> "DeregistrationState":
        """Begin a turn: permissions and reports of the last one are void.

        Args:
            driver: the driver to call, or why there is none.
            seen: what the watch shows; a permission with memberKey Record only.
        """
        named = (
            not isinstance(driver, Explanation)
            and driver.member_key is MemberKey.RECORD
        )
        permission = seen if named else None
        return attrs.evolve(
            self, driver=driver, permission=permission, report=None, pause=None
        )


class Phase(StrEnum):
    """How far a deregistration is, which is its priority in the queue.

    Attributes:
        FLOWING: new traffic may still come; no call has stopped it yet.
        ENDING: nothing new comes; the driver is still to be called.
        RELEASING: only the finalizer is left.
    """

    FLOWING = "flowing"
    ENDING = "ending"
    RELEASING = "releasing"


def phase_of(state: DeregistrationState, record: BackendRecord) -> Phase:
    """Return a record's phase, by what is remembered and what is written."""
    if state.final_done:
        return Phase.RELEASING
    has_begun = state.drained or state.early_done
    if has_begun or state.drain is not None or record.status.drain is not None:
        return Phase.ENDING
    return Phase.FLOWING


class DrainEnd(StrEnum):
    """How a drain that had to wait ended.

    Attributes:
        EMPTY: nothing was left.
        DEADLINE: something still ran, and was cut.
        BACKEND_GONE: the backend did not exist any more.
    """

    EMPTY = "Empty"
    DEADLINE = "Deadline"
    BACKEND_GONE = "BackendGone"


def end_of_drain(state: DeregistrationState, record: BackendRecord) -> DrainEnd | None:
    """Return how the drain of a record that is over ended; None: nothing was waited for.

    Nor is anything known of one that a person had us abandon.
    """
    if record.status.drain is None or record.meta.abandoned:
        return None
    if state.drained:
        return DrainEnd.EMPTY
    return DrainEnd.BACKEND_GONE if record.status.backend_gone else DrainEnd.DEADLINE


def connections_left(state: DeregistrationState, record: BackendRecord) -> int | None:
    """Return how many connections a drain had when it was last asked about."""
    if state.connections is not None or record.status.drain is None:
        return state.connections
    return record.status.drain.connections


Stage = Callable[[DeregistrationState, BackendRecord, Now], Step | None]


def next_step(state: DeregistrationState, now: Now) -> Step:
    """Return the next step; `Finish` ends the turn."""
    if state.is_over:
        return Finish()
    if state.permission is None:
        return ReadRecord()
    record = state.permission.record
    steps = (stage(state, record, now) for stage in STAGES)
    return next((step for step in steps if step is not None), Finish())


def _leave_alone(
    _state: DeregistrationState, record: BackendRecord, _now: Now
) -> Step | None:
    """A record that is not being deleted, or without our finalizer, needs nothing."""
    return None if record.is_deleting and record.is_held else Finish()


def _abandon(
    _state: DeregistrationState, record: BackendRecord, _now: Now
) -> Step | None:
    """Release at once where a person has set the abandon annotation."""
    why = record.meta.abandoned
    return ReleaseRecord(Abandoned(record, why)) if why else None


def _never_registered(
    _state: DeregistrationState, record: BackendRecord, _now: Now
) -> Step | None:
    """Release at once without an address: it is written before the first ensure."""
    return None if record.address else ReleaseRecord(NeverRegistered(record))


def _write_condition(
    state: DeregistrationState, record: BackendRecord, now: Now
) -> Step | None:
    """Write the condition of what came of a step before the turn ends."""
    report = state.report
    if report is None or not report.is_news(record):
        return None
    return WriteStatus(record, report.applied(record.status, now.wall))


def _wait(state: DeregistrationState, _record: BackendRecord, _now: Now) -> Step | None:
    """End the turn after an answer that is to be waited for."""
    return None if state.pause is None else Finish(again_after=state.pause)


def _write_marker(
    state: DeregistrationState, record: BackendRecord, _now: Now
) -> Step | None:
    """Write `*` over the name of another deregistrar, which is no longer alone."""
    driver, named = state.driver, record.status.deregistrar
    if isinstance(driver, Explanation) or driver.member_key is MemberKey.RECORD:
        return None
    if named in {"", ANY_INCARNATION, state.incarnation}:
        return None
    # The named one may tell the next owner of the address that no call is out, and does
    # not know of ours (w34). Members named after records have no next owner.
    status = attrs.evolve(record.status, deregistrar=ANY_INCARNATION)
    return WriteStatus(record, status)


def _cover_end(
    state: DeregistrationState, record: BackendRecord, _now: Now
) -> Step | None:
    """Announce calls that may take effect for longer than the lock says (w45)."""
    driver = state.driver
    if isinstance(driver, Explanation) or driver.member_key is MemberKey.RECORD:
        return None
    # The driver may have been edited since the lock was taken, and may be again before
    # the next owner of the address looks at it.
    covered = max(record.status.lock_settling, state.covered)
    if state.final_done or driver.end_settling <= covered:
        return None
    return CoverEnd(record, driver.end_settling)


def _drain(state: DeregistrationState, record: BackendRecord, now: Now) -> Step | None:
    """Call drainBackend until nothing is left or the deadline is over."""
    driver, permission = state.driver, state.permission
    if isinstance(driver, Explanation) or permission is None or state.drained:
        return None
    if record.status.backend_gone:
        return None
    if not record.spec.drain.enabled or not driver.declares(Operation.DRAIN_BACKEND):
        return None
    left = drain_time_left(state, record, now)
    if left <= timedelta(0):
        return None
    return CallDriver(
        Operation.DRAIN_BACKEND,
        driver,
        permission,
        record.address,
        drain=drain_progress(state, record, now.wall + left),
        urgent=phase_of(state, record) is Phase.FLOWING,
    )


def drain_time_left(
    state: DeregistrationState, record: BackendRecord, now: Now
) -> timedelta:
    """Return how long the drain may go on: all of its time where it has not begun."""
    whole = record.spec.drain.longest
    if state.drain_until is not None:
        return timedelta(seconds=state.drain_until - now.monotonic)
    written = record.status.drain
    return whole if written is None else _time_left_by(record, written, now)


def _time_left_by(record: BackendRecord, written: DrainProgress, now: Now) -> timedelta:
    whole = record.spec.drain.longest
    # Neither wall clock need be right. The clock of the incarnation that began was behind
    # if the drain was over before the deletion (deletionTimestamp is the API server's);
    # ours is behind if more is left than a whole drain.
    deadline = max(written.deadline, (record.meta.deleting_since or now.wall) + whole)
    return min(deadline - now.wall, whole)


def drain_progress(
    state: DeregistrationState, record: BackendRecord, deadline: datetime
) -> DrainProgress:
    """Return when the drain began and must end: as written, remembered, or counted now.

    Args:
        state: what is remembered.
        record: what is written.
        deadline: as counted by the wall clock as it is now.
    """
    known = record.status.drain or state.drain
    if known is not None and abs(known.deadline - deadline) < _CLOCK_WAS_SET:
        return known
    whole = record.spec.drain.longest
    began = (deadline - whole).replace(microsecond=0)
    # Kubernetes times have whole seconds: rounded down, the deadline would shorten the
    # drain.
    ends = (deadline + _ALMOST_A_SECOND).replace(microsecond=0)
    return DrainProgress(began, ends)


def _is_in_time(state: DeregistrationState, now: Now) -> bool:
    # Connections that came after the drain's success are spared until its deadline.
    return state.drain_until is None or now.monotonic < state.drain_until


def is_final(state: DeregistrationState, record: BackendRecord, now: Now) -> bool:
    """Return whether no ensure still out can undo a deregisterBackend that is sent now."""
    return record.is_settled or _rest_to_confirm(state, record, now) <= timedelta(0)


def _rest_to_confirm(
    state: DeregistrationState, record: BackendRecord, now: Now
) -> timedelta:
    """Return how long it is until every ensure sent before the deletion is over."""
    driver = state.driver
    if isinstance(driver, Explanation):
        return timedelta(0)
    # Ensures that are out were timed by the driver as their sender saw it, which the
    # record says; the driver may have been edited since (w50).
    settling = max(driver.settling(Operation.ENSURE_BACKEND), record.settling)
    seen = now.began_at(state.first_seen, record.status.deletion_seen_at)
    # In microseconds, as the queue waits: a rest of less would be no wait, and not over.
    return timedelta(seconds=seen + settling.total_seconds() - now.monotonic)


def _deregister(
    state: DeregistrationState, record: BackendRecord, now: Now
) -> Step | None:
    """Call deregisterBackend; again when no ensure can be out, if any may be."""
    driver, permission = state.driver, state.permission
    if state.final_done or isinstance(driver, Explanation) or permission is None:
        return None
    final = is_final(state, record, now)
    if state.early_done and not final:
        return Finish(_rest_to_confirm(state, record, now))
    return CallDriver(
        Operation.DEREGISTER_BACKEND,
        driver,
        permission,
        record.address,
        drained=state.drained and _is_in_time(state, now),
        final=final,
        urgent=phase_of(state, record) is Phase.FLOWING,
    )


def _release(
    state: DeregistrationState, record: BackendRecord, _now: Now
) -> Step | None:
    """Take the finalizer off, with the proof that the address is out."""
    return ReleaseRecord(Deregistered(record)) if state.final_done else None


STAGES: tuple[Stage, ...] = (
    _leave_alone,
    _abandon,
    _never_registered,
    _write_condition,
    _wait,
    _write_marker,
    _cover_end,
    _drain,
    _deregister,
    _release,
)


def learn(
    state: DeregistrationState, step: Step, reply: Reply, now: Now
) -> DeregistrationState:
    """Return the state after the reply to a step."""
    match reply:
        case RecordGone():
            return attrs.evolve(state, is_over=True)
        case Released():
            return _released(state, step)
        case Conflicted() | EndCovered():
            return _to_be_read(state, reply)
        case Observed(permission):
            if isinstance(step, WriteStatus):
                state = attrs.evolve(state, reported_at=now.monotonic, report=None)
            return _observed(state, permission, now)
        case Superseded(permission):
            return _observed(state, permission, now)
        case Succeeded() | StillRunning() | CallRefused() | NoAnswer():
            return _learn_answer(state, step, reply, now)
        case _:
            return state


def _to_be_read(
    state: DeregistrationState, reply: Conflicted | EndCovered
) -> DeregistrationState:
    # Who has taken the lock over by now did not read what we have announced: only a record
    # that still exists says that nobody has (w46).
    covered = reply.settling if isinstance(reply, EndCovered) else state.covered
    return attrs.evolve(state, covered=covered, permission=None)


def _released(state: DeregistrationState, step: Step) -> DeregistrationState:
    # Whoever was before us called for no record without an address, either.
    uncalled = isinstance(step, ReleaseRecord) and isinstance(
        step.proof, NeverRegistered
    )
    late = None if uncalled else state.late
    is_clean = _is_clean(state, step)
    return attrs.evolve(state, is_over=True, is_clean=is_clean, late=late)


def _is_clean(state: DeregistrationState, step: Step) -> bool:
    """Return whether no call for a record that we have just released can be out but ours."""
    if not isinstance(step, ReleaseRecord):
        return False
    match step.proof:
        case NeverRegistered():
            return True
        case Deregistered(record):
            # The version that the finalizer was taken from says so: any other deregistrar
            # had to change it before it called. A record that somebody else released
            # says nothing (w37).
            return record.status.deregistrar == state.incarnation != ""
        case Abandoned():
            return False


def _observed(
    state: DeregistrationState, permission: Permission, now: Now
) -> DeregistrationState:
    state = attrs.evolve(
        _with_written_drain(state, permission.record, now), permission=permission
    )
    record, driver = permission.record, state.driver
    needless = state.pause is not None or not record.address
    if needless or not isinstance(driver, Explanation):
        return state
    message = (
        f"{driver.message}, or set annotation {names.ANNOTATION_ABANDON} on this record "
        f"to let go of {record.address} without deregistering it"
    )
    why = Explanation(driver.reason, message)
    condition = _condition(record, conditions.DEREGISTERED, why)
    return attrs.evolve(state, report=Report(condition), pause=DRIVER_RECHECK)


def _learn_answer(
    state: DeregistrationState, step: Step, reply: Succeeded | CallFailure, now: Now
) -> DeregistrationState:
    if not isinstance(step, CallDriver):
        return state
    if isinstance(reply, NoAnswer) and reply.may_land:
        state = attrs.evolve(state, late=_with_late_call(state.late, step, reply, now))
    if isinstance(reply, Succeeded):
        return _succeeded(state, step, now)
    if step.operation is Operation.DRAIN_BACKEND:
        return _report_drain(state, step, reply, now)
    return _report_failure(state, step, reply, now)


def _with_late_call(
    late: LateCalls | None, step: CallDriver, reply: NoAnswer, now: Now
) -> LateCalls:
    since = reply.since(now.monotonic, step.driver.window(step.operation))
    settling = step.driver.settling(step.operation).total_seconds()
    if late is None:
        return LateCalls(since, settling)
    # Of several the latest begin and the longest time count (w42, w43).
    return LateCalls(max(late.since, since), max(late.settling, settling))


def _succeeded(
    state: DeregistrationState, step: CallDriver, now: Now
) -> DeregistrationState:
    state = attrs.evolve(state, streak=NO_FAILURES)
    record = step.permission.record
    if step.operation is Operation.DRAIN_BACKEND:
        return attrs.evolve(_with_started_drain(state, record, now), drained=True)
    if step.final:
        return attrs.evolve(state, early_done=True, final_done=True)
    message = (
        f"{step.address} is out of the load balancer; deregistered once more when no "
        "registration sent earlier can arrive any more"
    )
    why = Explanation(Reason.WAITING_TO_CONFIRM, message)
    condition = _condition(record, conditions.DEREGISTERED, why)
    # Another process of this machine goes on counting from there.
    seen_at = BootTime(now.boot, state.first_seen) if now.boot else None
    report = Report(condition, deletion_seen_at=seen_at)
    return attrs.evolve(state, early_done=True, report=report)


def _with_written_drain(
    state: DeregistrationState, record: BackendRecord, now: Now
) -> DeregistrationState:
    # Another incarnation began the drain, maybe unseen by the view that this one began to
    # count by: from here on its rest is counted by the monotonic clock.
    written, own = record.status.drain, state.drain
    if written is None or (own and own.deadline == written.deadline):
        return state
    left = _time_left_by(record, written, now).total_seconds()
    clock = attrs.evolve(written, connections=None)
    return attrs.evolve(state, drain=clock, drain_until=now.monotonic + left)


def _with_started_drain(
    state: DeregistrationState, record: BackendRecord, now: Now
) -> DeregistrationState:
    # A drain that is not written yet begins with the answer, not with the decision: the
    # call may have waited long for its slot at the driver.
    state = _with_written_drain(state, record, now)
    if state.drain_until is not None:
        return state
    left = drain_time_left(state, record, now)
    return attrs.evolve(
        state,
        drain=drain_progress(state, record, now.wall + left),
        drain_until=now.monotonic + left.total_seconds(),
    )


def _has_started(
    state: DeregistrationState, record: BackendRecord, reply: CallFailure
) -> bool:
    # A call that certainly did not reach the driver starts no clock: the deadline could
    # pass with traffic still coming in, and all of it would be cut (seen in a soak).
    unsent = isinstance(reply, NoAnswer) and not reply.may_land
    return not unsent or (record.status.drain or state.drain) is not None


def _report_drain(
    state: DeregistrationState, step: CallDriver, reply: CallFailure, now: Now
) -> DeregistrationState:
    record = step.permission.record
    if _has_started(state, record, reply):
        state = _with_started_drain(state, record, now)
    left = drain_time_left(state, record, now)
    # A written clock stays as it is, whatever other clocks have made of it since.
    progress = record.status.drain or state.drain
    connections = reply.connections if isinstance(reply, StillRunning) else None
    if isinstance(reply, StillRunning) and progress is not None:
        ends = f"{progress.deadline:%H:%M:%S} UTC"
        message = f"waiting for connections to end, until {ends} at most"
        why = Explanation(Reason.DRAINING, message)
    else:
        why = describe_failure(reply, step.driver, step.operation)
    streak = state.streak.with_answer(step.operation, reply, now)
    pause = retry_delay(reply, streak.length, now)
    changed = (
        record.status.drain is None or record.status.drain.connections != connections
    )
    report = Report(
        _condition(record, conditions.DRAINED, why),
        drain=progress and attrs.evolve(progress, connections=connections),
        due=changed and now.monotonic - state.reported_at >= _CONNECTIONS_NEWS,
    )
    pause = max(min(pause, left), timedelta(0))
    if isinstance(reply, StillRunning):
        state = attrs.evolve(state, connections=connections)
    return attrs.evolve(state, streak=streak, report=report, pause=pause)


def _report_failure(
    state: DeregistrationState, step: CallDriver, reply: CallFailure, now: Now
) -> DeregistrationState:
    why = describe_failure(reply, step.driver, step.operation)
    streak = state.streak.with_answer(step.operation, reply, now)
    pause = retry_delay(reply, streak.length, now)
    condition = _condition(step.permission.record, conditions.DEREGISTERED, why)
    return attrs.evolve(
        state,
        streak=streak,
        report=Report(condition, next_attempt=now.wall + pause),
        pause=pause,
    )


def _condition(record: BackendRecord, kind: str, why: Explanation) -> Condition:
    return Condition(kind, False, why.reason, why.message, record.meta.generation)
