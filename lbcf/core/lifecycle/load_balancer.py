"""The life of a load balancer: created, given its attributes, deleted. Read downwards.

For LoadBalancer objects and for entries of Binds. The stages of either half are asked in
order; the first that has something to do names the next step, and `learn` takes in what
came of it. The rules, under the numbers that they have in docs/lifecycle.md:

1. `Created` is Unknown in the status before the first createLoadBalancer: a later process
   knows by it that there may be something to delete.
2. The driver deletes it once no BackendRecord needs it: with it, their traffic would go.
   They are listed first, since the view may lag (w82, w83); one that is created later is not
   ensured there (rule 12 of records).
3. One that was never seen created is deleted once no createLoadBalancer can take effect
   any more: a call that lands later would make one that nobody remembers.
4. It is let go only after its driver has deleted it, was never asked to create it, or a
   person ordered so; and where a deleteLoadBalancer stayed without an answer, after a
   success once that one is over: else it would hit what is made again as the same (w88).
5. The key of the locks on its members' addresses changes only once its records hold their
   locks under the new one.
6. The identity of what was created is written whatever else has changed meanwhile.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta

import attrs

from lbcf.core.lifecycle import locking
from lbcf.core.lifecycle.call_backoff import (
    NO_BACKOFF,
    NO_CREATES,
    CallBackoff,
    UnconfirmedCreates,
)
from lbcf.core.lifecycle.load_balancer_steps import (
    AbandonOrder,
    Begun,
    Blocked,
    CallFailed,
    CallForLoadBalancer,
    Counted,
    Created,
    CreationUnclear,
    Deleted,
    DriverSucceeded,
    Ensured,
    HoldLoadBalancer,
    InUse,
    ListRecords,
    LoadBalancerGone,
    Locked,
    LockMembers,
    NeverCreated,
    Observation,
    Outcome,
    ReadLoadBalancer,
    ReleaseLoadBalancer,
    Reply,
    Step,
    WriteOutcome,
)
from lbcf.core.lifecycle.steps import (
    CallFailure,
    CallRefused,
    Conflicted,
    Finish,
    LockTaken,
    NoAnswer,
    Released,
    StillRunning,
    WriteUnconfirmed,
)
from lbcf.core.lifecycle.turn import (
    DRIVER_RECHECK,
    Now,
    describe_failure,
    driver_for_namespace,
)
from lbcf.core.model import names
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import MemberKey
from lbcf.core.reasons import Explanation, Reason


_VALIDATE, _CREATE, _ENSURE, _DELETE = (
    Operation.VALIDATE_LOAD_BALANCER,
    Operation.CREATE_LOAD_BALANCER,
    Operation.ENSURE_LOAD_BALANCER,
    Operation.DELETE_LOAD_BALANCER,
)
_SOON = timedelta(seconds=1)
_COUNTS_APART = timedelta(seconds=5)
"""Between two writes of how many backends a load balancer has: another controller that does
not see all yet counts otherwise, and each would write as soon as it sees the other's."""


