"""The life of a record up to `Registered`. Read from top to bottom.

Before it: the controller created or updated the record, or its driver, load balancer
or epoch changed. After it: `Registered` is True at the record's generation. The stages
are asked in order; the first that has something to do names the next step, and `learn`
takes in what came of it. The rules (model variants p07, p18, p19, p21):

1. An ensure goes out only under a permission: this incarnation's own write, or a quorum
   read, that showed the record live.
2. What the deregistrar must know before the first ensure is in the record by then: the
   address (in the spec where members are named after records, else in the status, and
   there only once the lock on the address is held), and `ensuring`.
3. `ensuring` names the incarnation that may have a call out. Only that one clears it,
   and only if all its calls, and its writes that clear it, had definite answers; any
   other first makes it `*`, which nobody clears. A record without any Registered
   condition whose address is in its spec counts as being ensured by whoever wrote it:
   that is the claim.
4. The record says for how long its ensures may take effect (Δ of the driver that is
   asked) before the first one that may for so long. The driver may be edited meanwhile,
   and views of it are of different age (w50).
5. While `ensuring` is `*`, an older call may land over a newer one: the ensure is sent
   once more when all older ones are over.
"""

from collections.abc import Callable
from datetime import timedelta

import attrs

from lbcf.core.lifecycle.steps import (
    CallDriver,
    Conflicted,
    Finish,
    Gone,
    LockHeld,
    LockTaken,
    Observed,
    Permission,
    ReadRecord,
    Refused,
    Released,
    Reply,
    Step,
    StillRunning,
    Succeeded,
    Superseded,
    TakeLock,
    Unanswered,
    Unheard,
    WriteSettling,
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
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    ANY_INCARNATION,
    BackendRecord,
    LoadBalancerDriver,
    Waiting,
)
from lbcf.core.model.values import AddressSource, MemberKey, Uid
from lbcf.core.reasons import Explanation, Reason


NO_ADDRESS_GIVEN = Unanswered(
    Reason.DRIVER_BAD_ANSWER, "answered Succ without a backendAddr", may_land=False
)

_LOOK_AGAIN = timedelta(seconds=5)


@attrs.frozen
class Doubt:
    """An own ensure without a definite answer.

    Attributes:
        generation: of the parameters that it carried.
        until: monotonic seconds until which it may land.
    """

    generation: int
    until: float


@attrs.frozen
class Enrolment:
    """What a registrar remembers of one record; all of it may be lost.

    Attributes:
        incarnation: who we are; new at every start of a process.
        first_seen: monotonic seconds at which this incarnation took it up.
        claimed: the generation for which no other incarnation can have an ensure out.
        doubt: the latest of our own ensures that had no definite answer; also left by a
            write that signs off and had none, with nothing that may land.
        stale_until: monotonic seconds until which such an ensure with parameters older
            than those of `doubt` may land.
        confirmed: the generation of an ensure that succeeded, and was sent when none with
            other parameters could land any more: its answer may come much later (w27).
        ensured_at: monotonic seconds of the last ensure that succeeded.
        due: ensure although it is registered (policy Always, confirmation).
        reset: why a registered record must be put back, empty where it need not.
        permission: the latest observation of this turn, or the write that began it.
        driver: who is to be asked, or why nobody can be.
        address: as found for a record that has none yet.
        locked: the lock on that address is ours.
        deregistrar: who ends records at present, as far as is known.
        ensured: the answer of an ensure that is not written down yet.
        streak: answers in a row that were no success.
        pause: ends the turn.
    """

    incarnation: str
    first_seen: float
    claimed: int | None = None
    doubt: Doubt | None = None
    stale_until: float = 0.0
    confirmed: int | None = None
    ensured_at: float | None = None
    due: bool = False
    reset: str = ""
    permission: Permission | None = None
    driver: LoadBalancerDriver | Explanation = UNKNOWN_DRIVER
    address: str = ""
    locked: bool = False
    deregistrar: str = ""
    ensured: Succeeded | None = None
    streak: Streak = NO_STREAK
    report: Report | None = None
    pause: timedelta | None = None
    is_over: bool = False

    @property
    def uncertain(self) -> bool:
        """Tell whether this incarnation may not sign off any more."""
        return self.doubt is not None

    def begin_turn(
        self,
        driver: LoadBalancerDriver | Explanation,
        address: str,
        permission: Permission | None = None,
    ) -> "Enrolment":
        """Start a visit: what the last one observed is void.

        Args:
            driver: who is to be asked now, or why nobody can be.
            address: where the backend itself says it listens, empty where unknown.
            permission: of a create or update that this process has just made.
        """
        # What a driver found stays; what the backend itself says is true only now, and
        # a lock on the address that it had before is none on the one that it has.
        if (
            isinstance(driver, Explanation)
            or driver.address_source is AddressSource.DRIVER
        ):
            address = self.address or address
        begun = attrs.evolve(
            self,
            driver=driver,
            address=address,
            locked=self.locked and address == self.address,
            permission=permission,
            ensured=None,
            report=None,
            pause=None,
        )
        return begun if permission is None else _missing(begun, permission.record)


