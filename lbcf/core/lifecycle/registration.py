"""The life of a record up to `Registered`: a state machine without I/O.

`next_step` asks the stages below in order, and the first that has something to do names
the step; `learn` takes in what came of it. It ends with `Registered` True at the record's
generation. The rules, under the numbers that they have in docs/lifecycle.md, which explains
them:

1. What the deregistrar must know before the first ensure is in the record by then: the
   address, in the spec where members are named after records, else in the status (w06).
2. An ensure goes out only under a permission: this incarnation's own write, or a quorum
   read, that showed the record live (w01, w02).
3. `ensuring` names the incarnation that may have a call out, and is written before that
   call. Only that incarnation clears it, and only if all its writes that clear it had
   definite answers (w32), and all its calls, too, or an ensure has succeeded that was sent
   when those without one were over (w51, w52); any other first makes it `*`, which nobody
   clears (w10 to w16). A record without any Registered condition whose address is in its spec counts
   as being ensured by whoever wrote it: that is the claim. While `ensuring` is `*`, an
   older call may take effect after a newer one: the ensure is sent once more when all
   older ones are over (w25 to w27).
4. The record says for how long its ensures may take effect (Δ of the driver that is
   asked) before the first one that may for so long. The driver may be edited meanwhile,
   and two processes may have read different versions of it (w50).
5. Where members are known by address alone, the address is written only once the lock on
   it is held (w03 to w09).
6. A spec that changes is ensured again. The claim survives an update of our own only if
   the version before was settled or claimed (`claim_after_update`, w17).
7. That a member was lost is written down before it is put back (w18);
   `lbcf.controller.member_resync` finds out which are.
8. Kept by `lbcf.core.selection.location`: on the place of a backend.
9. A record whose pod waits for the end of all its records (`is_gated`) is ensured for the
   first time only after a quorum read of the pod, made once the record existed, showed that
   it is not being deleted (w60, w61).
10. Who has marked a record that ends signs it off: once none of its ensures is out, and none
   will be, `ensuring` says so, and the deregistrar need not wait for Δ (w53 to w55, w63).
11. A mark of a run in whose place this one provably began is like our own, and so are its
   ensures (w56 to w58); we sign by a name that has that run's in it, and our own behind
   that: a write of that run that is made late would else clear our mark (w59).
12. A record is ensured for the first time only after a quorum read of its load balancer, made
   once the record existed, showed that this is not being deleted: whoever deletes it lists
   its records before (w86, w87).
"""

from collections.abc import Callable
from datetime import timedelta

import attrs

from lbcf.core.lifecycle.in_service import in_service, with_in_service
from lbcf.core.lifecycle.steps import (
    BalancerRead,
    CallDriver,
    CallFailure,
    CallRefused,
    Conflicted,
    EndCovered,
    Finish,
    LockHeld,
    LockTaken,
    NoAnswer,
    Observed,
    Permission,
    PodRead,
    ReadBalancer,
    ReadPod,
    ReadRecord,
    RecordGone,
    Released,
    Reply,
    Step,
    StillRunning,
    Succeeded,
    Superseded,
    TakeLock,
    WriteSettling,
    WriteStatus,
    WriteUnconfirmed,
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
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    ANY_INCARNATION,
    SIGNED_OFF,
    BackendRecord,
    LoadBalancerDriver,
    PodRef,
    Waiting,
)
from lbcf.core.model.values import AddressSource, MemberKey, ObjectKey
from lbcf.core.reasons import Explanation, Reason


NO_ADDRESS_GIVEN = NoAnswer(
    Reason.DRIVER_BAD_ANSWER, "answered Succ without a backendAddr", may_land=False
)

_LOOK_AGAIN = timedelta(seconds=5)

_POD_ENDS = Explanation(
    Reason.POD_TERMINATING, "the pod is being deleted, so it is not registered"
)
_BALANCER_ENDS = Explanation(
    Reason.LOAD_BALANCER_DELETING,
    "the load balancer is being deleted, is gone, or was made anew: nothing is registered "
    "there any more for this record",
)