@attrs.frozen
class LoadBalancerState:
    """What is remembered of one load balancer; all of it may be lost.

    Attributes:
        backoff: when its driver may be asked again.
        creates: until when a createLoadBalancer may take effect.
        deletes_until: monotonic seconds until which a deleteLoadBalancer that had no
            answer may take effect.
        applied: the attributes that its driver last took; None: nobody knows, as of a
            change that was under way when this process began.
        ensured_at: monotonic seconds at which it was ensured, or first seen to be.
        counted_at: monotonic seconds at which its backends were last written, or were
            tried to be.
        observed: the latest observation of this turn.
        is_stale: it is to be read again.
        was_reread: it has been, in this turn.
        is_valid: its driver has no objection to what it is about to be asked.
        locked: a key under which its members' addresses are locked, by this turn.
        ensured: the answer of ensureLoadBalancer that is not written down yet.
        has_listed: its records were listed since its end is known, and there was none: of
            those that come later none is ensured.
        is_deleted: its driver has deleted it.
        outcome: to be written before anything else.
        end: of the turn.
        is_released: our finalizer is off, by our own write.
    """

    backoff: CallBackoff = NO_BACKOFF
    creates: UnconfirmedCreates = NO_CREATES
    deletes_until: float = 0.0
    applied: Mapping[str, str] | None = None
    ensured_at: float | None = None
    counted_at: float | None = None
    observed: Observation | None = None
    is_stale: bool = False
    was_reread: bool = False
    is_valid: bool = False
    locked: str = ""
    ensured: DriverSucceeded | None = None
    has_listed: bool = False
    is_deleted: bool = False
    outcome: Outcome | None = None
    end: Finish | None = None
    is_released: bool = False

    def begin_turn(self, observed: Observation, now: Now) -> "LoadBalancerState":
        """Begin a turn: what the last one observed is void."""
        fresh = LoadBalancerState(
            self.backoff,
            self.creates,
            self.deletes_until,
            self.applied,
            self.ensured_at,
            self.counted_at,
            has_listed=self.has_listed and observed.is_deleting,
        )
        return _observed(fresh, observed, now)


def next_step(state: LoadBalancerState, now: Now) -> Step:
    """Return what to do now."""
    seen = state.observed
    if seen is None or state.is_released:
        return state.end or Finish()
    if state.is_stale:
        return ReadLoadBalancer(seen.balancer)
    stages = ENDING if seen.is_deleting else LIVING
    steps = (stage(state, seen, now) for stage in stages)
    return next((step for step in steps if step is not None), Finish())


Stage = Callable[[LoadBalancerState, Observation, Now], Step | None]


def _write_outcome(
    state: LoadBalancerState, seen: Observation, _now: Now
) -> Step | None:
    """Write down what was learnt before anything else."""
    if state.outcome is None:
        return None
    return WriteOutcome(seen.balancer, state.outcome)


def _wait(state: LoadBalancerState, _seen: Observation, _now: Now) -> Step | None:
    """End the turn where an obstacle, or the last answer, asked for time."""
    return state.end


def _hold(_state: LoadBalancerState, seen: Observation, _now: Now) -> Step | None:
    """Keep it by our finalizer before anything is made of it."""
    return None if seen.is_held else HoldLoadBalancer(seen.balancer)


def _validate_new(
    state: LoadBalancerState, seen: Observation, _now: Now
) -> Step | None:
    """Ask its driver for objections before it is asked to create it for the first time."""
    if seen.balancer.info is not None or seen.may_exist or state.is_valid:
        return None
    return _call(_VALIDATE, seen)


def _write_begun(state: LoadBalancerState, seen: Observation, _now: Now) -> Step | None:
    """Write down that it may exist, before anybody makes it (rule 1)."""
    if seen.balancer.info is not None or seen.may_exist or not state.is_valid:
        return None
    return WriteOutcome(seen.balancer, Begun())


def _create(_state: LoadBalancerState, seen: Observation, _now: Now) -> Step | None:
    """Have its driver make it, or find it."""
    if seen.balancer.info is not None:
        return None
    step = _call(_CREATE, seen) if seen.may_exist else None
    return step or Finish(_SOON)


def _count(state: LoadBalancerState, seen: Observation, now: Now) -> Step | None:
    """Write down how many backends it has, for `kubectl get lb`."""
    due = _count_due(state, seen, now)
    if due is None or due > timedelta(0):
        return None
    return WriteOutcome(seen.balancer, Counted(seen.members or 0))


def _lock_members(
    state: LoadBalancerState, seen: Observation, _now: Now
) -> Step | None:
    """Write its key down once its records hold their locks under it (rule 5)."""
    key = _new_key(state, seen)
    if key is None or isinstance(seen.driver, Explanation):
        return None
    if seen.driver.member_key is MemberKey.ADDRESS and state.locked != key:
        return LockMembers(seen.balancer, key)
    return WriteOutcome(seen.balancer, Locked(key))


