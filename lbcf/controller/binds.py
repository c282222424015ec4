"""Binds: finalizer, the lives of their load balancers side by side, their own end.

What is decided of each load balancer is in `lbcf.core.lifecycle.load_balancer`. Here it
learns what is in the view, and what all of them have learnt is written at once.
"""

import asyncio

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import TypeGuard

import structlog

from lbcf.controller.legacy import LegacyLocks
from lbcf.controller.record_lister import RecordLister
from lbcf.controller.view import View
from lbcf.core.lifecycle import bind_status, load_balancer
from lbcf.core.lifecycle.bind_status import Change, observe_entry
from lbcf.core.lifecycle.load_balancer import LoadBalancerState
from lbcf.core.lifecycle.load_balancer_steps import (
    AbandonOrder,
    CallForLoadBalancer,
    Created,
    Deleted,
    Ensured,
    ListRecords,
    LoadBalancerGone,
    LockMembers,
    Observation,
    ReleaseLoadBalancer,
    Reply,
    Step,
    WriteOutcome,
)
from lbcf.core.lifecycle.steps import (
    Finish,
    LockTaken,
    Released,
    WriteUnconfirmed,
)
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model import binds, names
from lbcf.core.model.binds import Bind, EntryStatus
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.executor import LoadBalancerCalls
from lbcf.executor.binds import BindWriter
from lbcf.executor.object_events import AbandonmentReporter
from lbcf.executor.turns import read_now, take_turn
from lbcf.kube.errors import Conflict, NotFound
from lbcf.runtime.clock import Clock
from lbcf.runtime.limiter import ConcurrencyLimiter, Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, Parked, RequeueAfter, Result


_SOON = RequeueAfter(timedelta(seconds=1))

_log = structlog.get_logger(__name__)

States = dict[str, LoadBalancerState]
"""Of the load balancers of one Bind, by name."""
Write = WriteOutcome | ReleaseLoadBalancer
"""A step that is made for all load balancers of a Bind together."""


