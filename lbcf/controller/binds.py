"""A Bind's own life: finalizer, its load balancers' beginning and end, its end.

Before it: `bind_view` put a Bind's key into the queue, or a driver, or the last record
of a load balancer, changed. After it: `status.loadBalancerStatuses` says what there is,
which `bind_view` hands on; what is decided is in `lbcf.core.lifecycle.bind_life`.
"""

import asyncio

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import structlog

from lbcf.controller.entry_calls import EntryCalls, Learnt
from lbcf.controller.view import View
from lbcf.core.lifecycle import bind_life
from lbcf.core.lifecycle.bind_life import Change
from lbcf.core.lifecycle.turn import DRIVER_RECHECK
from lbcf.core.model import binds, names
from lbcf.core.model.binds import Bind, EntryStatus
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation
from lbcf.executor import LoadBalancerCalls
from lbcf.executor.object_events import AbandonmentReporter
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Conflict, NotFound
from lbcf.kube.kinds import BINDS
from lbcf.kube.requests import Body
from lbcf.runtime.clock import Clock
from lbcf.runtime.limiter import ConcurrencyLimiter, Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, RequeueAfter, Result
from lbcf.wire.binds import render_statuses
from lbcf.wire.metadata import render_finalizer_added, render_finalizer_removed


T = TypeVar("T")

_TRIES = 3
_SOON = RequeueAfter(timedelta(seconds=1))

_log = structlog.get_logger(__name__)