def _validate_change(
    state: LoadBalancerState, seen: Observation, now: Now
) -> Step | None:
    """Ask its driver for objections before its attributes change."""
    before = seen.attributes if state.applied is None else state.applied
    if state.is_valid or state.ensured is not None or before == seen.attributes:
        return None
    if not _is_ensure_due(state, seen, now):
        return None
    step = _call(_VALIDATE, seen)
    return step and attrs.evolve(step, before=before)


def _ensure(state: LoadBalancerState, seen: Observation, now: Now) -> Step | None:
    """Give it its attributes, after each change, and by period where asked."""
    if state.ensured is not None or not _is_ensure_due(state, seen, now):
        return None
    return _call(_ENSURE, seen)


def _write_ensured(
    state: LoadBalancerState, seen: Observation, _now: Now
) -> Step | None:
    """Write down that it has its attributes."""
    if state.ensured is None:
        return None
    ensured = Ensured(seen.attributes, state.ensured.ingress)
    return WriteOutcome(seen.balancer, ensured)


def _come_again(state: LoadBalancerState, seen: Observation, now: Now) -> Step | None:
    """Come again when it is to be ensured, or counted."""
    rest = _ensure_rest(state, seen, now)
    return _finish_by(rest, _count_due(state, seen, now))


def _release(state: LoadBalancerState, seen: Observation, now: Now) -> Step | None:
    """Let it go, with the proof that nothing is left of it (rule 4)."""
    if state.is_deleted:
        late = timedelta(seconds=state.deletes_until - now.monotonic)
        deleted = ReleaseLoadBalancer(seen.balancer, Deleted())
        return Finish(late) if late > timedelta(0) else deleted
    if not seen.may_exist:
        return ReleaseLoadBalancer(seen.balancer, NeverCreated())
    if seen.abandoned:
        return ReleaseLoadBalancer(seen.balancer, AbandonOrder(seen.abandoned))
    return None


def _list_records(
    state: LoadBalancerState, seen: Observation, _now: Now
) -> Step | None:
    """List the records that need it, once its end is known (rule 2)."""
    if state.has_listed or isinstance(seen.driver, Explanation):
        return None
    return ListRecords(seen.balancer)


def _delete(_state: LoadBalancerState, seen: Observation, _now: Now) -> Step | None:
    """Have its driver delete it, or what may have come of creating it."""
    if isinstance(seen.driver, Explanation):
        return None
    return CallForLoadBalancer(_DELETE, seen.balancer, seen.driver)


LIVING: tuple[Stage, ...] = (
    _write_outcome,
    _wait,
    _hold,
    _validate_new,
    _write_begun,
    _create,
    _count,
    _lock_members,
    _validate_change,
    _ensure,
    _write_ensured,
    _come_again,
)
ENDING: tuple[Stage, ...] = (_write_outcome, _wait, _release, _list_records, _delete)


def _call(operation: Operation, seen: Observation) -> CallForLoadBalancer | None:
    """Ask its driver about it as it is to be."""
    if isinstance(seen.driver, Explanation):
        return None
    balancer = attrs.evolve(seen.balancer, attributes=seen.attributes)
    return CallForLoadBalancer(operation, balancer, seen.driver)


def _new_key(state: LoadBalancerState, seen: Observation) -> str | None:
    """Return the key that it has now, where that is not written down yet.

    One that it had before, as where a URL is changed back, keeps its place: records that
    hold locks under it would take the others in another order.
    """
    info = seen.balancer.info
    if info is None or not seen.is_held or isinstance(seen.driver, Explanation):
        return None
    answered = state.ensured.lock_key if state.ensured else ""
    known = seen.balancer.lock_keys
    key = locking.key_of(answered, seen.driver.url, info, known)
    return None if key in known else key