@attrs.frozen
class UncertainCall:
    """An ensure of this incarnation without a definite answer.

    Attributes:
        generation: of the parameters that it carried; 0: not known.
        until: monotonic seconds until which it may take effect.
    """

    generation: int
    until: float


@attrs.frozen
class RegistrationState:
    """What a registrar remembers of one record; a crash may lose all of it.

    Attributes:
        incarnation: who we are; new at every start of a process.
        first_seen: monotonic seconds at which this incarnation took it up.
        claimed: the generation for which no other incarnation can have an ensure out.
        uncertain_call: the latest of our own ensures that had no definite answer; None,
            too, when one that was sent after its time has succeeded.
        unheard: a write that cleared `ensuring` had no answer.
        running_until: monotonic seconds until which an ensure may take effect that was
            answered by Running; 0: there was a Succ since.
        stale_until: monotonic seconds until which such an ensure with parameters older
            than those of `uncertain_call` may take effect.
        confirmed: the generation of an ensure that succeeded, and was sent when none with
            other parameters could take effect any more (w27).
        ensured_at: monotonic seconds of the last ensure that succeeded.
        due: ensure although it is registered (policy Always, confirmation).
        reset: why a registered record must be ensured again, such as a load balancer that
            lost its members; empty where it need not.
        permission: the latest observation of this turn, or the write that began it.
        driver: the driver to call, or why there is none.
        address: as found for a record that has none yet.
        locked: this record holds the lock on that address.
        lock_settling: what that lock says of calls for the record's end.
        pod_seen: its pod was read since it exists, and was not being deleted.
        balancer_seen: its load balancer was read since it exists, and was not being
            deleted.
        deregistrar: the incarnation that deregisters at present, as far as is known.
        ensured: the answer of an ensure that is not written to the record yet.
        streak: failures in a row.
        report: what is to be written into the record's conditions.
        pause: ends the turn; until the next one.
    """

    incarnation: str
    first_seen: float
    claimed: int | None = None
    uncertain_call: UncertainCall | None = None
    unheard: bool = False
    running_until: float = 0.0
    stale_until: float = 0.0
    confirmed: int | None = None
    ensured_at: float | None = None
    due: bool = False
    reset: str = ""
    permission: Permission | None = None
    driver: LoadBalancerDriver | Explanation = UNKNOWN_DRIVER
    address: str = ""
    locked: bool = False
    lock_settling: timedelta = timedelta(0)
    pod_seen: bool = False
    balancer_seen: bool = False
    deregistrar: str = ""
    ensured: Succeeded | None = None
    streak: FailureStreak = NO_FAILURES
    report: Report | None = None
    pause: timedelta | None = None
    is_over: bool = False

    @property
    def is_uncertain(self) -> bool:
        """Return whether this incarnation may not clear `ensuring` now."""
        return self.uncertain_call is not None or self.unheard

    @property
    def out_until(self) -> float:
        """Return until when one of our own ensures may take effect, 0: none may."""
        if self.uncertain_call is None:
            return self.running_until
        return max(self.uncertain_call.until, self.stale_until, self.running_until)

    def begin_turn(
        self,
        driver: LoadBalancerDriver | Explanation,
        address: str,
        permission: Permission | None = None,
    ) -> "RegistrationState":
        """Begin a turn: observations and permissions of the last one are void.

        Args:
            driver: the driver to call now, or why there is none.
            address: the backend's own address as host:port, empty where unknown.
            permission: of a create or update that this process has just made.
        """
        # An address from generateBackendAddr stays. One that the backend reports is true
        # only now, and a lock on its former address does not cover the present one.
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
        return (
            begun if permission is None else _report_missing(begun, permission.record)
        )


def next_step(state: RegistrationState, now: Now) -> Step:
    """Return the next step; `Finish` ends the turn."""
    if state.is_over:
        return Finish()
    if state.permission is None:
        return ReadRecord()
    record = state.permission.record
    steps = (stage(state, record, now) for stage in STAGES)
    return next((step for step in steps if step is not None), Finish())


Stage = Callable[[RegistrationState, BackendRecord, Now], Step | None]