class Binds:
    """Takes Binds through their life."""

    def __init__(
        self,
        view: View,
        writer: BindWriter,
        calls: LoadBalancerCalls,
        clock: Clock,
        abandonments: AbandonmentReporter,
        *,
        queue: WorkQueue[ObjectKey],
        shares: Shares,
        inheritance: LegacyLocks,
        lists: RecordLister,
    ) -> None:
        self._view = view
        self._lists = lists
        self._inheritance = inheritance
        self._queue = queue
        self._writer = writer
        self._shares = shares
        self._limiter = ConcurrencyLimiter(queue)
        self._calls = calls
        self._clock = clock
        self._abandonments = abandonments
        self._states: dict[ObjectKey, tuple[Uid, States]] = {}

    def listen(self) -> None:
        """Begin to listen, and look at all there are."""
        self._view.binds.follow(self._changed)

    def _changed(self, old: Bind | None, new: Bind | None) -> None:
        if (either := new or old) is not None:
            self._queue.add(either.meta.key)

    def instead_of(
        self, others: Callable[[ObjectKey], Awaitable[Result]]
    ) -> Callable[[ObjectKey], Awaitable[Result]]:
        """Make a reconciler of load balancers leave a Bind's to the Bind."""

        async def reconcile(key: ObjectKey) -> Result:
            """Hand a Bind's load balancer to its Bind."""
            bind = names.bind_of(key)
            if bind is None:
                return await others(key)
            self._queue.add(bind)
            return Done()

        return reconcile

    async def reconcile(self, key: ObjectKey) -> Result:
        """Take one Bind as far as it goes."""
        with self._limiter.looking_at(key):
            return await self._visit(key)

    async def _visit(self, key: ObjectKey) -> Result:
        """Hold a Bind, and do what is due."""
        bind = self._view.binds.get(key)
        if bind is None:
            self._states.pop(key, None)
            return Done()
        held = names.FINALIZER_LOAD_BALANCER in bind.meta.finalizers
        if key in self._view.binds.unreadable or (bind.is_deleting and not held):
            return Done()
        if (rest := self._writer.rest(bind)) is not None:
            return Parked(rest)
        try:
            return await self._turn(bind if held else await self._writer.hold(bind))
        except (Conflict, NotFound):
            return _SOON

    async def _turn(self, bind: Bind) -> Result:
        """Ask all drivers that are to be asked, side by side; write what they said."""
        noted = binds.recorded(bind, self._clock.now())
        if noted != bind.statuses:
            bind = await self._writer.record(bind, noted)
        states = self._states_of(bind)
        # Those that are new are written down before the drivers of any are called.
        everyone = self._begin(bind, states, bind.statuses)
        new = [name for name in everyone if self._is_new(states[name])]
        bind, going, ends = await self._round(bind, states, new)
        others = [status for status in bind.statuses if status.name not in new]
        going += self._begin(bind, states, others)
        while going:
            bind, going, ended = await self._round(bind, states, going)
            ends += ended
        if bind.is_deleting and not bind.statuses and not self._records(bind):
            await self._release(bind)
            return Done()
        waits = [end.again_after for end in ends if end.again_after is not None]
        return RequeueAfter(min(waits)) if waits else Done()

    def _states_of(self, bind: Bind) -> States:
        """Find what is remembered of a Bind's load balancers."""
        uid, states = self._states.get(bind.meta.key, (bind.meta.uid, {}))
        there = {status.name for status in bind.statuses}
        if uid != bind.meta.uid:
            states = {}
        states = {name: state for name, state in states.items() if name in there}
        self._states[bind.meta.key] = bind.meta.uid, states
        return states

    def _begin(
        self, bind: Bind, states: States, statuses: Iterable[EntryStatus]
    ) -> list[str]:
        """Begin a turn of load balancers; returns their names."""
        found = list(statuses)
        for status in found:
            state = states.get(status.name, LoadBalancerState())
            observed = self._look(bind, status)
            states[status.name] = state.begin_turn(observed, self._now())
        return [status.name for status in found]

    def _is_new(self, state: LoadBalancerState) -> bool:
        """Whether its driver is about to be asked to create it for the first time."""
        step = load_balancer.next_step(state, self._now())
        return (
            isinstance(step, CallForLoadBalancer)
            and step.operation is Operation.VALIDATE_LOAD_BALANCER
            and step.before is None
        )

    async def _round(
        self, bind: Bind, states: States, going: list[str]
    ) -> tuple[Bind, list[str], list[Finish]]:
        """Take load balancers up to what each is to write, and write that at once.

        Returns:
            The Bind as it is then, who goes on, and the ends of the others' turns. One
            that waits for a place at its driver is neither: the Bind comes back for it.
        """
        await self._list_records(bind, states, going)
        found = await asyncio.gather(
            *(self._advance(bind, states, name) for name in going)
        )
        steps = dict(zip(going, found, strict=True))
        writes = {name: s for name, s in steps.items() if _is_write(s)}
        if writes:
            bind = await self._write(bind, states, writes)
        return bind, list(writes), [s for s in found if isinstance(s, Finish)]

    async def _list_records(self, bind: Bind, states: States, going: list[str]) -> None:
        """See all records that there are of load balancers which are about to go.

        Raises:
            KubeError: the API server could not say.
        """
        found = ((n, load_balancer.next_step(states[n], self._now())) for n in going)
        asked = {n: step for n, step in found if isinstance(step, ListRecords)}
        keys = [step.balancer.meta.key for step in asked.values()]
        listed = await asyncio.gather(*map(self._lists.since_now, keys))
        of_name = {status.name: status for status in bind.statuses}
        for (name, step), key, shown in zip(asked.items(), keys, listed, strict=True):
            look = self._look(bind, of_name[name])
            seen = look.with_records(shown.records[key], shown.unreadable)
            states[name] = load_balancer.learn(states[name], step, seen, self._now())

    async def _advance(self, bind: Bind, states: States, name: str) -> Step | None:
        """Ask the driver of one load balancer what is to be asked up to the next write.

        None: its driver has no place at present, and the Bind comes back when it has. So
        a driver that hangs holds no more than its share of the workers, and those of the
        Bind's other drivers go on.
        """
        state, slot = states[name], None
        step = load_balancer.next_step(state, self._now())
        if isinstance(step, CallForLoadBalancer):
            limits = self._shares.at_driver(
                step.driver.meta.key, step.driver, bind.meta.key.namespace
            )
            slot = self._limiter.enter(limits, bind.meta.key)
            if slot is None:
                return None
        try:
            return await take_turn(
                state,
                load_balancer.next_step,
                load_balancer.learn,
                self._perform,
                is_last=_is_no_call,
                now=self._now,
                remember=partial(states.__setitem__, name),
            )
        finally:
            if slot is not None:
                slot.leave()

    async def _perform(self, step: Step) -> Reply:
        """Call a driver, or take locks.

        Raises:
            TypeError: it is no step of a Bind's load balancer, or is made for all of them.
        """
        match step:
            case CallForLoadBalancer():
                return await self._calls.ask(step)
            case LockMembers(balancer=balancer, lock_key=key):
                taking = self._inheritance.take_also(balancer.meta.key, key)
                return LockTaken() if await taking else WriteUnconfirmed()
            case _:
                raise TypeError(f"nobody performs {type(step).__name__} for an entry")

    async def _write(
        self, bind: Bind, states: States, writes: dict[str, Write]
    ) -> Bind:
        """Put what was learnt into the statuses; returns the Bind as it is then."""
        now = self._clock.now()
        for name, step in writes.items():
            _log_step(bind, name, step)
        changes = {
            name: _change(step, bind, now, self._shared_lock_keys(step))
            for name, step in writes.items()
        }
        written = await self._writer.write(bind, changes)
        for name, step in writes.items():
            reply = self._reply(written, name, step)
            states[name] = load_balancer.learn(states[name], step, reply, self._now())
        return written or bind

    def _shared_lock_keys(self, step: Write) -> tuple[str, ...]:
        """Return the lock keys of all that are the same load balancer to its driver."""
        if isinstance(step, ReleaseLoadBalancer):
            return ()
        return self._view.shared_lock_keys(step.balancer.driver_key, step.info)

    def _reply(self, written: Bind | None, name: str, step: Write) -> Reply:
        """Return what has become of one load balancer by a write."""
        statuses = () if written is None else written.statuses
        status = next((s for s in statuses if s.name == name), None)
        if written is None or (status is None and isinstance(step, WriteOutcome)):
            return LoadBalancerGone()
        return Released() if status is None else self._look(written, status)

    def _look(self, bind: Bind, status: EntryStatus) -> Observation:
        """Put together what is in the view."""
        balancer = binds.as_load_balancer(bind, status)
        users = self._view.records.count("load_balancer", balancer.meta.key)
        driver = self._view.driver(balancer.driver_key)
        observed = observe_entry(bind, status, driver, now=self._clock.now())
        return observed.with_records(users, self._view.records.unreadable)

    def _now(self) -> Now:
        return read_now(self._clock)

    def _records(self, bind: Bind) -> int:
        """Count the records that a Bind still owns."""
        return len(self._view.records_of(bind.group.meta.key))

    async def tell(
        self, balancer: LoadBalancer, news: tuple[Condition, ...], epoch: str | None
    ) -> None:
        """Write down conditions of a load balancer of a Bind, and a new epoch.

        Raises:
            KubeError: as `BindWriter.write`.
        """
        change = partial(
            bind_status.with_news, news=news, epoch=epoch, now=self._clock.now()
        )
        await self._note(balancer, change)

    async def _note(self, balancer: LoadBalancer, change: Change) -> None:
        """Write down what was learnt of a load balancer of a Bind, if that is there.

        Raises:
            KubeError: as `BindWriter.write`.
        """
        key = names.bind_of(balancer.meta.key)
        bind = None if key is None else self._view.binds.get(key)
        if bind is not None:
            own = names.own_name(balancer.meta.key)
            await self._writer.write(bind, {own: change})

    async def _release(self, bind: Bind) -> None:
        """Let a Bind go of which nothing is left."""
        await self._writer.release(bind)
        if why := bind.meta.abandoned:
            self._abandonments.tell("Bind", bind.meta, why)
        _log.info("bind.deleted", bind=str(bind.meta.key), why=why)