def _count_due(
    state: LoadBalancerState, seen: Observation, now: Now
) -> timedelta | None:
    """Return when its backends are to be written down; None: they are."""
    if seen.members is None or seen.members == seen.balancer.backends:
        return None
    if state.counted_at is None:
        return timedelta(0)
    passed = timedelta(seconds=now.monotonic - state.counted_at)
    return max(_COUNTS_APART - passed, timedelta(0))


def _ensure_rest(
    state: LoadBalancerState, seen: Observation, now: Now
) -> timedelta | None:
    """Return how long it needs no ensure; None: until its attributes change."""
    if not seen.is_synced:
        return timedelta(0)
    policy = seen.balancer.ensure_policy
    if seen.is_entry or not policy.is_always:
        return None
    last = now.monotonic if state.ensured_at is None else state.ensured_at
    return policy.period - timedelta(seconds=now.monotonic - last)


def _is_ensure_due(state: LoadBalancerState, seen: Observation, now: Now) -> bool:
    rest = _ensure_rest(state, seen, now)
    return rest is not None and rest <= timedelta(0)


def _finish_by(again: timedelta | None, sooner: timedelta | None) -> Finish:
    """Come again at the earlier of two times."""
    return Finish(min((t for t in (again, sooner) if t is not None), default=None))


# --- what stands in the way --------------------------------------------------------


def _observed(
    state: LoadBalancerState, seen: Observation, now: Now
) -> LoadBalancerState:
    """Take in how it is, and what keeps anything from being done."""
    if seen.applied is not None:
        state = attrs.evolve(state, applied=seen.applied)
    known = state.observed
    if state.ensured and known and known.attributes != seen.attributes:
        # Edited while its driver was called: the answer is about the ones before.
        applied = known.attributes
        state = attrs.evolve(state, ensured=None, is_valid=False, applied=applied)
    if seen.is_synced and state.ensured_at is None:
        state = attrs.evolve(state, ensured_at=now.monotonic)
    state = attrs.evolve(state, observed=seen, is_stale=False)
    if state.outcome is not None or state.end is not None:
        return state
    hindered = _hindered_end if seen.is_deleting else _hindered
    return hindered(state, seen, now)


def _hindered(
    state: LoadBalancerState, seen: Observation, now: Now
) -> LoadBalancerState:
    """Find what keeps it from being created or ensured."""
    driver = driver_for_namespace(seen.driver, seen.balancer.meta.key.namespace)
    observed = attrs.evolve(seen, driver=driver)
    state = attrs.evolve(state, observed=observed)
    if _new_key(state, observed) is not None:
        # It needs nobody's answer: others with the same members may have it already.
        return state
    if seen.is_entry and not _is_ensure_due(state, seen, now):
        return _stopped(state, None)
    if seen.balancer.pool and not seen.balancer.address:
        message = f"it has no address of LoadBalancerClass {seen.balancer.pool} yet"
        why = Explanation(Reason.AWAITING_ADDRESS, message)
        return _blocked(state, _CREATE, why)
    rest = _call_rest(state, seen, now)
    if isinstance(driver, Explanation):
        if seen.is_entry and rest:
            return _stopped(state, rest)
        operation = _meant(_VALIDATE, seen)
        return _blocked(state, operation, driver)
    # A Bind holds all of its entries: one is taken up when its driver is asked for it.
    is_new = not seen.is_held or (seen.is_entry and not seen.may_exist)
    if is_new and (stopped := _hindered_hold(state, driver)) is not None:
        return stopped
    return _stopped(state, rest) if rest and seen.is_held else state


