"""Registers live records, by `lbcf.core.lifecycle.registration`."""

import contextlib

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

import attrs
import structlog

from lbcf.controller.apply import Written
from lbcf.controller.first_checks import FirstChecks
from lbcf.controller.noted_ensures import NotedEnsures
from lbcf.controller.view import View
from lbcf.core.lifecycle import registration
from lbcf.core.lifecycle.registration import (
    RegistrationState,
    UncertainCall,
    claim_after_update,
)
from lbcf.core.lifecycle.steps import CallDriver, Permission, Step
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    SENDING_MARGIN,
    BackendRecord,
    LoadBalancerDriver,
    StaticRef,
)
from lbcf.core.model.values import AddressSource, ObjectKey, Uid
from lbcf.core.reasons import Explanation
from lbcf.executor import Executor, Subject
from lbcf.runtime.limiter import ConcurrencyLimiter, Limit, Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, Parked, RequeueAfter, Result


_TELLING = timedelta(seconds=1)
"""What a deregistrar has to say that an address is free: a look before then would write to
the same record, and one of the two would come again."""

_log = structlog.get_logger(__name__)


class Registrar:
    """Registers records.

    Args:
        view: what has been read.
        queue: of keys of records.
        executor: carries out steps.
        incarnation: who this process is, for `status.ensuring`.
        shares: of the queue's workers.
        checks: told whether new members wait for the checks of their load balancer.
        noted: keeps ensures for the next run in our place.
        deregistrar: says who ends a record at present, for `status.deregistrar`; empty
            where that is not known.
    """

    def __init__(
        self,
        view: View,
        queue: WorkQueue[ObjectKey],
        executor: Executor,
        incarnation: str,
        shares: Shares,
        *,
        checks: FirstChecks,
        noted: NotedEnsures,
        deregistrar: Callable[[BackendRecord], str] = lambda _record: "",
    ) -> None:
        self._view = view
        self._queue = queue
        self._executor = executor
        self._incarnation = incarnation
        self._deregistrar = deregistrar
        self._states: dict[Uid, RegistrationState] = {}
        self._permissions: dict[Uid, Permission] = {}
        self._limiter = ConcurrencyLimiter(queue)
        self._shares = shares
        self._checks = checks
        self._noted = noted
        self._expected: set[ObjectKey] = set()
        # Beside the states: a turn under way writes those over with what it knew.
        self._resets: dict[Uid, str] = {}
        # By load balancer, all that were lost; who is back leaves when it is asked for.
        self._lost: dict[ObjectKey, set[Uid]] = {}

    def inherit(
        self, name: str, ended_at: float, left: Mapping[Uid, float] | None
    ) -> None:
        """Go on in the place of a run that had ended before anything was read.

        Args:
            name: that of the first run of the line.
            ended_at: monotonic seconds by which the last one had ended.
            left: of each record of which it may have an ensure out, until when that may
                take effect, in monotonic seconds; None: not known, so of each that is not
                settled.
        """
        self._incarnation = f"{name}/{self._incarnation}"
        sent_at = ended_at - SENDING_MARGIN.total_seconds()
        monotonic = self._executor.now().monotonic
        fresh = RegistrationState(self._incarnation, first_seen=monotonic)
        for record in self._view.records.values():
            until = 0.0
            if left is not None:
                until = left.get(record.meta.uid, until)
            elif not record.is_settled:
                until = sent_at + record.settling.total_seconds()
            if record.is_deleting or until:
                # With which parameters such an ensure was sent is not known.
                call = UncertainCall(0, until) if until else None
                state = attrs.evolve(fresh, uncertain_call=call)
                self._states[record.meta.uid] = state
            # The next run finds our notes, and not those before them.
            self._noted.after(record.meta.uid, until)
            if record.is_deleting:
                self._end(record)
        for uid in () if left is None else left.keys() - self._states.keys():
            self._noted.after(uid, 0.0)

    @contextlib.contextmanager
    def expecting(self, key: ObjectKey) -> Iterator[None]:
        """Leave a record alone while this process is writing it.

        The watch may tell of a create or an update before its answer is read: a turn
        in between would not know that the write was our own, and would have to assume
        that another incarnation has an ensure out.
        """
        self._expected.add(key)
        try:
            yield
        finally:
            self._expected.discard(key)
            self._queue.add(key)

    def take_up(self, written: Written) -> None:
        """Take up a record that this process has just created or updated."""
        record, before = written.permission.record, written.before
        seen = self._view.records.get(record.meta.key)
        if seen is None or seen.meta.uid != record.meta.uid:
            return  # the watch was faster than the answer, and has told of the end
        known = self._state_of(record)
        if before is None:
            claimed: int | None = record.meta.generation
        else:
            claimed = claim_after_update(known.claimed, before, record)
        self._states[record.meta.uid] = attrs.evolve(known, claimed=claimed)
        self._permissions[record.meta.uid] = written.permission

    def record_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Note what the store tells of a record."""
        if new is None or new.is_deleting:
            gone = new or old
            if new is None and old is not None:
                self._look_after(old.meta.uid)
            if gone is not None:
                self._end(gone, is_gone=new is None)
                self._permissions.pop(gone.meta.uid, None)
                self._resets.pop(gone.meta.uid, None)
                self._lost.get(gone.load_balancer_key, set()).discard(gone.meta.uid)
            return
        if _is_news(old, new):
            self._queue.add(new.meta.key)

    def _end(self, record: BackendRecord, *, is_gone: bool = False) -> None:
        """Sign a record off that ends, or forget it."""
        state = self._states.get(record.meta.uid)
        if state is None:
            return
        now = self._executor.now()
        if is_gone or registration.rest_to_sign_off(state, record, now) is None:
            del self._states[record.meta.uid]
            self._noted.after(record.meta.uid, 0.0)
        else:
            self._queue.add(record.meta.key)

    def _look_after(self, holder: Uid) -> None:
        """Look at whoever waits for the address of a record that has ended."""
        for record in self._view.waiting_for(holder):
            self._queue.add_after(record.meta.key, _TELLING)

    def reset(self, record: BackendRecord, why: str) -> None:
        """Put a member back that its load balancer has lost.

        What a turn under way has been told may be older: its success does not count.
        """
        meta = record.meta
        self._resets[meta.uid] = why
        self._lost.setdefault(record.load_balancer_key, set()).add(meta.uid)
        self._queue.add(meta.key)

    def load_balancer_is_back(self, load_balancer: ObjectKey) -> None:
        """Make at once what failed at a load balancer that could not be reached.

        Their pauses have grown with its outage, to two minutes.
        """
        now = self._executor.now()
        for record in self._view.records.by_index("load_balancer", load_balancer):
            state = self._states.get(record.meta.uid)
            if state is not None and state.streak.may_end(now):
                self._queue.add(record.meta.key)

    def is_resetting(self, load_balancer: ObjectKey) -> bool:
        """Return whether a member that a load balancer lost is not put back yet."""
        still = set(filter(self._is_lost, self._lost.pop(load_balancer, ())))
        if still:
            self._lost[load_balancer] = still
        return bool(still)

    def _is_lost(self, uid: Uid) -> bool:
        state = self._states.get(uid)
        return uid in self._resets or (state is not None and bool(state.reset))

    async def reconcile(self, key: ObjectKey) -> Result:
        """Take one record as far as it goes."""
        with self._limiter.looking_at(key):
            return await self._look(key)

    async def _look(self, key: ObjectKey) -> Result:
        """Give a record that needs one a turn, when there is room for it."""
        record = self._view.records.get(key)
        if key in self._expected:
            return Parked()
        if record is None:
            return Done()
        if record.is_deleting and record.meta.uid not in self._states:
            return Done()
        now = self._executor.now()
        driver = self._view.driver(record.driver_key)
        known = attrs.evolve(
            self._state_of(record),
            driver=driver,
            deregistrar=self._deregistrar(record),
        )
        if record.meta.uid in self._resets:
            known = attrs.evolve(known, reset=self._resets[record.meta.uid])
        state = registration.with_due(known, record, now)
        if record.is_deleting:
            rest = registration.rest_to_sign_off(state, record, now)
            if rest is None or rest:
                return _result(rest)
        elif not registration.needs_turn(state, record):
            return self._rest(record, state)
        return await self._limiter.turn(
            self._limits(record, driver),
            key,
            lambda _slot: self._turn(record, state, driver),
        )

    def _limits(
        self, record: BackendRecord, driver: LoadBalancerDriver | Explanation
    ) -> tuple[Limit, ...]:
        """Return what a turn of a record counts against."""
        shares, namespace = self._shares, record.meta.key.namespace
        balancer = record.load_balancer_key
        return (
            *shares.at_balancer(balancer, driver, self._view.limit(balancer)),
            *shares.at_driver(record.driver_key, driver, namespace),
            shares.of_namespace(namespace),
        )

    async def _turn(
        self,
        record: BackendRecord,
        state: RegistrationState,
        driver: LoadBalancerDriver | Explanation,
    ) -> Result:
        """Go through the steps of one record, and say when to come again."""
        uid = record.meta.uid
        self._resets.pop(uid, None)  # the state carries it from here
        address = self._address(record, driver)
        permission = self._kept_permission(record)
        state = state.begin_turn(driver, address, permission)
        self._states[uid] = state

        def remember(learnt: RegistrationState) -> None:
            # Kept even if the turn is cut off.
            known = self._states.get(uid)
            if known is None:
                return
            self._states[uid] = learnt
            self._noted.after(uid, learnt.out_until)
            # Once for each answer: a list may end the wait before the turn ends.
            if (answer := learnt.ensured) is not None and answer is not known.ensured:
                self._checks.answered(record, in_service=answer.in_service)

        def next_step(state: RegistrationState, now: Now) -> Step:
            step = registration.next_step(state, now)
            self._note(uid, state, step)
            return step

        finish = await self._executor.run(
            Subject(record.meta.key, uid),
            state,
            next_step,
            registration.learn,
            remember,
        )
        if _has_ended(self._states.get(uid)):
            # The view lags behind: by what it shows, the record would be due at once.
            return _result(finish.again_after)
        self._catch_up(uid)
        now = self._view.records.get(record.meta.key)
        if now is not None and now.meta.uid == uid and now.is_registered:
            _log_registered(now, record)
            if finish.again_after is None:
                return self._rest(now, self._state_of(now))
        return _result(finish.again_after)

    def _note(self, uid: Uid, state: RegistrationState, step: Step) -> None:
        """Note an ensure that is about to be made."""
        if isinstance(step, CallDriver) and step.operation is Operation.ENSURE_BACKEND:
            settling = step.driver.settling(step.operation).total_seconds()
            self._noted.before(uid, state.out_until, settling)

    def _kept_permission(self, record: BackendRecord) -> Permission | None:
        """Take the permission of an own create or update, unless it has been overtaken.

        It may have come in the middle of a turn that has read, or written, a newer
        version since: by the older one a mark could still stand that is gone (w19).
        """
        kept = self._permissions.pop(record.meta.uid, None)
        seen = self._view.records.get(record.meta.key)
        if kept is None or seen is None:
            return None
        same = kept.record.meta.resource_version == seen.meta.resource_version
        return kept if same else None

    def _catch_up(self, uid: Uid) -> None:
        # By the older version that the view has, the record may be due at once.
        permission = self._states[uid].permission
        if permission is not None:
            self._view.records.observe(permission.record)

    def _rest(self, record: BackendRecord, state: RegistrationState) -> Result:
        """Leave a record that is as it should be; forget it if nothing is to come."""
        now = self._executor.now()
        again = registration.next_ensure(state, record, now)
        if again is None and not state.reset:
            if not state.is_uncertain:
                self._states.pop(record.meta.uid, None)
            return Done()
        self._states[record.meta.uid] = state  # its clock runs from here
        return _result(again)

    def _state_of(self, record: BackendRecord) -> RegistrationState:
        """Recall what is known of a record."""
        known = self._states.get(record.meta.uid)
        if known is not None:
            return known
        monotonic = self._executor.now().monotonic
        return RegistrationState(self._incarnation, first_seen=monotonic)

    def _address(
        self, record: BackendRecord, driver: LoadBalancerDriver | Explanation
    ) -> str:
        """Return where a backend listens, where that is the backend's own to say."""
        if isinstance(driver, Explanation) or record.address:
            return ""
        # Nobody but its user says a static address: the protocol has no question for it.
        is_static = isinstance(record.spec.backend, StaticRef)
        if driver.address_source is AddressSource.DRIVER and not is_static:
            return ""
        return self._view.backend_address(record)


