"""LoadBalancer objects: each change of one, its driver or its records is a turn of its state.

What is decided is in `lbcf.core.lifecycle.load_balancer`; here it learns what is in the view.
"""

from collections.abc import Mapping

import structlog

from lbcf.controller.legacy import LegacyLocks
from lbcf.controller.record_lister import RecordLister
from lbcf.controller.view import View
from lbcf.core.lifecycle.load_balancer import LoadBalancerState
from lbcf.core.lifecycle.load_balancer_status import observe_load_balancer
from lbcf.core.lifecycle.load_balancer_steps import Observation
from lbcf.core.model.resources import LoadBalancer
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.executor.load_balancer_life import LoadBalancerExecutor
from lbcf.executor.object_events import AbandonmentReporter
from lbcf.runtime.worker import Done, Parked, RequeueAfter, Result


_log = structlog.get_logger(__name__)


class LoadBalancers:
    """Takes LoadBalancers through their state."""

    def __init__(
        self,
        view: View,
        executor: LoadBalancerExecutor,
        abandonments: AbandonmentReporter,
        *,
        inheritance: LegacyLocks,
        lists: RecordLister,
    ) -> None:
        self._view = view
        self._lists = lists
        self._inheritance = inheritance
        self._abandonments = abandonments
        self._executor = executor
        self._states: dict[ObjectKey, tuple[Uid, LoadBalancerState]] = {}

    async def reconcile(self, key: ObjectKey) -> Result:
        """Take one load balancer as far as it goes."""
        found = self._view.load_balancers.get(key)
        if found is None:
            self._states.pop(key, None)
            return Done()
        if (rest := self._executor.rest(found)) is not None:
            return Parked(rest)
        uid, state = self._states.get(key, (found.meta.uid, LoadBalancerState()))
        if uid != found.meta.uid:
            state = LoadBalancerState()
        state = state.begin_turn(self.look(found), self._executor.now())

        def remember(learnt: LoadBalancerState) -> None:
            """Keep it even if the turn is cut."""
            self._states[key] = found.meta.uid, learnt

        remember(state)
        finish = await self._executor.run(state, self, remember)
        if self._states[key][1].is_released:
            del self._states[key]
            self._released(found)
        if finish.again_after is None:
            return Done()
        return RequeueAfter(finish.again_after)

    def _released(self, found: LoadBalancer) -> None:
        """Report that our finalizer is off."""
        if why := found.meta.abandoned:
            self._abandonments.tell("LoadBalancer", found.meta, why)
        _log.info(
            "load_balancer.deleted",
            load_balancer=str(found.meta.key),
            why=found.meta.abandoned,
        )

    def look(self, balancer: LoadBalancer) -> Observation:
        """Put together what is in the view."""
        key, view = balancer.meta.key, self._view
        driver, members = view.driver(balancer.driver_key), view.member_count(key)
        observed = observe_load_balancer(balancer, driver, members=members)
        unreadable = (*view.records.unreadable, *view.others.unreadable)
        return observed.with_records(view.record_count(key), unreadable)

    async def lock_members(self, balancer: ObjectKey, key: str) -> bool:
        """Take the locks of its records under one more key."""
        return await self._inheritance.take_also(balancer, key)

    def shared_lock_keys(
        self, driver: ObjectKey, info: Mapping[str, str] | None
    ) -> tuple[str, ...]:
        """Return the lock keys of all that are the same load balancer to a driver."""
        return self._view.shared_lock_keys(driver, info)

    async def list_records(self, balancer: LoadBalancer) -> Observation:
        """See all of its records that there are now."""
        key = balancer.meta.key
        listed = await self._lists.since_now(key)
        return self.look(balancer).with_records(listed.records[key], listed.unreadable)