def needs_turn(state: RegistrationState, record: BackendRecord) -> bool:
    """Return whether a record is to be ensured, or a condition of it to be written."""
    return not record.is_deleting and (
        not record.is_registered or bool(state.reset) or state.due
    )


def _sign_off(state: RegistrationState, record: BackendRecord, now: Now) -> Step | None:
    """Write into a record that ends that no ensure is out (rule 10)."""
    rest = rest_to_sign_off(state, record, now)
    if rest is None:
        return None
    if rest > timedelta(0):
        return Finish(rest)
    return WriteStatus(record, attrs.evolve(record.status, ensuring=SIGNED_OFF))


def rest_to_sign_off(
    state: RegistrationState, record: BackendRecord, now: Now
) -> timedelta | None:
    """Return how long it is until a record that ends is signed off, None: never by us."""
    if not record.is_deleting or record.is_settled or not record.address:
        return None
    mine = is_of_line(record.status.ensuring, state.incarnation)
    if not (mine or _is_claimed(state, record)) or _is_always(record):
        return None
    return timedelta(seconds=max(0.0, state.out_until - now.monotonic))


def _leave_alone(
    state: RegistrationState, record: BackendRecord, now: Now
) -> Step | None:
    """A record that is being deleted, or that is as it should be, needs nothing."""
    if needs_turn(state, record):
        return None
    return Finish(next_ensure(state, record, now))


def next_ensure(
    state: RegistrationState, record: BackendRecord, now: Now
) -> timedelta | None:
    """Return the time until a registered record is due again, None: never by time."""
    if record.is_deleting:
        return None
    if _is_always(record):
        last = state.first_seen if state.ensured_at is None else state.ensured_at
        rest = last + record.spec.ensure_policy.period.total_seconds() - now.monotonic
        return timedelta(seconds=max(0.0, rest))
    unconfirmed = state.confirmed != record.meta.generation
    mark = record.status.ensuring
    if mark and (unconfirmed or is_of_line(mark, state.incarnation)):
        return max(_rest_to_confirm(state, record, now), timedelta(0))
    return None


def with_due(
    state: RegistrationState, record: BackendRecord, now: Now
) -> RegistrationState:
    """Set `due` on a state where the time of `next_ensure` is over."""
    rest = next_ensure(state, record, now)
    return attrs.evolve(state, due=rest is not None and rest <= timedelta(0))


def _rest_to_confirm(
    state: RegistrationState, record: BackendRecord, now: Now
) -> timedelta:
    """Return how long it is until no ensure with other parameters can take effect."""
    driver = state.driver
    if isinstance(driver, Explanation):
        return DRIVER_RECHECK
    settling = max(driver.settling(Operation.ENSURE_BACKEND), record.settling)
    is_ours = is_of_line(record.status.ensuring, state.incarnation)
    until = state.stale_until
    # Ensures of older incarnations may have any parameters; of our own only those of
    # other generations have others. All of ours must be over before the mark is cleared.
    if not is_ours:
        until = max(until, state.first_seen + settling.total_seconds())
    call = state.uncertain_call
    if call is not None and (is_ours or call.generation != record.meta.generation):
        until = max(until, call.until)
    # In microseconds, as the queue waits: a rest of less would be no wait, and not over.
    return timedelta(seconds=until - now.monotonic)


def _write_condition(
    state: RegistrationState, record: BackendRecord, now: Now
) -> Step | None:
    """Write the condition of what came of a step before the turn ends."""
    report = state.report
    if report is not None and report.marker is not None:
        # Another incarnation may have signed since the call that is reported here.
        report = attrs.evolve(report, marker=marker(state, record))
    if report is None or not report.is_news(record):
        return None
    return WriteStatus(record, report.applied(record.status, now.wall))


def _wait(state: RegistrationState, _record: BackendRecord, _now: Now) -> Step | None:
    """End the turn after an answer that is to be waited for."""
    return None if state.pause is None else Finish(again_after=state.pause)


