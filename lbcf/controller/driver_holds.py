"""A driver that is needed cannot go: our finalizer holds it until nothing needs it.

Before it: `driver_care` meets a driver without our finalizer, or one that is being
deleted. After it: the driver is held, released, or says who needs it. Without its
driver nobody could take a backend out of a load balancer any more: in a namespace that
is deleted nobody could even put the driver back.
"""

import structlog

from lbcf.controller.driver_needs import needs_of
from lbcf.controller.view import View
from lbcf.core.model import conditions, names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    LoadBalancer,
    LoadBalancerDriver,
)
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.executor.abandonment import Abandonments
from lbcf.executor.writes import ObjectWriter
from lbcf.runtime.queue import WorkQueue
from lbcf.wire.resources import render_finalizer_added


_log = structlog.get_logger(__name__)


class DriverHolds:
    """Puts our finalizer on drivers and takes it off.

    Args:
        view: what has been read.
        writer: writes drivers.
        queue: of drivers to look at.
        abandonments: hears of drivers that were let go while something needs them.
    """

    def __init__(
        self,
        view: View,
        writer: ObjectWriter[LoadBalancerDriver],
        queue: WorkQueue[ObjectKey],
        abandonments: Abandonments,
    ) -> None:
        self._view = view
        self._writer = writer
        self._queue = queue
        self._abandonments = abandonments

    def listen(self) -> None:
        """Look at a driver that waits for its end when who needs it changes."""
        view = self._view
        view.load_balancers.on_change(self._user_changed)
        view.records.on_change(self._user_changed)
        view.groups.on_change(self._group_changed)
        for store in (view.load_balancers, view.records, view.groups, view.binds):
            store.on_unreadable(self._unreadable_changed)

    def _user_changed(
        self,
        old: LoadBalancer | BackendRecord | None,
        new: LoadBalancer | BackendRecord | None,
    ) -> None:
        """Look at the driver of what is gone; its driver never changes."""
        if old is not None and new is None:
            self._look_at(old.driver_key)

    def _group_changed(
        self, old: BackendGroup | None, new: BackendGroup | None
    ) -> None:
        """Look at the driver that a group asked, and asks no longer."""
        before = None if old is None else old.judge_key
        if before is not None and (new is None or new.judge_key != before):
            self._look_at(before)

    def _unreadable_changed(self, _key: ObjectKey) -> None:
        """Look at all that wait: what was unreadable may have needed any of them."""
        for driver in self._view.drivers.values():
            if driver.meta.deleting_since is not None:
                self._queue.add(driver.meta.key)

    def _look_at(self, key: ObjectKey) -> None:
        """Look at a driver if it waits for its end."""
        driver = self._view.drivers.get(key)
        if driver is not None and driver.meta.deleting_since is not None:
            self._queue.add(key)

    async def hold(self, driver: LoadBalancerDriver) -> LoadBalancerDriver:
        """Put our finalizer on, if it is not there.

        Raises:
            KubeError: it could not be written.
        """
        meta = driver.meta
        if names.FINALIZER_DRIVER in meta.finalizers:
            return driver
        body = render_finalizer_added(meta, names.FINALIZER_DRIVER)
        return await self._writer.patch(meta, body)

    async def let_go(self, driver: LoadBalancerDriver) -> Condition | None:
        """Take our finalizer off a driver that nothing needs; else say who needs it.

        Raises:
            KubeError: it could not be written.
        """
        meta = driver.meta
        if names.FINALIZER_DRIVER not in meta.finalizers:
            return None
        why = meta.abandoned
        needs = needs_of(self._view, meta.key)
        if needs and not why:
            message = f"being deleted; waits for {'; '.join(needs)}"
            kind, generation = conditions.ACCEPTED, meta.generation
            return Condition(kind, True, Reason.IN_USE, message, generation)
        await self._writer.release(meta, names.FINALIZER_DRIVER)
        if needs:
            _log.warning("driver.abandoned", driver=str(meta.key), why=why, needs=needs)
            self._abandonments.tell("LoadBalancerDriver", meta, why)
        else:
            _log.info("driver.released", driver=str(meta.key))
        return None