def _has_ended(state: RegistrationState | None) -> bool:
    # The view lags behind the turn: the watch will tell the end.
    if state is None or state.is_over:
        return True
    permission = state.permission
    return permission is not None and permission.record.is_deleting


def _is_news(old: BackendRecord | None, new: BackendRecord) -> bool:
    # Our own reports of trouble ask for no turn.
    if old is None:
        return not new.is_registered or _needs_a_clock(new)
    changed = old.meta.generation != new.meta.generation or _is_freed(old, new)
    return not new.is_registered and (changed or old.is_registered)


def _is_freed(old: BackendRecord, new: BackendRecord) -> bool:
    before, now = old.status.waiting, new.status.waiting
    if now is None or now == before:
        return False
    # The deregistrar may say, too, that its calls are out for longer than we know. Another
    # machine's moment, which a second controller may write, is nothing to come for.
    known = None if before is None else before.gone_at
    said = now.gone_at
    is_same = known is not None and said is not None and known.boot == said.boot
    return now.is_over or is_same


def _needs_a_clock(record: BackendRecord) -> bool:
    always = record.spec.ensure_policy.is_always
    return always or bool(record.status.ensuring)


def _result(again_after: timedelta | None) -> Result:
    return Done() if again_after is None else RequeueAfter(again_after)


def _log_registered(now: BackendRecord, before: BackendRecord) -> None:
    """Log a registration, once."""
    if before.is_registered:
        return
    _log.info(
        "record.registered",
        record=str(now.meta.key),
        load_balancer=now.spec.load_balancer,
        address=now.address,
    )
