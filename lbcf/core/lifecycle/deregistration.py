"""The end of a record: drain, deregister, finalizer off. Read from top to bottom.

Before it: `lbcf.deregistrar` saw a deletionTimestamp. After it: the record is gone.
The stages below are asked in order; the first that has something to do names the next
step, and `learn` takes in what came of it. The rules and the interleavings behind them
(model variants p04, p18 and p21; without them w03 to w09):

1. Calls go out only under a permission: a quorum read that showed the record deleting.
   Where members are named after their records, the watch's word is enough: a deletion
   is never taken back, nobody else writes to the record after it, and a call that comes
   after the record's end finds nobody's member. That saves a third of the requests.
2. Without an address nothing was ever registered.
3. The drain's clock starts with the first call that may have reached the driver, and is
   written once it has to wait: while nobody could be asked, nothing was drained. Who
   has begun to count goes on by its monotonic clock; who finds a clock that is written
   has only the wall clock, which may be another one, and takes no more of it than one
   whole drain. It is over, too, when the record says that its
   backend is gone: the address may be another's.
4. A settled record is deregistered once. For any other, an ensure may still be out: one
   call at once so that traffic stops, and one that counts after all ensures are over.
5. The finalizer goes by compare-and-swap, after a success that counts, of this
   incarnation. What counted counts for later versions, too: no registrar writes into a
   record that it has read as deleting.

A call without a definite answer may land when the record is gone. Where members are known
by address alone it is the lock that keeps the address from its next owner until then,
also after a crash, when nobody remembers the call.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum

import attrs

from lbcf.core.lifecycle.steps import (
    Abandoned,
    CallDriver,
    Conflicted,
    Deregistered,
    Finish,
    Gone,
    NeverRegistered,
    Observed,
    Permission,
    ReadRecord,
    Refused,
    Released,
    ReleaseRecord,
    Reply,
    Step,
    StillRunning,
    Succeeded,
    Superseded,
    Unanswered,
    WriteStatus,
)
from lbcf.core.lifecycle.turn import (
    DRIVER_RECHECK,
    NO_STREAK,
    UNKNOWN_DRIVER,
    Moment,
    Report,
    Streak,
    retry_delay,
    told,
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
from lbcf.core.model.values import MemberKey
from lbcf.core.reasons import Explanation, Reason


_CLOCK_WAS_SET = timedelta(seconds=5)
"""Two readings of one deadline that differ by more are those of different clocks."""
_ALMOST_A_SECOND = timedelta(seconds=1, microseconds=-1)
_CONNECTIONS_NEWS = 10.0
"""Seconds between two writes that only tell another number of connections."""


@attrs.frozen
class Ending:
    """What a deregistrar remembers of one deletion; all of it may be lost.

    Attributes:
        first_seen: monotonic seconds at which this incarnation saw the deletion.
        incarnation: who we are; new at every start of a process.
        unanswered: a call of ours had no definite answer, and may take effect later.
        is_clean: we have let the record go, nobody else has called for its end, and all
            of our calls had definite answers.
        permission: the latest observation of this turn.
        driver: who is to be asked, or why nobody can be.
        drain: how far a drain is, before it is written.
        drain_until: monotonic seconds at which it is over; None: it has not begun, or
            another incarnation began it.
        drained: the driver said that nothing is left.
        early_done: a deregister succeeded while ensures might still be out.
        final_done: a deregister succeeded that nothing can undo.
        streak: answers in a row that were no success.
        told_at: monotonic seconds of the last report.
        pause: ends the turn.
    """

    first_seen: float
    incarnation: str = ""
    unanswered: bool = False
    is_clean: bool = False
    permission: Permission | None = None
    driver: LoadBalancerDriver | Explanation = UNKNOWN_DRIVER
    drain: DrainProgress | None = None
    drain_until: float | None = None
    drained: bool = False
    early_done: bool = False
    final_done: bool = False
    streak: Streak = NO_STREAK
    told_at: float = 0.0
    report: Report | None = None
    pause: timedelta | None = None
    is_over: bool = False

    def begin_turn(
        self, driver: LoadBalancerDriver | Explanation, seen: Permission | None = None
    ) -> "Ending":
        """Start a visit: permissions and reports of the last one are void.

        Args:
            driver: who is to be asked, or why nobody can be.
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
    """How far an end is, as far as it matters who goes first.

    Attributes:
        FLOWING: new traffic may still come; nothing that was asked has stopped it.
        ENDING: nothing new comes; the driver is still to be asked.
        RELEASING: only the finalizer is left.
    """

    FLOWING = "flowing"
    ENDING = "ending"
    RELEASING = "releasing"