def _record_reset(
    state: RegistrationState, record: BackendRecord, now: Now
) -> Step | None:
    """Write that the member is missing before it is put back (w18)."""
    if not state.reset or not record.is_registered:
        return None
    why = Explanation(Reason.LOAD_BALANCER_RESET, state.reset)
    condition = _not_registered(record, why)
    report = Report(condition, marker=marker(state, record))
    return WriteStatus(record, report.applied(record.status, now.wall))


def _find_address(
    state: RegistrationState, record: BackendRecord, _now: Now
) -> Step | None:
    """Call generateBackendAddr where only the driver knows the address."""
    driver, permission = state.driver, state.permission
    if record.address or state.address or permission is None:
        return None
    if isinstance(driver, Explanation):
        return None
    if driver.address_source is AddressSource.BACKEND:
        return Finish(again_after=_LOOK_AGAIN)
    return CallDriver(Operation.GENERATE_BACKEND_ADDR, driver, permission, "")


def _take_lock(
    state: RegistrationState, record: BackendRecord, _now: Now
) -> Step | None:
    """Take the lock on the address before the address is written."""
    driver = state.driver
    if state.locked or isinstance(driver, Explanation):
        return None
    if record.address and not record.is_legacy:
        return None  # by rule 5 the lock came before the address
    if driver.member_key is MemberKey.RECORD:
        return None
    address = record.address or state.address
    return TakeLock(driver, record, address, driver.end_settling, record.status.waiting)


def _write_address(
    state: RegistrationState, record: BackendRecord, _now: Now
) -> Step | None:
    """Write the address and `ensuring`; the write is the permission to ensure."""
    if record.address:
        return None
    status = attrs.evolve(
        record.status,
        address=state.address,
        ensuring=state.incarnation,
        deregistrar=state.deregistrar,
        waiting=None,
        lock_settling=state.lock_settling,
    )
    return WriteStatus(record, status)


def _write_marker(
    state: RegistrationState, record: BackendRecord, _now: Now
) -> Step | None:
    """Write `ensuring` before the first ensure of this incarnation."""
    wanted = marker(state, record)
    covered = record.status.ensuring in {wanted, ANY_INCARNATION}
    # Under policy Always the deregistrar expects calls at any time, marked or not. A
    # marker from before the policy was changed may still be cleared.
    unsigned = _is_always(record) and not record.status.ensuring
    if covered or unsigned or _is_claimed(state, record):
        return None
    return WriteStatus(record, attrs.evolve(record.status, ensuring=wanted))


def _is_claimed(state: RegistrationState, record: BackendRecord) -> bool:
    # Our own create, or our own update of a settled or claimed version, made this
    # generation, and no other incarnation has marked the record since: it has no call out.
    return state.claimed == record.spec_generation and not record.status.ensuring


def marker(state: RegistrationState, record: BackendRecord) -> str:
    """Return what `ensuring` must be while this incarnation may have a call out.

    Its own name where no other call can be out: the record is settled or claimed, or it
    is marked with that name already, or by a run in whose place it began. `*` otherwise.
    """
    mine = (
        is_of_line(record.status.ensuring, state.incarnation)
        or record.is_settled
        or _is_claimed(state, record)
    )
    return state.incarnation if mine and not state.unheard else ANY_INCARNATION


def is_of_line(mark: str, incarnation: str) -> bool:
    """Return whether a mark is an incarnation's, or of one in whose place it began.

    Each of these had provably ended when the next one began. All have the name of the first
    one, and those after it their own behind that and a slash.
    """
    return mark.partition("/")[0] == incarnation.partition("/")[0] != ""


def _is_always(record: BackendRecord) -> bool:
    return record.spec.ensure_policy.is_always


def _write_settling(
    state: RegistrationState, record: BackendRecord, _now: Now
) -> Step | None:
    """Write how long ensures may take effect before the first that may for so long."""
    if state.ensured is not None or isinstance(state.driver, Explanation):
        return None
    settling = state.driver.settling(Operation.ENSURE_BACKEND)
    return WriteSettling(record, settling) if settling > record.settling else None