def _hindered_hold(
    state: LoadBalancerState, driver: LoadBalancerDriver
) -> LoadBalancerState | None:
    """End the turn of what would be taken up with a driver that may be gone before."""
    if driver.is_leaving:
        message = (
            f"LoadBalancerDriver {driver.meta.key} is draining and takes no new "
            f"LoadBalancer; name another, or take its label {names.LABEL_DRAINING} off"
        )
        why = Explanation(Reason.DRIVER_DRAINING, message)
        return _blocked(state, _CREATE, why)
    is_kept = names.FINALIZER_DRIVER in driver.meta.finalizers
    # A change of the driver brings it at once.
    return None if is_kept else _stopped(state, DRIVER_RECHECK)


def _hindered_end(
    state: LoadBalancerState, seen: Observation, now: Now
) -> LoadBalancerState:
    """Find what keeps it from being deleted, or let go."""
    if not seen.is_held:
        return _stopped(state, None)
    if (needed := _needed(state, seen)) is not None:
        return needed
    if seen.abandoned or not seen.may_exist:
        return state
    if rest := _call_rest(state, seen, now):
        return _stopped(state, rest)
    if isinstance(seen.driver, Explanation):
        return _blocked(state, _DELETE, seen.driver)
    if seen.balancer.info is not None:
        return state
    state = attrs.evolve(state, creates=state.creates.closed(seen.driver, now))
    late = state.creates.rest(now)
    return _stopped(state, late, CreationUnclear()) if late else state


def _needed(state: LoadBalancerState, seen: Observation) -> LoadBalancerState | None:
    """End the turn where a record needs it, or may need it (rule 2)."""
    if seen.users:
        # Those that the view lacks may never come there: nobody would tell of their end.
        return _stopped(state, DRIVER_RECHECK, InUse(seen.users))
    if seen.unreadable is not None:
        message = (
            f"BackendRecord {seen.unreadable} cannot be understood and may need it"
        )
        why = Explanation(Reason.RECORD_UNREADABLE, message)
        return _blocked(state, _DELETE, why)
    return None


def _call_rest(state: LoadBalancerState, seen: Observation, now: Now) -> timedelta:
    """Return how long its driver is not to be asked."""
    if seen.rest is not None:
        return seen.rest
    return state.backoff.rest(seen.balancer.meta.generation, now)


def _stopped(
    state: LoadBalancerState, again: timedelta | None, outcome: Outcome | None = None
) -> LoadBalancerState:
    """End the turn, once something is told."""
    return attrs.evolve(state, end=Finish(again), outcome=outcome)


def _blocked(
    state: LoadBalancerState, operation: Operation, why: Explanation
) -> LoadBalancerState:
    """Report why nobody can be asked; look again should the news have been missed."""
    return _stopped(state, DRIVER_RECHECK, Blocked(operation, why))


# --- what was learnt ---------------------------------------------------------------


def learn(
    state: LoadBalancerState, step: Step, reply: Reply, now: Now
) -> LoadBalancerState:
    """Take in what came of a step."""
    match reply:
        case Observation():
            return _observed(_written(state, step, reply, now), reply, now)
        case DriverSucceeded():
            return _succeeded(state, step, reply, now)
        case CallRefused() | StillRunning() | NoAnswer():
            return _failed(state, step, reply, now)
        case Released():
            again = timedelta(0) if _is_entry(state) else None
            return attrs.evolve(
                state, is_released=True, has_listed=False, end=Finish(again)
            )
        case LoadBalancerGone():
            return attrs.evolve(state, is_stale=False, outcome=None, end=Finish(_SOON))
        case LockTaken():
            key = step.lock_key if isinstance(step, LockMembers) else ""
            return attrs.evolve(state, locked=key)
        case Conflicted() | WriteUnconfirmed():
            return _unwritten(state, step, now)


def _is_entry(state: LoadBalancerState) -> bool:
    return state.observed is not None and state.observed.is_entry