def next_step(enrolment: Enrolment, moment: Moment) -> Step:
    """Say what to do now."""
    if enrolment.is_over:
        return Finish()
    if enrolment.permission is None:
        return ReadRecord()
    record = enrolment.permission.record
    steps = (stage(enrolment, record, moment) for stage in STAGES)
    return next((step for step in steps if step is not None), Finish())


Stage = Callable[[Enrolment, BackendRecord, Moment], Step | None]


def needs_turn(enrolment: Enrolment, record: BackendRecord) -> bool:
    """Tell whether anything is to be done for a record, or may be told of it."""
    return not record.is_deleting and (
        not record.is_registered or bool(enrolment.reset) or enrolment.due
    )


def _leave_alone(e: Enrolment, record: BackendRecord, m: Moment) -> Step | None:
    """A record that is ending, or that is as it should be, needs nothing."""
    if needs_turn(e, record):
        return None
    return Finish(next_ensure(e, record, m))


def next_ensure(e: Enrolment, record: BackendRecord, m: Moment) -> timedelta | None:
    """Say when a registered record is to be ensured again, None: never by the clock."""
    if record.is_deleting:
        return None
    if _is_always(record):
        last = e.first_seen if e.ensured_at is None else e.ensured_at
        rest = last + record.spec.ensure_policy.period.total_seconds() - m.monotonic
        return timedelta(seconds=max(0.0, rest))
    unconfirmed = e.confirmed != record.meta.generation
    if record.status.ensuring == ANY_INCARNATION and unconfirmed:
        return timedelta(seconds=max(0.0, _rest_of_confirming(e, record, m)))
    return None


def with_due(e: Enrolment, record: BackendRecord, m: Moment) -> Enrolment:
    """Note that the time has come to ensure again what is registered."""
    rest = next_ensure(e, record, m)
    return attrs.evolve(e, due=rest is not None and rest <= timedelta(0))


def _rest_of_confirming(e: Enrolment, record: BackendRecord, m: Moment) -> float:
    """Count the seconds until no ensure with other parameters can land any more.

    Those of older incarnations may have any; of our own, those of other generations.
    """
    driver = e.driver
    if isinstance(driver, Explanation):
        return DRIVER_RECHECK.total_seconds()
    settling = max(driver.settling(Operation.ENSURE_BACKEND), record.settling)
    until = max(e.first_seen + settling.total_seconds(), e.stale_until)
    if e.doubt is not None and e.doubt.generation != record.meta.generation:
        until = max(until, e.doubt.until)
    return until - m.monotonic


def _tell(e: Enrolment, record: BackendRecord, moment: Moment) -> Step | None:
    """Write what people should know before pausing."""
    report = e.report
    if report is not None and report.marker is not None:
        # Another incarnation may have signed since the call that is reported here.
        report = attrs.evolve(report, marker=marker(e, record))
    if report is None or not report.is_news(record):
        return None
    return WriteStatus(record, report.applied(record.status, moment.now))


def _rest(e: Enrolment, _r: BackendRecord, _m: Moment) -> Step | None:
    """End the turn where the last answer asked for time."""
    return None if e.pause is None else Finish(again_after=e.pause)


def _confess_reset(e: Enrolment, record: BackendRecord, m: Moment) -> Step | None:
    """Say durably that a member is missing before putting it back."""
    if not e.reset or not record.is_registered:
        return None
    condition = _not_registered(record, Reason.LOAD_BALANCER_RESET, e.reset)
    report = Report(condition, marker=marker(e, record))
    return WriteStatus(record, report.applied(record.status, m.now))