class Binds:
    """Takes Binds through their life."""

    def __init__(
        self,
        view: View,
        client: KubeClient,
        calls: LoadBalancerCalls,
        clock: Clock,
        abandonments: AbandonmentReporter,
        *,
        queue: WorkQueue[ObjectKey],
        shares: Shares,
    ) -> None:
        self._view = view
        self._client = client
        self._shares = shares
        self._limiter = ConcurrencyLimiter(queue)
        self._calls = EntryCalls(view, calls, clock)
        self._clock = clock
        self._abandonments = abandonments

    def instead_of(
        self,
        others: Callable[[ObjectKey], Awaitable[Result]],
        queue: WorkQueue[ObjectKey],
    ) -> Callable[[ObjectKey], Awaitable[Result]]:
        """Make a reconciler of load balancers leave a Bind's to the Bind."""

        async def reconcile(key: ObjectKey) -> Result:
            """Hand a Bind's load balancer to its Bind."""
            bind = names.bind_of(key)
            if bind is None:
                return await others(key)
            queue.add(bind)
            return Done()

        return reconcile

    async def reconcile(self, key: ObjectKey) -> Result:
        """Take one Bind as far as it goes."""
        with self._limiter.looking_at(key):
            return await self._visit(key)

    async def _visit(self, key: ObjectKey) -> Result:
        """Hold a Bind, and do what is due."""
        bind = self._view.binds.get(key)
        held = (
            bind is not None and names.FINALIZER_LOAD_BALANCER in bind.meta.finalizers
        )
        if bind is None or key in self._view.binds.unreadable:
            return Done()
        if bind.is_deleting and not held:
            return Done()
        if (rest := self._client.rest(bind.meta)) is not None:
            return RequeueAfter(rest)  # what drivers answer could not be written
        try:
            if not held:
                bind = await self._patch(
                    bind,
                    render_finalizer_added(bind.meta, names.FINALIZER_LOAD_BALANCER),
                )
            return await self._turn(bind)
        except (Conflict, NotFound):
            return _SOON

    async def _turn(self, bind: Bind) -> Result:
        """Ask all drivers that are to be asked, side by side; write what they said."""
        noted = binds.recorded(bind, self._clock.now())
        if noted != bind.statuses:
            bind = await self._patch(bind, render_statuses(noted), "status")
        bind, parked = await self._begin(bind)
        looks = (self._look(bind, s, parked) for s in bind.statuses)
        learnt = await asyncio.gather(*looks)
        changes = {
            status.name: found.change
            for status, found in zip(bind.statuses, learnt, strict=True)
            if found.change is not None
        }
        if changes:
            bind = await self.write(bind, changes)
        if bind.is_deleting and not bind.statuses and not self._records(bind):
            await self._release(bind)
            return Done()
        waits = [found.again for found in learnt if found.again is not None]
        return RequeueAfter(min(waits)) if waits else Done()

    async def _begin(self, bind: Bind) -> tuple[Bind, frozenset[str]]:
        """Write down of what is new that it may be made, or what speaks against it.

        Returns:
            The Bind as it is then, and the load balancers that wait for their drivers.
        """
        new = [status for status in bind.statuses if self._is_new(bind, status)]
        learnt = await asyncio.gather(
            *(self._limited(bind, one, self._calls.objection(bind, one)) for one in new)
        )
        changes = {
            status.name: change
            for status, change in zip(new, learnt, strict=True)
            if change is not None
        }
        parked = frozenset(one.name for one in new) - changes.keys()
        return await self.write(bind, changes) if changes else bind, parked

    def _is_new(self, bind: Bind, status: EntryStatus) -> bool:
        """Tell whether its driver is there, and is to make it for the first time."""
        operation = bind_life.next_operation(bind, status, in_use=False)
        if operation is not Operation.CREATE_LOAD_BALANCER or status.may_exist:
            return False
        key = binds.as_load_balancer(bind, status).driver_key
        is_due = bind_life.rest_of(status, self._clock.now()) <= timedelta(0)
        return is_due and not isinstance(self._view.driver(key), Explanation)

    def _records(self, bind: Bind) -> int:
        """Count the records that a Bind still owns."""
        return len(self._view.records_of(bind.group.meta.key))

    async def _look(
        self, bind: Bind, status: EntryStatus, parked: frozenset[str]
    ) -> Learnt:
        """Do for one load balancer what is due, unless it waits for its driver."""
        if status.name in parked:
            return Learnt()
        balancer = binds.as_load_balancer(bind, status)
        users = self._view.records.by_index("load_balancer", balancer.meta.key)
        now = self._clock.now()
        operation = bind_life.next_operation(bind, status, in_use=bool(users))
        if operation is None:
            return self._idle(bind, status, in_use=bool(users))
        if operation is Operation.DELETE_LOAD_BALANCER and _abandoned(bind, status):
            return Learnt(bind_life.gone, timedelta(0))
        rest = bind_life.rest_of(status, now)
        if rest > timedelta(0):
            return Learnt(again=rest)
        driver = self._view.driver_of(balancer)
        if operation is Operation.DELETE_LOAD_BALANCER:
            driver = self._view.driver(balancer.driver_key)
        if isinstance(driver, Explanation):
            told_of = partial(
                bind_life.without_driver,
                reason=driver.reason,
                message=driver.message,
                now=now,
            )
            return Learnt(told_of, DRIVER_RECHECK)
        if operation is Operation.CREATE_LOAD_BALANCER and not status.may_exist:
            return Learnt(again=_SOON.delay)  # `_begin` goes first
        question = self._calls.ask(bind, balancer, driver, operation)
        learnt = await self._limited(bind, status, question)
        return Learnt() if learnt is None else learnt

    async def _limited(
        self, bind: Bind, status: EntryStatus, question: Coroutine[Any, Any, T]
    ) -> T | None:
        """Ask the driver of one load balancer, if it may have one more turn.

        None: the Bind comes back when it may. So a driver that hangs holds no more than
        its share of the workers, and those of the Bind's other drivers go on.
        """
        key = binds.as_load_balancer(bind, status).driver_key
        driver, whose = self._view.driver(key), bind.meta.key
        limits = self._shares.at_driver(key, driver, whose.namespace)
        slot = self._limiter.enter(limits, whose)
        if slot is None:
            question.close()
            return None
        try:
            return await question
        finally:
            slot.leave()

    def _idle(self, bind: Bind, status: EntryStatus, *, in_use: bool) -> Learnt:
        """Say how one is whose driver is not to be asked."""
        if not bind.is_leaving(status):
            return Learnt()
        if not in_use:
            return Learnt(bind_life.gone)  # never created: nothing to delete
        return Learnt(partial(bind_life.waiting, now=self._clock.now()))

    async def write_epoch(self, balancer: LoadBalancer, epoch: str) -> None:
        """Write down the epoch of a load balancer of a Bind.

        Raises:
            KubeError: as `write`.
        """
        await self._note(balancer, partial(bind_life.with_epoch, epoch=epoch))

    async def tell(self, balancer: LoadBalancer, condition: Condition) -> None:
        """Write down a condition of a load balancer of a Bind.

        Raises:
            KubeError: as `write`.
        """
        change = partial(
            bind_life.with_condition, condition=condition, now=self._clock.now()
        )
        await self._note(balancer, change)

    async def _note(self, balancer: LoadBalancer, change: Change) -> None:
        """Write down what was learnt of a load balancer of a Bind, if that is there.

        Raises:
            KubeError: as `write`.
        """
        key = names.bind_of(balancer.meta.key)
        bind = None if key is None else self._view.binds.get(key)
        if bind is not None:
            await self.write(bind, {names.own_name(balancer.meta.key): change})

    async def write(self, bind: Bind, changes: Mapping[str, Change]) -> Bind:
        """Put what was learnt into the statuses, whatever else has changed meanwhile.

        Raises:
            Conflict: it changes faster than it can be written.
            NotFound: it is gone.
            KubeError: the API server could not be asked.
        """
        for attempt in range(1, _TRIES + 1):
            statuses = bind_life.changed(bind.statuses, changes)
            if statuses == bind.statuses:
                break
            try:
                return await self._patch(bind, render_statuses(statuses), "status")
            except Conflict:
                if attempt == _TRIES:
                    raise
            fresh = await self._client.get(BINDS, bind.meta.key)
            if fresh.meta.uid != bind.meta.uid:
                break
            bind = fresh
        return bind

    async def _release(self, bind: Bind) -> None:
        """Let a Bind go of which nothing is left."""
        body = render_finalizer_removed(bind.meta, names.FINALIZER_LOAD_BALANCER)
        await self._client.patch(BINDS, bind.meta.key, body, cas=bind.meta)
        if why := bind.meta.abandoned:
            self._abandonments.tell("Bind", bind.meta, why)
        _log.info("bind.deleted", bind=str(bind.meta.key), why=why)

    async def _patch(self, bind: Bind, body: Body, subresource: str = "") -> Bind:
        """Write by compare-and-swap, and let the view know."""
        patched = await self._client.patch(
            BINDS, bind.meta.key, body, cas=bind.meta, subresource=subresource
        )
        self._view.binds.observe(patched)
        return patched


def _abandoned(bind: Bind, status: EntryStatus) -> bool:
    """Tell whether a Bind that is deleted lets its load balancers go without drivers.

    Its records have an annotation of their own: nothing gets here before they are gone.
    """
    why = bind.meta.abandoned
    if not why or not bind.is_deleting:
        return False
    _log.warning(
        "bind.abandoned", bind=str(bind.meta.key), load_balancer=status.name, why=why
    )
    return True