def phase_of(ending: Ending, record: BackendRecord) -> Phase:
    """Say how far a record's end is, by what is remembered and what is written."""
    if ending.final_done:
        return Phase.RELEASING
    has_begun = ending.drained or ending.early_done
    if has_begun or ending.drain is not None or record.status.drain is not None:
        return Phase.ENDING
    return Phase.FLOWING


Stage = Callable[[Ending, BackendRecord, Moment], Step | None]


def next_step(ending: Ending, moment: Moment) -> Step:
    """Say what to do now."""
    if ending.is_over:
        return Finish()
    if ending.permission is None:
        return ReadRecord()
    record = ending.permission.record
    steps = (stage(ending, record, moment) for stage in STAGES)
    return next((step for step in steps if step is not None), Finish())


def _leave_alone(_e: Ending, record: BackendRecord, _m: Moment) -> Step | None:
    """A record that lives, or that we do not hold, is not ours to end."""
    return None if record.is_deleting and record.is_held else Finish()


def _abandon(_e: Ending, record: BackendRecord, _m: Moment) -> Step | None:
    """A person ordered to let go."""
    why = record.meta.abandoned
    return ReleaseRecord(Abandoned(record, why)) if why else None


def _never_registered(_e: Ending, record: BackendRecord, _m: Moment) -> Step | None:
    """The address is written before the first ensure: without one there was none."""
    return None if record.address else ReleaseRecord(NeverRegistered(record))


def _tell(ending: Ending, record: BackendRecord, moment: Moment) -> Step | None:
    """Write what people should know before pausing."""
    report = ending.report
    if report is None or not report.is_news(record):
        return None
    return WriteStatus(record, report.applied(record.status, moment.now))


def _rest(ending: Ending, _r: BackendRecord, _m: Moment) -> Step | None:
    """End the turn where the last answer asked for time."""
    return None if ending.pause is None else Finish(again_after=ending.pause)


def _sign(ending: Ending, record: BackendRecord, _m: Moment) -> Step | None:
    """Let whoever the record names as its deregistrar know that it is not alone.

    Only where members are known by address alone: there it may tell the next owner of
    the address that no call is out, and would not know of ours (w34).
    """
    driver, named = ending.driver, record.status.deregistrar
    if isinstance(driver, Explanation) or driver.member_key is MemberKey.RECORD:
        return None
    if named in {"", ANY_INCARNATION, ending.incarnation}:
        return None
    status = attrs.evolve(record.status, deregistrar=ANY_INCARNATION)
    return WriteStatus(record, status)


def _drain(ending: Ending, record: BackendRecord, moment: Moment) -> Step | None:
    """Let the backend finish, as long as the driver can and the deadline allows."""
    driver, permission = ending.driver, ending.permission
    if isinstance(driver, Explanation) or permission is None or ending.drained:
        return None
    if record.status.backend_gone:
        return None
    if not record.spec.drain.enabled or not driver.declares(Operation.DRAIN_BACKEND):
        return None
    left = rest_of_drain(ending, record, moment)
    if left <= timedelta(0):
        return None
    return CallDriver(
        Operation.DRAIN_BACKEND,
        driver,
        permission,
        record.address,
        drain=drain_progress(ending, record, moment.now + left),
        urgent=phase_of(ending, record) is Phase.FLOWING,
    )


def rest_of_drain(ending: Ending, record: BackendRecord, moment: Moment) -> timedelta:
    """Say how long the drain may go on: all of its time where it has not begun."""
    whole = record.spec.drain.longest
    if ending.drain_until is not None:
        return timedelta(seconds=ending.drain_until - moment.monotonic)
    written = record.status.drain
    return whole if written is None else _rest_of_written(record, written, moment)


def _rest_of_written(
    record: BackendRecord, written: DrainProgress, moment: Moment
) -> timedelta:
    """Say what a clock leaves that another incarnation, or an earlier one, has written."""
    whole = record.spec.drain.longest
    # Neither clock need be right. That of whoever began was behind where the drain was
    # over before the API server could have let it begin; ours is where more is left than
    # there was.
    deadline = max(written.deadline, (record.meta.deleting_since or moment.now) + whole)
    return min(deadline - moment.now, whole)


def drain_progress(
    ending: Ending, record: BackendRecord, deadline: datetime
) -> DrainProgress:
    """Say when the drain began and must end: as written, as remembered, or as counted.

    Args:
        ending: what is remembered.
        record: what is written.
        deadline: as counted by the clock as it is now.
    """
    known = record.status.drain or ending.drain
    if known is not None and abs(known.deadline - deadline) < _CLOCK_WAS_SET:
        return known
    whole = record.spec.drain.longest
    began = (deadline - whole).replace(microsecond=0)
    # Written in whole seconds; rounded down, the deadline would take part of the drain.
    ends = (deadline + _ALMOST_A_SECOND).replace(microsecond=0)
    return DrainProgress(began, ends)