def _find_address(e: Enrolment, record: BackendRecord, _m: Moment) -> Step | None:
    """Ask the driver for the address that nobody else knows."""
    driver, permission = e.driver, e.permission
    if record.address or e.address or permission is None:
        return None
    if isinstance(driver, Explanation):
        return None
    if driver.address_source is AddressSource.BACKEND:
        return Finish(again_after=_LOOK_AGAIN)
    return CallDriver(Operation.GENERATE_BACKEND_ADDR, driver, permission, "")


def _lock(e: Enrolment, record: BackendRecord, _m: Moment) -> Step | None:
    """Keep every other record away from the address before it is written down."""
    driver = e.driver
    if e.locked or isinstance(driver, Explanation):
        return None
    if record.address and not record.is_inherited:
        return None  # by rule 2 the lock came before the address
    if driver.member_key is MemberKey.RECORD:
        return None
    # A drain that lands late takes the next owner out of service as well.
    wait = driver.settling(Operation.DEREGISTER_BACKEND)
    if driver.declares(Operation.DRAIN_BACKEND):
        wait = max(wait, driver.settling(Operation.DRAIN_BACKEND))
    waiting = record.status.waiting
    ended = waiting.holder if waiting is not None and waiting.is_over else Uid("")
    return TakeLock(driver, record, record.address or e.address, wait, ended)


def _write_address(e: Enrolment, record: BackendRecord, _m: Moment) -> Step | None:
    """Write down what is about to be registered, and by whom: the permission."""
    if record.address:
        return None
    status = attrs.evolve(
        record.status,
        address=e.address,
        ensuring=e.incarnation,
        deregistrar=e.deregistrar,
        waiting=None,
    )
    return WriteStatus(record, status)


def _mark(e: Enrolment, record: BackendRecord, _m: Moment) -> Step | None:
    """Make `ensuring` tell the truth before this incarnation's first call."""
    wanted = marker(e, record)
    covered = record.status.ensuring in {wanted, ANY_INCARNATION}
    # Under policy Always nobody needs to sign, but who has signed may still sign off.
    unsigned = _is_always(record) and not record.status.ensuring
    if covered or unsigned or _is_claimed(e, record):
        return None
    return WriteStatus(record, attrs.evolve(record.status, ensuring=wanted))


def _is_claimed(e: Enrolment, record: BackendRecord) -> bool:
    """Tell whether no other incarnation can have an ensure out, by our own write."""
    return e.claimed == record.meta.generation and not record.status.ensuring


def marker(e: Enrolment, record: BackendRecord) -> str:
    """Say what `ensuring` must be while this incarnation may have a call out.

    A settled record has no call out, so this incarnation may sign for it alone. So it
    may where it holds the claim, or has signed already.
    """
    mine = (
        record.status.ensuring == e.incarnation
        or record.is_settled
        or _is_claimed(e, record)
    )
    return e.incarnation if mine and not e.uncertain else ANY_INCARNATION


def _is_always(record: BackendRecord) -> bool:
    """Tell whether the deregistrar expects calls to be out at any time, marked or not."""
    return record.spec.ensure_policy.is_always


def _settling(e: Enrolment, record: BackendRecord, _m: Moment) -> Step | None:
    """Say durably for how long an ensure may take effect before the first that may."""
    if e.ensured is not None or isinstance(e.driver, Explanation):
        return None
    settling = e.driver.settling(Operation.ENSURE_BACKEND)
    return WriteSettling(record, settling) if settling > record.settling else None


def _ensure(e: Enrolment, record: BackendRecord, m: Moment) -> Step | None:
    """Register the backend, or make sure that it is as it should be."""
    if (
        e.ensured is not None
        or e.permission is None
        or isinstance(e.driver, Explanation)
    ):
        return None
    return CallDriver(
        Operation.ENSURE_BACKEND,
        e.driver,
        e.permission,
        record.address,
        final=_rest_of_confirming(e, record, m) <= 0,
    )