def _read_pod(
    state: RegistrationState, record: BackendRecord, _now: Now
) -> Step | None:
    """Read a pod that waits for its records before the first ensure (w60)."""
    backend = record.spec.backend
    if state.pod_seen or state.ensured is not None or not record.is_gated:
        return None
    # Whoever made it Registered has read the pod.
    if record.is_in or not isinstance(backend, PodRef):
        return None
    return ReadPod(ObjectKey(record.meta.key.namespace, backend.name), backend.uid)


def _read_balancer(
    state: RegistrationState, record: BackendRecord, _now: Now
) -> Step | None:
    """Read the load balancer before the first ensure (w86)."""
    if state.balancer_seen or state.ensured is not None:
        return None
    # Whoever deletes its load balancer lists a record that is Registered, and waits for it.
    return None if record.is_in else ReadBalancer(record)


def _ensure(state: RegistrationState, record: BackendRecord, now: Now) -> Step | None:
    """Call ensureBackend."""
    if (
        state.ensured is not None
        or state.permission is None
        or isinstance(state.driver, Explanation)
    ):
        return None
    return CallDriver(
        Operation.ENSURE_BACKEND,
        state.driver,
        state.permission,
        record.address,
        final=_rest_to_confirm(state, record, now) <= timedelta(0),
    )


def _write_registered(
    state: RegistrationState, record: BackendRecord, now: Now
) -> Step | None:
    """Write Registered; clear `ensuring` if no call of anybody can be out."""
    if state.ensured is None:
        return None
    message = f"{record.address} is registered"
    generation = record.meta.generation
    condition = Condition(
        conditions.REGISTERED, True, Reason.REGISTERED, message, generation
    )
    told = record
    if not record.is_registered and _is_unlisted(state.driver):
        told = with_in_service(record, in_service(record, None), now.wall)
    mark = marker(state, record)
    signed_off = mark == state.incarnation and not state.is_uncertain
    injected = state.ensured.injected_info
    status = attrs.evolve(
        record.status,
        address=record.address,
        injected_info=record.status.injected_info if injected is None else injected,
        conditions=conditions.with_condition(
            told.status.conditions, condition, now.wall
        ),
        ensuring="" if signed_off or _is_always(record) else mark,
        next_attempt=None,
    )
    if status == record.status:
        return Finish(next_ensure(state, record, now))
    return WriteStatus(record, status)


def _is_unlisted(driver: LoadBalancerDriver | Explanation) -> bool:
    """Return whether nobody will ever say if a member is in service."""
    if isinstance(driver, Explanation):
        return False
    return not driver.declares(Operation.LIST_BACKENDS)


STAGES: tuple[Stage, ...] = (
    _sign_off,
    _leave_alone,
    _write_condition,
    _wait,
    _record_reset,
    _find_address,
    _take_lock,
    _write_address,
    _write_marker,
    _write_settling,
    _read_pod,
    _read_balancer,
    _ensure,
    _write_registered,
)


def learn(
    state: RegistrationState, step: Step, reply: Reply, now: Now
) -> RegistrationState:
    """Return the state after the reply to a step."""
    match reply:
        case RecordGone() | Released():
            return attrs.evolve(state, is_over=True)
        case Conflicted() | WriteUnconfirmed():
            return _after_failed_write(state, step, reply)
        case Observed(permission) | Superseded(permission):
            return _observed(state, step, permission)
        case LockTaken() | PodRead() | BalancerRead() | EndCovered():
            return _cleared(state, reply)
        case LockHeld():
            return _wait_for_lock(state, step, reply, now)
        case Succeeded():
            return _succeeded(state, step, reply, now)
        case StillRunning() | CallRefused() | NoAnswer():
            return _not_registered_yet(state, step, reply, now)


def _observed(
    state: RegistrationState, step: Step, permission: Permission
) -> RegistrationState:
    state = attrs.evolve(state, permission=permission)
    record = permission.record
    if record.status.ensuring == SIGNED_OFF:
        # From here on no permission counts, a newer one of our own neither (w55).
        return attrs.evolve(state, is_over=True)
    if isinstance(step, WriteStatus):
        state = attrs.evolve(state, report=None)
        if record.is_registered and state.ensured is not None:
            state = attrs.evolve(state, reset="", due=False)
    if state.pause is not None or not needs_turn(state, record):
        return state
    return _report_missing(state, record)