def _is_in_time(ending: Ending, moment: Moment) -> bool:
    """Tell whether a driver should still spare what slipped in after the drain."""
    return ending.drain_until is None or moment.monotonic < ending.drain_until


def is_final(ending: Ending, record: BackendRecord, moment: Moment) -> bool:
    """Tell whether a deregister sent now cannot be undone by an ensure still out."""
    return record.is_settled or _rest_of_confirming(ending, record, moment) <= 0


def _rest_of_confirming(ending: Ending, record: BackendRecord, moment: Moment) -> float:
    """Count the seconds until every ensure sent before the deletion is over."""
    driver = ending.driver
    if isinstance(driver, Explanation):
        return 0.0
    # Those that are out went by the driver as their sender saw it: the record says.
    settling = max(driver.settling(Operation.ENSURE_BACKEND), record.settling)
    return ending.first_seen + settling.total_seconds() - moment.monotonic


def _deregister(ending: Ending, record: BackendRecord, moment: Moment) -> Step | None:
    """Take the backend out; again, once all ensures are over, if any may be out."""
    driver, permission = ending.driver, ending.permission
    if ending.final_done or isinstance(driver, Explanation) or permission is None:
        return None
    final = is_final(ending, record, moment)
    if ending.early_done and not final:
        return Finish(timedelta(seconds=_rest_of_confirming(ending, record, moment)))
    return CallDriver(
        Operation.DEREGISTER_BACKEND,
        driver,
        permission,
        record.address,
        drained=ending.drained and _is_in_time(ending, moment),
        final=final,
        urgent=phase_of(ending, record) is Phase.FLOWING,
    )


def _release(ending: Ending, record: BackendRecord, _m: Moment) -> Step | None:
    """Let the record go, with the proof that its address is out."""
    return ReleaseRecord(Deregistered(record)) if ending.final_done else None


STAGES: tuple[Stage, ...] = (
    _leave_alone,
    _abandon,
    _never_registered,
    _tell,
    _rest,
    _sign,
    _drain,
    _deregister,
    _release,
)


def learn(ending: Ending, step: Step, reply: Reply, moment: Moment) -> Ending:
    """Take in what came of a step."""
    match reply:
        case Gone():
            return attrs.evolve(ending, is_over=True)
        case Released():
            return attrs.evolve(ending, is_over=True, is_clean=_is_clean(ending, step))
        case Conflicted():
            return attrs.evolve(ending, permission=None)
        case Observed(permission):
            if isinstance(step, WriteStatus):
                ending = attrs.evolve(ending, told_at=moment.monotonic, report=None)
            return _observed(ending, permission, moment)
        case Superseded(permission):
            return _observed(ending, permission, moment)
        case Succeeded() | StillRunning() | Refused() | Unanswered():
            return _called(ending, step, reply, moment)
        case _:
            return ending


def _is_clean(ending: Ending, step: Step) -> bool:
    """Tell whether no call for a record that we have just let go can be out.

    The version that it went from says so: whoever else wanted to call had to change it.
    One that went by somebody else's hand says nothing (w37).
    """
    if not isinstance(step, ReleaseRecord):
        return False
    match step.proof:
        case NeverRegistered():
            return True
        case Deregistered(record):
            alone = record.status.deregistrar == ending.incarnation != ""
            return alone and not ending.unanswered
        case Abandoned():
            return False


def _observed(ending: Ending, permission: Permission, moment: Moment) -> Ending:
    """Look at the record anew; without a driver there is only something to tell."""
    ending = attrs.evolve(
        _with_written_drain(ending, permission.record, moment), permission=permission
    )
    record, driver = permission.record, ending.driver
    needless = ending.pause is not None or not record.address
    if needless or not isinstance(driver, Explanation):
        return ending
    message = (
        f"{driver.message}, or set annotation {names.ANNOTATION_ABANDON} on this record "
        f"to let go of {record.address} without deregistering it"
    )
    condition = _condition(record, conditions.DEREGISTERED, driver.reason, message)
    return attrs.evolve(ending, report=Report(condition), pause=DRIVER_RECHECK)


def _called(
    ending: Ending,
    step: Step,
    reply: Succeeded | StillRunning | Refused | Unanswered,
    moment: Moment,
) -> Ending:
    """Take in a driver's answer, or the lack of one."""
    if not isinstance(step, CallDriver):
        return ending
    if isinstance(reply, Unanswered) and reply.may_land:
        ending = attrs.evolve(ending, unanswered=True)
    if isinstance(reply, Succeeded):
        return _succeeded(ending, step, moment)
    if step.operation is Operation.DRAIN_BACKEND:
        return _still_draining(ending, step, reply, moment)
    return _not_deregistered(ending, step, reply, moment)


