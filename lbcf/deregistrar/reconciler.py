"""Deregisters records that are being deleted, by `lbcf.core.lifecycle.deregistration`.

A record goes when its address is out of the load balancer; until then its conditions say
what is waited for.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import attrs
import structlog

from lbcf.core.lifecycle import deregistration
from lbcf.core.lifecycle.deregistration import (
    DeregistrationState,
    DrainEnd,
    LateCalls,
    Phase,
    connections_left,
    end_of_drain,
    phase_of,
)
from lbcf.core.lifecycle.serving import is_back
from lbcf.core.lifecycle.steps import (
    CallDriver,
    Finish,
    Permission,
    ReleaseRecord,
    Step,
    WriteStatus,
)
from lbcf.core.lifecycle.turn import Now, find_driver
from lbcf.core.model.resources import BackendRecord, LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import MemberKey, ObjectKey, Uid
from lbcf.core.reasons import Explanation
from lbcf.deregistrar.cut_drains import CutDrains
from lbcf.deregistrar.metrics import DeletionMetrics
from lbcf.deregistrar.noted_calls import Left, NotedCalls
from lbcf.deregistrar.successors import Successors
from lbcf.executor import Executor, Subject
from lbcf.executor.object_events import AbandonmentReporter
from lbcf.kube.store import Store
from lbcf.process import RELEASES_AT_ONCE
from lbcf.runtime.limiter import ConcurrencyLimiter, Limit, Shares, Slot
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, RequeueAfter, Result


_log = structlog.get_logger(__name__)


def _is_ending(record: BackendRecord) -> bool:
    return record.is_deleting and record.is_held


def _orders(record: BackendRecord) -> tuple[object, ...]:
    return (record.meta.annotations, record.status.backend_gone, record.is_settled)


class Deregistrar:
    """Ends records.

    Args:
        records: those that are being deleted.
        drivers: who operates their load balancers.
        queue: of keys of records.
        executor: carries out steps.
        incarnation: who this process is, for `status.deregistrar`.
        noted: keeps calls for the next run in our place.
        successors: hears of ends after which the address is free at once.
        series: hears of ends.
        abandonments: hears of those that a person ordered.
        cuts: hears of drains that ended at their deadline.
        shares: of the queue's workers.
        limit: says how many calls a load balancer bears at a time, None: any number.
    """

    def __init__(
        self,
        records: Store[BackendRecord],
        drivers: Store[LoadBalancerDriver],
        queue: WorkQueue[ObjectKey],
        executor: Executor,
        *,
        incarnation: str,
        noted: NotedCalls,
        successors: Successors,
        series: DeletionMetrics,
        abandonments: AbandonmentReporter,
        cuts: CutDrains,
        shares: Shares,
        limit: Callable[[ObjectKey], int | None],
    ) -> None:
        self._records = records
        self._drivers = drivers
        self._queue = queue
        self._executor = executor
        self._incarnation = incarnation
        self._noted = noted
        self._successors = successors
        self._series = series
        self._abandonments = abandonments
        self._cuts = cuts
        self._states: dict[Uid, DeregistrationState] = {}
        self._shares = shares
        self._limit = limit
        self._limiter = ConcurrencyLimiter(queue)

    def __len__(self) -> int:
        """Return of how many records something is remembered."""
        return len(self._states)

    def record_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Remember since when the end of a record is asked for, and forget one that has ended.

        Whoever works: who goes on in his place has seen the deletion as early.
        """
        if new is None:
            if old is not None:
                self._states.pop(old.meta.uid, None)
                # Somebody else may have let it go: of its end we tell nobody anything.
                self._noted.after(old.meta.uid, None)
            return
        if _is_ending(new) and new.meta.uid not in self._states:
            monotonic = self._executor.now().monotonic
            self._states[new.meta.uid] = DeregistrationState(
                first_seen=monotonic, incarnation=self._incarnation
            )

    def listen(self) -> None:
        """Begin to listen, and look at all records that there are.

        From the moment on at which there is work: before, the queue would only grow.
        """
        self._records.follow(self._look_at)
        self._drivers.on_change(self.driver_changed)

    def _look_at(self, old: BackendRecord | None, new: BackendRecord | None) -> None:
        """Look at a record whose end was asked for, or in which something decides otherwise now."""
        if new is None or not _is_ending(new):
            return
        if old is None or not old.is_deleting or _orders(old) != _orders(new):
            self._queue.add(new.meta.key)

    def inherit(self, name: str, ended_at: float, left: Left | None) -> None:
        """Go on under the name of a run that had ended before anything was read.

        Records that name it need no write before the first call, and their addresses are
        free at once. For those that are being deleted by now it may have called, until it
        ended; it had seen no other end than these. Where it has left nothing, nobody
        knows with which answer.

        Args:
            name: by which records know it.
            ended_at: monotonic seconds by which it had ended.
            left: what it has left; None: nothing.
        """
        self._incarnation = name
        unknown = deregistration.late_calls_before(ended_at)
        for uid, state in self._states.items():
            late = unknown if left is None else left.calls.get(uid)
            self._states[uid] = attrs.evolve(state, incarnation=name, late=late)
            self._noted.after(uid, late)
        if left is None:
            return
        for uid in left.calls.keys() - self._states.keys():
            self._noted.after(uid, None)
        self._successors.recall(left.ends)

    def driver_changed(
        self, old: LoadBalancerDriver | None, new: LoadBalancerDriver | None
    ) -> None:
        """Look at all that waits for a driver which came, or which has changed."""
        if new is None or (old and old.meta.generation == new.meta.generation):
            return
        self.secret_changed(new.meta.key)

    def secret_changed(self, driver: ObjectKey) -> None:
        """Look at all that waits for a driver which may be called differently now."""
        for record in self._records.by_index("driver", driver):
            self._queue.add(record.meta.key)

    def load_balancer_changed(
        self, old: LoadBalancer | None, new: LoadBalancer | None
    ) -> None:
        """Make at once what failed at a load balancer that could not be reached.

        Their pauses have grown with its outage, to two minutes.
        """
        if new is None or not is_back(old, new):
            return
        now = self._executor.now()
        for record in self._records.by_index("driver", new.driver_key):
            state = self._states.get(record.meta.uid)
            is_here = record.load_balancer_key == new.meta.key
            if is_here and state is not None and state.streak.may_end(now):
                self._queue.add(record.meta.key)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Take one record's end as far as it goes."""
        with self._limiter.looking_at(key):
            return await self._look(key)

    async def _look(self, key: ObjectKey) -> Result:
        """Give a record a turn when there is room for it."""
        record = self._records.get(key)
        if record is None or record.meta.uid not in self._states:
            return Done()
        where = record.driver_key
        driver = find_driver(
            where, self._drivers.get(where), self._drivers.unreadable.get(where)
        )
        phase = phase_of(self._states[record.meta.uid], record)
        return await self._limiter.turn(
            self._limits(phase, record, driver),
            key,
            lambda slot: self._turn(record, driver, slot),
        )

    def _limits(
        self,
        phase: Phase,
        record: BackendRecord,
        driver: LoadBalancerDriver | Explanation,
    ) -> tuple[Limit, ...]:
        """Return what a turn counts against; what is in no hurry delays no first call."""
        if phase is Phase.RELEASING:
            return (Limit(phase, 2 * RELEASES_AT_ONCE),)
        shares, namespace = self._shares, record.meta.key.namespace
        balancer = record.load_balancer_key
        return (
            *shares.at_balancer(balancer, driver, self._limit(balancer), phase),
            *shares.at_driver(record.driver_key, driver, namespace, phase),
            shares.of_namespace(namespace),
        )

    async def _turn(
        self,
        record: BackendRecord,
        driver: LoadBalancerDriver | Explanation,
        slot: Slot,
    ) -> Result:
        """Go through the steps of one record, as far as there is room for what they need."""
        uid = record.meta.uid
        last = self._states[uid]

        def remember(learnt: DeregistrationState) -> None:
            # Kept even if the turn is cut off; but of a record that the watch has seen end
            # meanwhile, nobody would take it out again.
            nonlocal last
            last = learnt
            if uid in self._states:
                self._states[uid] = learnt
                self._noted.after(uid, learnt.late)

        seen = Permission(record, self._executor.now().monotonic)
        finish = await self._executor.run(
            Subject(record.meta.key, uid),
            last.begin_turn(driver, seen),
            partial(self._next_step, record, driver, slot),
            deregistration.learn,
            remember,
        )
        if last.is_over:
            self._states.pop(uid, None)
            self._over(record, last)
            if last.is_clean:
                self._successors.ended(uid, driver, last.late)
        if uid not in self._states:
            self._noted.after(uid, None)
            return Done()
        if finish.again_after is None:
            return Done()
        return RequeueAfter(finish.again_after)

    def _next_step(
        self,
        record: BackendRecord,
        driver: LoadBalancerDriver | Explanation,
        slot: Slot,
        state: DeregistrationState,
        now: Now,
    ) -> Step:
        """Go on, or make room for those whose traffic still flows."""
        step = deregistration.next_step(state, now)
        phase = phase_of(state, record)
        if isinstance(step, WriteStatus) and phase is not Phase.FLOWING:
            slot.change_to((self._shares.of_namespace(record.meta.key.namespace),))
        needs_place = isinstance(step, CallDriver | ReleaseRecord)
        if needs_place and not slot.change_to(self._limits(phase, record, driver)):
            return Finish(timedelta(0))
        self._note(record.meta.uid, step, state.late)
        return step

    def _note(self, uid: Uid, step: Step, late: LateCalls | None) -> None:
        """Note a call that is about to be made, where an address has a next owner."""
        if isinstance(step, CallDriver) and step.driver.member_key is MemberKey.ADDRESS:
            settling = step.driver.settling(step.operation).total_seconds()
            self._noted.before(uid, late, settling)

    def _over(self, record: BackendRecord, state: DeregistrationState) -> None:
        """Take it that a record is gone, before the watch says so."""
        self._records.observe_gone(record.meta)
        last = record if state.permission is None else state.permission.record
        end, left = end_of_drain(state, last), connections_left(state, last)
        self._series.over(last, end, left)
        if end is DrainEnd.DEADLINE:
            self._cuts.add(last, left)
        if why := last.meta.abandoned:
            self._abandonments.tell("BackendRecord", last.meta, why)
        _log.info(
            "record.released",
            record=str(record.meta.key),
            load_balancer=record.spec.load_balancer,
            address=record.address,
            drained=state.drained,
        )