def _after_failed_write(
    state: RegistrationState, step: Step, reply: Conflicted | WriteUnconfirmed
) -> RegistrationState:
    state = attrs.evolve(state, permission=None, ensured=None)
    if isinstance(reply, Conflicted) or not isinstance(step, WriteStatus):
        return state
    if step.status.ensuring:
        return state
    # A write that cleared `ensuring` and had no answer may still be made as long as nobody
    # else writes: the record would look settled while our next ensure is out (w32). So
    # the marker before that ensure is `*`, which is another version of the record and
    # refuses the old write.
    return attrs.evolve(state, claimed=None, unheard=True)


def _report_missing(
    state: RegistrationState, record: BackendRecord
) -> RegistrationState:
    if isinstance(state.driver, Explanation):
        return _report(state, record, state.driver, DRIVER_RECHECK)
    knows = record.address or state.address
    if not knows and state.driver.address_source is AddressSource.BACKEND:
        message = "the backend's own address cannot be read at present"
        why = Explanation(Reason.ADDRESS_UNKNOWN, message)
        return _report(state, record, why, _LOOK_AGAIN)
    return state


def _report(
    state: RegistrationState, record: BackendRecord, why: Explanation, pause: timedelta
) -> RegistrationState:
    # A member that is in stays in when it cannot be ensured again: nothing to report.
    if record.is_registered and not state.reset:
        return attrs.evolve(state, pause=pause)
    report = Report(_not_registered(record, why))
    if record.is_legacy and not state.locked:
        # Generation 0 keeps the record legacy: none of us has held its address's lock.
        report = attrs.evolve(
            report, condition=attrs.evolve(report.condition, observed_generation=0)
        )
    return attrs.evolve(state, report=report, pause=pause)


def _wait_for_lock(
    state: RegistrationState, step: Step, reply: LockHeld, now: Now
) -> RegistrationState:
    if not isinstance(step, TakeLock):
        return state
    record = step.record
    gone_at = reply.gone_at
    free_at = None if gone_at is None else now.wall + reply.again_after
    message = f"{step.address} is held by {_holder(record, reply)}"
    if free_at is None:
        reason = Reason.ADDRESS_IN_USE
        message += "; waiting for its end"
    else:
        reason = Reason.ADDRESS_NOT_FREE_YET
        message += (
            ", which is gone; free once no call for its end can arrive any more, at "
            f"{free_at:%H:%M:%S} UTC at the latest"
        )
    why = Explanation(reason, message)
    state = _report(state, record, why, reply.again_after)
    if state.report is None:
        return state
    # Another process of this machine goes on counting from there.
    written = gone_at if gone_at is not None and gone_at.boot else None
    waiting = Waiting(reply.uid, gone_at=written) if reply.uid else None
    report = attrs.evolve(state.report, next_attempt=free_at, waiting=waiting)
    return attrs.evolve(state, report=report)


def _cleared(
    state: RegistrationState, reply: LockTaken | PodRead | BalancerRead | EndCovered
) -> RegistrationState:
    match reply:
        case EndCovered():
            return state  # asked for at a record's end only
        case LockTaken():
            return attrs.evolve(state, locked=True, lock_settling=reply.settling)
        case PodRead(is_ending):
            state = attrs.evolve(state, pod_seen=not is_ending)
            why, pause = _POD_ENDS, _LOOK_AGAIN
        case BalancerRead(is_ending, unreadable):
            state = attrs.evolve(state, balancer_seen=not (is_ending or unreadable))
            why, pause = _BALANCER_ENDS, DRIVER_RECHECK
            if unreadable:
                why = Explanation(Reason.LOAD_BALANCER_UNREADABLE, unreadable)
                is_ending = True
    if not is_ending or state.permission is None:
        return state
    # This view of it is older: the record goes once the watch has told of its end.
    return _report(state, state.permission.record, why, pause)