def _write_registered(e: Enrolment, record: BackendRecord, m: Moment) -> Step | None:
    """Write down the success; whoever signed alone, and is sure, signs off."""
    if e.ensured is None:
        return None
    message = f"{record.address} is registered"
    generation = record.meta.generation
    condition = Condition(
        conditions.REGISTERED, True, Reason.REGISTERED, message, generation
    )
    signed_off = marker(e, record) == e.incarnation
    injected = e.ensured.injected_info
    status = attrs.evolve(
        record.status,
        address=record.address,
        injected_info=record.status.injected_info if injected is None else injected,
        conditions=conditions.with_condition(
            record.status.conditions, condition, m.now
        ),
        ensuring="" if signed_off or _is_always(record) else ANY_INCARNATION,
        next_attempt=None,
    )
    if status == record.status:
        return Finish(next_ensure(e, record, m))
    return WriteStatus(record, status)


STAGES: tuple[Stage, ...] = (
    _leave_alone,
    _tell,
    _rest,
    _confess_reset,
    _find_address,
    _lock,
    _write_address,
    _mark,
    _settling,
    _ensure,
    _write_registered,
)


def learn(e: Enrolment, step: Step, reply: Reply, moment: Moment) -> Enrolment:
    """Take in what came of a step."""
    match reply:
        case Gone() | Released():
            return attrs.evolve(e, is_over=True)
        case Conflicted() | Unheard():
            return _unwritten(e, step, reply, moment)
        case Observed(permission) | Superseded(permission):
            return _observed(e, step, permission)
        case LockTaken():
            return attrs.evolve(e, locked=True)
        case LockHeld():
            return _waiting_for_lock(e, step, reply, moment)
        case Succeeded():
            return _succeeded(e, step, reply, moment)
        case StillRunning() | Refused() | Unanswered():
            return _not_registered_yet(e, step, reply, moment)


def _observed(e: Enrolment, step: Step, permission: Permission) -> Enrolment:
    """Look at the record anew; without a driver there is only something to tell."""
    e = attrs.evolve(e, permission=permission)
    record = permission.record
    if isinstance(step, WriteStatus):
        e = attrs.evolve(e, report=None)
        if record.is_registered and e.ensured is not None:
            e = attrs.evolve(e, reset="", due=False)
    if e.pause is not None or not needs_turn(e, record):
        return e
    return _missing(e, record)


def _unwritten(
    e: Enrolment, step: Step, reply: Conflicted | Unheard, moment: Moment
) -> Enrolment:
    """Read the record anew; whoever may have signed off unheard leaves that in doubt.

    Such a write is made as long as nobody else writes, and the record would be settled
    while the next ensure is out (w32). With a doubt the mark before that ensure is `*`,
    which is another version: the write can be made no more.
    """
    e = attrs.evolve(e, permission=None, ensured=None)
    if isinstance(reply, Conflicted) or not isinstance(step, WriteStatus):
        return e
    if step.status.ensuring:
        return e
    nothing_out = Doubt(step.record.meta.generation, moment.monotonic)
    return attrs.evolve(e, claimed=None, doubt=e.doubt or nothing_out)


def _missing(e: Enrolment, record: BackendRecord) -> Enrolment:
    """Tell what cannot be done without, where it is missing."""
    if isinstance(e.driver, Explanation):
        return _told(e, record, e.driver.reason, e.driver.message, DRIVER_RECHECK)
    knows = record.address or e.address
    if not knows and e.driver.address_source is AddressSource.BACKEND:
        message = "the backend's own address cannot be read at present"
        return _told(e, record, Reason.ADDRESS_UNKNOWN, message, _LOOK_AGAIN)
    return e


def _told(
    e: Enrolment, record: BackendRecord, reason: Reason, message: str, pause: timedelta
) -> Enrolment:
    """Report without having called anybody.

    Not of a member that is in and is only to be ensured again: it stays in.
    """
    if record.is_registered and not e.reset:
        return attrs.evolve(e, pause=pause)
    report = Report(_not_registered(record, reason, message))
    if record.is_inherited and not e.locked:
        # It still shows that nobody of us has had the lock on its address.
        report = attrs.evolve(
            report, condition=attrs.evolve(report.condition, observed_generation=0)
        )
    return attrs.evolve(e, report=report, pause=pause)


