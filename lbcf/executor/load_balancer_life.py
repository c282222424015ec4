"""Carries out the steps of a LoadBalancer object's life."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Protocol

import structlog

from lbcf.core.lifecycle import load_balancer
from lbcf.core.lifecycle.load_balancer import LoadBalancerState
from lbcf.core.lifecycle.load_balancer_status import with_outcome
from lbcf.core.lifecycle.load_balancer_steps import (
    Begun,
    CallForLoadBalancer,
    Counted,
    Created,
    DriverSucceeded,
    Ensured,
    HoldLoadBalancer,
    ListRecords,
    LoadBalancerGone,
    Locked,
    LockMembers,
    Observation,
    ReadLoadBalancer,
    ReleaseLoadBalancer,
    Reply,
    Step,
    WriteOutcome,
)
from lbcf.core.lifecycle.steps import (
    Conflicted,
    Finish,
    LockTaken,
    Released,
    WriteUnconfirmed,
)
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model import names
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer
from lbcf.core.model.values import ObjectKey
from lbcf.executor.load_balancers import LoadBalancerCalls
from lbcf.executor.turns import is_finish, read_now, take_turn
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import Conflict, NotFound
from lbcf.runtime.clock import Clock
from lbcf.wire.resources import render_load_balancer_status


_log = structlog.get_logger(__name__)


class Surroundings(Protocol):
    """What a load balancer's life depends on beside its own status."""

    def look(self, balancer: LoadBalancer) -> Observation:
        """Put together what the life of a load balancer depends on at present."""

    async def lock_members(self, balancer: ObjectKey, key: str) -> bool:
        """Take the locks of its records under one more key.

        False: the API server gave no answer for some.
        """

    def shared_lock_keys(
        self, driver: ObjectKey, info: Mapping[str, str] | None
    ) -> Sequence[str]:
        """Return the lock keys of all that are the same load balancer to a driver.

        Args:
            driver: its key.
            info: what it knows it by.
        """

    async def list_records(self, balancer: LoadBalancer) -> Observation:
        """Look at it once more, with all of its records listed.

        Raises:
            KubeError: the API server could not say which there are.
        """


class LoadBalancerExecutor:
    """Performs steps.

    Args:
        writer: writes load balancers, and reads one again.
        calls: to drivers.
        clock: the time.
    """

    def __init__(
        self,
        writer: ObjectWriter[LoadBalancer],
        calls: LoadBalancerCalls,
        clock: Clock,
    ) -> None:
        self._writer = writer
        self._calls = calls
        self._clock = clock

    def now(self) -> Now:
        """Read the clock once for one decision."""
        return read_now(self._clock)

    def rest(self, balancer: LoadBalancer) -> timedelta | None:
        """Return for how long its status cannot be written; None: it can, for all we know.

        Its driver is not asked meanwhile: the answer could not be written down.
        """
        return self._writer.rest(balancer.meta)

    async def run(
        self,
        state: LoadBalancerState,
        around: Surroundings,
        remember: Callable[[LoadBalancerState], None],
    ) -> Finish:
        """Let the core ask and the world answer until the turn is over.

        Args:
            state: what is known of a load balancer.
            around: what its life depends on beside that.
            remember: keeps the state after each step.

        Raises:
            KubeError: the API server could not be asked; the turn is to be repeated.
        """
        return await take_turn(
            state,
            load_balancer.next_step,
            load_balancer.learn,
            partial(self._perform, around),
            is_last=is_finish,
            now=self.now,
            remember=remember,
        )

    async def _perform(self, around: Surroundings, step: Step) -> Reply:
        """Carry out one step."""
        match step:
            case CallForLoadBalancer():
                return await self._call(step)
            case LockMembers(balancer=balancer, lock_key=key):
                is_locked = await around.lock_members(balancer.meta.key, key)
                return LockTaken() if is_locked else WriteUnconfirmed()
            case ListRecords(balancer=balancer):
                return await around.list_records(balancer)
            case Finish():
                raise ValueError("a finished turn has nothing to perform")
            case _:
                try:
                    stored = await self._store(around, step)
                except NotFound:
                    return LoadBalancerGone()
                except Conflict:
                    return Conflicted()
                return Released() if stored is None else around.look(stored)

    async def _store(
        self,
        around: Surroundings,
        step: HoldLoadBalancer | ReadLoadBalancer | WriteOutcome | ReleaseLoadBalancer,
    ) -> LoadBalancer | None:
        """Ask the API server; returns what it has now, None: nothing that is ours."""
        before = step.balancer
        match step:
            case HoldLoadBalancer():
                finalizer = names.FINALIZER_LOAD_BALANCER
                return await self._writer.hold(before.meta, finalizer)
            case ReadLoadBalancer():
                fresh = await self._writer.read(before.meta.key)
                if fresh.meta.uid != before.meta.uid:
                    raise NotFound(f"{before.meta.key} is another one", status=404)
                self._writer.observe(fresh)
                return fresh
            case WriteOutcome():
                return await self._write(around, step)
            case ReleaseLoadBalancer():
                await self._writer.release(before.meta, names.FINALIZER_LOAD_BALANCER)
                return None

    async def _call(self, step: CallForLoadBalancer) -> Reply:
        """Call its driver."""
        reply = await self._calls.ask(step)
        is_creation = step.operation is Operation.CREATE_LOAD_BALANCER
        if is_creation and isinstance(reply, DriverSucceeded):
            name = str(step.balancer.meta.key)
            _log.info("load_balancer.created", load_balancer=name)
        return reply

    async def _write(self, around: Surroundings, step: WriteOutcome) -> LoadBalancer:
        """Put what was learnt into the status, if it says anything new."""
        before = step.balancer
        shared = around.shared_lock_keys(before.driver_key, step.info)
        after = with_outcome(before, step.outcome, self._clock.now(), shared)
        if after == before:
            return before
        if not isinstance(step.outcome, Begun | Created | Ensured | Locked | Counted):
            self._tell(before, after)
        body = render_load_balancer_status(
            before,
            after.conditions,
            info=None if after.info == before.info else after.info,
            backends=None if after.backends == before.backends else after.backends,
            lock_keys=None if after.lock_keys == before.lock_keys else after.lock_keys,
            ingress=None if after.ingress == before.ingress else after.ingress,
        )
        return await self._writer.patch(before.meta, body, "status")

    def _tell(self, before: LoadBalancer, after: LoadBalancer) -> None:
        """Log the conditions that tell of trouble."""
        for condition in after.conditions:
            if condition not in before.conditions:
                _log.info(
                    "load_balancer.told",
                    load_balancer=str(before.meta.key),
                    reason=condition.reason,
                    message=condition.message,
                )