def _is_write(step: Step | None) -> TypeGuard[Write]:
    return isinstance(step, WriteOutcome | ReleaseLoadBalancer)


def _is_no_call(step: Step) -> TypeGuard[Write | Finish]:
    return isinstance(step, WriteOutcome | ReleaseLoadBalancer | Finish)


def _change(step: Write, bind: Bind, now: datetime, shared: tuple[str, ...]) -> Change:
    """Return what a step does to the status of a load balancer."""
    if isinstance(step, ReleaseLoadBalancer):
        return bind_status.without_entry
    return partial(
        bind_status.with_outcome,
        outcome=step.outcome,
        now=now,
        generation=bind.meta.generation,
        shared=shared,
    )


def _log_step(bind: Bind, name: str, step: Write) -> None:
    """Log that a driver has done something, or that a person lets go of it."""
    match step:
        case WriteOutcome(outcome=Created()):
            done = Operation.CREATE_LOAD_BALANCER
        case WriteOutcome(outcome=Ensured()):
            done = Operation.ENSURE_LOAD_BALANCER
        case ReleaseLoadBalancer(proof=Deleted()):
            done = Operation.DELETE_LOAD_BALANCER
        case ReleaseLoadBalancer(proof=AbandonOrder(why)):
            key = str(bind.meta.key)
            _log.warning("bind.abandoned", bind=key, load_balancer=name, why=why)
            return
        case _:
            return
    key = str(bind.meta.key)
    _log.info("bind.load_balancer", bind=key, load_balancer=name, done=done.value)