def _waiting_for_lock(
    e: Enrolment, step: Step, reply: LockHeld, moment: Moment
) -> Enrolment:
    """Wait for the end of the record that has the address, and say for whose."""
    if not isinstance(step, TakeLock):
        return e
    record = step.record
    free_at = moment.now + reply.again_after if reply.is_gone else None
    message = f"{step.address} is held by {_holder(record, reply)}"
    if free_at is None:
        message += "; waiting for its end"
    else:
        message += (
            ", which is gone; free once no call for its end can arrive any more, at "
            f"{free_at:%H:%M:%S} UTC at the latest"
        )
    e = _told(e, record, Reason.ADDRESS_IN_USE, message, reply.again_after)
    if e.report is None:
        return e
    waiting = Waiting(reply.uid) if reply.uid else None
    report = attrs.evolve(e.report, next_attempt=free_at, waiting=waiting)
    return attrs.evolve(e, report=report)


def _holder(record: BackendRecord, reply: LockHeld) -> str:
    """Name the holder of a lock to whoever may know its name."""
    if reply.holder is None:
        return f"Lease {reply.lock}, whose holderIdentity says nothing that we wrote"
    if reply.holder.namespace != record.meta.key.namespace:
        return "a record of another namespace"
    return f"record {reply.holder.name}"


def _succeeded(e: Enrolment, step: Step, reply: Succeeded, moment: Moment) -> Enrolment:
    """Keep the answer until it is written down."""
    if not isinstance(step, CallDriver):
        return e
    if step.operation is Operation.GENERATE_BACKEND_ADDR:
        if not reply.backend_addr:
            return _not_registered_yet(e, step, NO_ADDRESS_GIVEN, moment)
        return attrs.evolve(e, address=reply.backend_addr, streak=NO_STREAK)
    record = step.permission.record
    return attrs.evolve(
        e,
        ensured=reply,
        ensured_at=moment.monotonic,
        streak=NO_STREAK,
        confirmed=record.meta.generation if step.final else e.confirmed,
    )


def _doubted(e: Enrolment, step: CallDriver, moment: Moment) -> Enrolment:
    """Remember an ensure that may land at any time from now on."""
    settling = step.driver.settling(step.operation).total_seconds()
    generation = step.permission.record.meta.generation
    stale = e.stale_until
    if e.doubt is not None and e.doubt.generation != generation:
        stale = max(stale, e.doubt.until)
    doubt = Doubt(generation, moment.monotonic + settling)
    return attrs.evolve(e, doubt=doubt, stale_until=stale)


def _not_registered_yet(
    e: Enrolment,
    step: Step,
    reply: StillRunning | Refused | Unanswered,
    moment: Moment,
) -> Enrolment:
    """Try again later, and tell why it is not done."""
    if not isinstance(step, CallDriver):
        return e
    record = step.permission.record
    # One that is Running ends with the Succ that is waited for (docs/protocol.md).
    may_land = isinstance(reply, Unanswered) and reply.may_land
    if may_land and step.operation is Operation.ENSURE_BACKEND:
        e = _doubted(e, step, moment)
    reason, message = told(reply, step.driver, step.operation)
    streak = e.streak.with_answer(step.operation, reply)
    pause = retry_delay(reply, streak.length, moment)
    report = Report(
        _not_registered(record, reason, message),
        marker=marker(e, record) if record.address else None,
        next_attempt=moment.now + pause,
    )
    # A member that is in stays in while ensuring it again fails: the report would call
    # it unregistered. It is told only where the present generation is not in.
    report_or_none = None if record.is_registered else report
    return attrs.evolve(e, streak=streak, report=report_or_none, pause=pause)


def _not_registered(record: BackendRecord, reason: Reason, message: str) -> Condition:
    """Say that a record is not in its load balancer, or not as it should be."""
    generation = record.meta.generation
    return Condition(conditions.REGISTERED, False, reason, message, generation)


def claim_after_update(
    claimed: int | None, before: BackendRecord, after: BackendRecord
) -> int | None:
    """Say what an incarnation may claim after its own update of a record's spec.

    Its compare-and-swap showed the version that it changed: if that was settled, or
    claimed already, nobody else can have an ensure out for the new generation. Under
    policy Always others may have one out that no version shows.
    """
    if before.is_settled:
        return after.meta.generation
    was_claimed = claimed == before.meta.generation and not before.status.ensuring
    return after.meta.generation if was_claimed and not _is_always(before) else None