def _succeeded(ending: Ending, step: CallDriver, moment: Moment) -> Ending:
    """Go on to the next stage."""
    ending = attrs.evolve(ending, streak=NO_STREAK)
    record = step.permission.record
    if step.operation is Operation.DRAIN_BACKEND:
        return attrs.evolve(_begun(ending, record, moment), drained=True)
    if step.final:
        return attrs.evolve(ending, early_done=True, final_done=True)
    message = (
        f"{step.address} is out of the load balancer; deregistered once more when no "
        "registration sent earlier can arrive any more"
    )
    condition = _condition(
        record, conditions.DEREGISTERED, Reason.WAITING_TO_CONFIRM, message
    )
    return attrs.evolve(ending, early_done=True, report=Report(condition))


def _with_written_drain(
    ending: Ending, record: BackendRecord, moment: Moment
) -> Ending:
    """Count from now on what is left of a drain that another incarnation began.

    Also where this one began to count by a view that did not show it yet.
    """
    written, own = record.status.drain, ending.drain
    if written is None or (own and own.deadline == written.deadline):
        return ending
    left = _rest_of_written(record, written, moment).total_seconds()
    clock = attrs.evolve(written, connections=None)
    return attrs.evolve(ending, drain=clock, drain_until=moment.monotonic + left)


def _begun(ending: Ending, record: BackendRecord, moment: Moment) -> Ending:
    """Count from now on what is left of the drain, by the monotonic clock.

    A call that waited for its place at the driver left long after it was decided on:
    what is not written yet begins with the answer.
    """
    ending = _with_written_drain(ending, record, moment)
    if ending.drain_until is not None:
        return ending
    left = rest_of_drain(ending, record, moment)
    return attrs.evolve(
        ending,
        drain=drain_progress(ending, record, moment.now + left),
        drain_until=moment.monotonic + left.total_seconds(),
    )


def _has_begun(
    ending: Ending, record: BackendRecord, reply: StillRunning | Refused | Unanswered
) -> bool:
    """Tell whether the drain's clock runs: some call of it may have been heard.

    Were it started by a driver that cannot be reached, the deadline could pass with
    traffic still coming in, and all of it would be cut (seen in a soak).
    """
    unsent = isinstance(reply, Unanswered) and not reply.may_land
    return not unsent or (record.status.drain or ending.drain) is not None


def _still_draining(
    ending: Ending,
    step: CallDriver,
    reply: StillRunning | Refused | Unanswered,
    moment: Moment,
) -> Ending:
    """Come again before the deadline, and tell who is waited for."""
    record = step.permission.record
    if _has_begun(ending, record, reply):
        ending = _begun(ending, record, moment)
    left = rest_of_drain(ending, record, moment)
    # What is written stays, whichever clocks read it since.
    progress = record.status.drain or ending.drain
    connections = reply.connections if isinstance(reply, StillRunning) else None
    if isinstance(reply, StillRunning) and progress is not None:
        reason = Reason.DRAINING
        ends = f"{progress.deadline:%H:%M:%S} UTC"
        message = f"waiting for connections to end, until {ends} at most"
    else:
        reason, message = told(reply, step.driver, step.operation)
    streak = ending.streak.with_answer(step.operation, reply)
    pause = retry_delay(reply, streak.length, moment)
    changed = (
        record.status.drain is None or record.status.drain.connections != connections
    )
    report = Report(
        _condition(record, conditions.DRAINED, reason, message),
        drain=progress and attrs.evolve(progress, connections=connections),
        due=changed and moment.monotonic - ending.told_at >= _CONNECTIONS_NEWS,
    )
    pause = max(min(pause, left), timedelta(0))
    return attrs.evolve(ending, streak=streak, report=report, pause=pause)


def _not_deregistered(
    ending: Ending,
    step: CallDriver,
    reply: StillRunning | Refused | Unanswered,
    moment: Moment,
) -> Ending:
    """Try again later, and tell why it is not done."""
    reason, message = told(reply, step.driver, step.operation)
    streak = ending.streak.with_answer(step.operation, reply)
    pause = retry_delay(reply, streak.length, moment)
    condition = _condition(
        step.permission.record, conditions.DEREGISTERED, reason, message
    )
    return attrs.evolve(
        ending,
        streak=streak,
        report=Report(condition, next_attempt=moment.now + pause),
        pause=pause,
    )


def _condition(
    record: BackendRecord, kind: str, reason: Reason, message: str
) -> Condition:
    """Say that something is not so yet."""
    return Condition(kind, False, reason, message, record.meta.generation)