def _written(
    state: LoadBalancerState, step: Step, seen: Observation, now: Now
) -> LoadBalancerState:
    """Take it that a write, or a list, was made."""
    if isinstance(step, ListRecords):
        return attrs.evolve(state, has_listed=not seen.may_be_needed)
    if not isinstance(step, WriteOutcome):
        return state
    state = attrs.evolve(state, outcome=None)
    match step.outcome:
        case Counted():
            return attrs.evolve(state, counted_at=now.monotonic)
        case Created() if _is_entry(state):
            return attrs.evolve(state, end=Finish(timedelta(0)))
        case Ensured(attributes=attributes):
            end = Finish(timedelta(0)) if _is_entry(state) else state.end
            return attrs.evolve(
                state,
                ensured=None,
                ensured_at=now.monotonic,
                applied=attributes,
                end=end,
            )
        case _:
            return state


def _unwritten(state: LoadBalancerState, step: Step, now: Now) -> LoadBalancerState:
    """Read it again, once in a turn, then begin anew in a moment.

    An identity is written whatever else has changed: the end of what was just created
    needs it. While a watch lags, each write of the version that it tells of conflicts.
    """
    if isinstance(step, LockMembers):
        seen = state.observed
        due = None if seen is None else _count_due(state, seen, now)
        return attrs.evolve(state, end=_finish_by(_SOON, due))
    outcome = step.outcome if isinstance(step, WriteOutcome) else None
    if isinstance(outcome, Counted):
        state = attrs.evolve(state, counted_at=now.monotonic)
    if state.was_reread:
        return attrs.evolve(state, outcome=None, end=Finish(_SOON))
    kept = outcome if isinstance(outcome, Created) else None
    return attrs.evolve(state, outcome=kept, is_stale=True, was_reread=True)


def _succeeded(
    state: LoadBalancerState, step: Step, reply: DriverSucceeded, now: Now
) -> LoadBalancerState:
    """Take in that its driver has done what it was asked."""
    if not isinstance(step, CallForLoadBalancer):
        return state
    operation = step.operation
    if operation is _VALIDATE:
        is_first = step.before is None
        # The first call of all is about to be made, by this process.
        creates = UnconfirmedCreates(now.monotonic) if is_first else state.creates
        return attrs.evolve(state, is_valid=True, creates=creates)
    state = attrs.evolve(state, backoff=NO_BACKOFF)
    if operation is _CREATE:
        key = locking.key_of(reply.lock_key, step.driver.url, reply.info)
        return attrs.evolve(
            state,
            creates=NO_CREATES,
            outcome=Created(reply.info, key, reply.ingress),
            is_valid=False,
        )
    if operation is _ENSURE:
        return attrs.evolve(state, ensured=reply)
    return attrs.evolve(state, is_deleted=True)


def _failed(
    state: LoadBalancerState, step: Step, trouble: CallFailure, now: Now
) -> LoadBalancerState:
    """Report what went wrong, and come again after a pause."""
    seen = state.observed
    if not isinstance(step, CallForLoadBalancer) or seen is None:
        return state
    question = step.operation
    delay, streak = state.backoff.delay_after(question, trouble, now)
    until = now.monotonic + delay.total_seconds()
    state = attrs.evolve(
        state, backoff=CallBackoff(seen.balancer.meta.generation, until, streak)
    )
    if question is _CREATE:
        creates = state.creates.answered(trouble, step.driver, now)
        state = attrs.evolve(state, creates=creates)
    if question is _DELETE and isinstance(trouble, NoAnswer) and trouble.may_land:
        until = now.monotonic + step.driver.settling(_DELETE).total_seconds()
        state = attrs.evolve(state, deletes_until=until)
    why = describe_failure(trouble, step.driver, question)
    operation = _meant(question, seen)
    is_kept = operation is _ENSURE
    due = _count_due(state, seen, now) if is_kept else None
    failed = CallFailed(operation, trouble, why, delay)
    return attrs.evolve(state, outcome=failed, end=_finish_by(delay, due))


def _meant(question: Operation, seen: Observation) -> Operation:
    """Return for what a question was asked."""
    if question is not _VALIDATE:
        return question
    return _CREATE if seen.balancer.info is None else _ENSURE