def _holder(record: BackendRecord, reply: LockHeld) -> str:
    # Names of other namespaces are not shown: whoever reads a record may not know them.
    if reply.holder is None:
        return f"Lease {reply.lock}, whose holderIdentity says nothing that we wrote"
    if reply.holder.namespace != record.meta.key.namespace:
        return "a record of another namespace"
    if reply.holder == record.meta.key:
        return "an earlier record of this name"
    return f"record {reply.holder.name}"


def _succeeded(
    state: RegistrationState, step: Step, reply: Succeeded, now: Now
) -> RegistrationState:
    if not isinstance(step, CallDriver):
        return state
    if step.operation is Operation.GENERATE_BACKEND_ADDR:
        if not reply.backend_addr:
            return _not_registered_yet(state, step, NO_ADDRESS_GIVEN, now)
        return attrs.evolve(state, address=reply.backend_addr, streak=NO_FAILURES)
    record = step.permission.record
    return attrs.evolve(
        state,
        ensured=reply,
        ensured_at=now.monotonic,
        streak=NO_FAILURES,
        confirmed=record.meta.generation if step.final else state.confirmed,
        running_until=0.0,
        uncertain_call=None if _are_all_over(state, step) else state.uncertain_call,
    )


def _are_all_over(state: RegistrationState, step: CallDriver) -> bool:
    """Return whether all earlier ensures under our mark were over when one was sent."""
    mark = step.permission.record.status.ensuring
    return step.final and is_of_line(mark, state.incarnation)


def _with_ensure_out(
    state: RegistrationState, step: CallDriver, reply: CallFailure, now: Now
) -> RegistrationState:
    settling = step.driver.settling(step.operation).total_seconds()
    if isinstance(reply, StillRunning):
        # No uncertain call: it ends with the Succ that is polled for (docs/protocol.md).
        return attrs.evolve(state, running_until=now.monotonic + settling)
    if not isinstance(reply, NoAnswer) or not reply.may_land:
        return state
    generation = step.permission.record.meta.generation
    stale = state.stale_until
    if (
        state.uncertain_call is not None
        and state.uncertain_call.generation != generation
    ):
        stale = max(stale, state.uncertain_call.until)
    since = reply.since(now.monotonic, step.driver.window(step.operation))
    uncertain = UncertainCall(generation, since + settling)
    return attrs.evolve(state, uncertain_call=uncertain, stale_until=stale)


def _not_registered_yet(
    state: RegistrationState, step: Step, reply: CallFailure, now: Now
) -> RegistrationState:
    if not isinstance(step, CallDriver):
        return state
    record = step.permission.record
    if step.operation is Operation.ENSURE_BACKEND:
        state = _with_ensure_out(state, step, reply, now)
    why = describe_failure(reply, step.driver, step.operation)
    streak = state.streak.with_answer(step.operation, reply, now)
    pause = retry_delay(reply, streak.length, now)
    report = Report(
        _not_registered(record, why),
        marker=marker(state, record) if record.address else None,
        next_attempt=now.wall + pause,
    )
    # A member that is in stays in while ensuring it again fails, so the condition is
    # written only where the present generation is not registered.
    report_or_none = None if record.is_registered else report
    return attrs.evolve(state, streak=streak, report=report_or_none, pause=pause)


def _not_registered(record: BackendRecord, why: Explanation) -> Condition:
    generation = record.meta.generation
    return Condition(conditions.REGISTERED, False, why.reason, why.message, generation)


def claim_after_update(
    claimed: int | None, before: BackendRecord, after: BackendRecord
) -> int | None:
    """Return the generation that an incarnation may claim after its own spec update.

    Its compare-and-swap showed the version that it changed: if that was settled, or
    claimed already, nobody else can have an ensure out for the new generation (w17).
    Under policy Always others may have one out that no version shows.
    """
    if before.is_settled:
        return after.meta.generation
    was_claimed = claimed == before.meta.generation and not before.status.ensuring
    return after.meta.generation if was_claimed and not _is_always(before) else None
