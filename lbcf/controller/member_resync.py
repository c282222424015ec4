"""Reads the members of load balancers by period, and puts back what was lost.

HAProxy forgets at every reload what was added at run time. A driver that declares
listBackends names the present memory of its load balancer by an epoch. When that
changes, every record of the load balancer is first written down as lost and then put
back; the new epoch is written down last, so that a crash in between repeats the work.
What is missing in an epoch that did not change was taken out by somebody: the condition
Drifted tells of it.

Lost may be any member whose registration began before the new epoch was read, also one
that is not written down yet. Such a record has its address, and a quorum LIST made
afterwards shows it, however far the watch lags behind (counterexample w28). The same
where no epoch was known before, but for the members that are listed (w38).
"""

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import structlog

from lbcf.controller.binds import Binds
from lbcf.controller.first_checks import FirstChecks
from lbcf.controller.member_conditions import (
    ConditionWriter,
    DriftedCondition,
    OrphanedCondition,
    ReachableCondition,
    is_to_be_told,
)
from lbcf.controller.member_health import InServiceCondition
from lbcf.controller.other_shards import ElsewhereKnown, ElsewhereLost
from lbcf.controller.record_lister import RecordLister
from lbcf.controller.registrar import Registrar
from lbcf.controller.resets import ResetMetrics, ResetReporter
from lbcf.controller.resync_schedule import ResyncSchedule
from lbcf.controller.triggers import same_spec
from lbcf.controller.view import View
from lbcf.core.lifecycle.listing import Epochs, lost_members
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import MemberKey, ObjectKey
from lbcf.core.reasons import Explanation
from lbcf.executor import Listing, LoadBalancerCalls
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import Conflict, KubeError, NotFound
from lbcf.kube.events import EventRecorder
from lbcf.kube.reader import KubeReader
from lbcf.runtime.clock import Clock
from lbcf.runtime.metrics import Metrics


_LOST = "the load balancer was reset and lost its members; putting back"

_log = structlog.get_logger(__name__)


class MemberResync:
    """Reads epochs.

    Args:
        view: what has been read.
        client: the API server.
        writer: writes load balancers.
        records: writes records.
        calls: to drivers, about load balancers.
        lists: shows all records of a load balancer that there are now.
        registrar: puts members back.
        elsewhere: has those of other shards put back.
        checks: told which members are in service.
        binds: writes the epochs of load balancers of Binds.
        recorder: of Events about load balancers.
        period: between two readings of one load balancer.
        clock: measures.
        metrics: of the process; None: nobody measures.
    """

    def __init__(
        self,
        view: View,
        client: KubeReader,
        writer: ObjectWriter[LoadBalancer],
        records: ObjectWriter[BackendRecord],
        calls: LoadBalancerCalls,
        *,
        lists: RecordLister,
        registrar: Registrar,
        elsewhere: ElsewhereLost,
        checks: FirstChecks,
        binds: Binds,
        recorder: EventRecorder,
        period: timedelta,
        clock: Clock,
        metrics: Metrics | None = None,
    ) -> None:
        self._view = view
        self._calls = calls
        self._registrar = registrar
        self._elsewhere = elsewhere
        self._clock = clock
        self._lists = lists
        self._rounds = ResyncSchedule(self._read, period=period, clock=clock)
        self._epochs: dict[ObjectKey, Epochs] = {}
        self._writer = ConditionWriter(writer, binds, clock)
        self._drift = DriftedCondition(view, self._writer, recorder)
        self._orphans = OrphanedCondition(
            view, self._writer, recorder, metrics, ElsewhereKnown(client, clock)
        )
        self._in_service = InServiceCondition(view, records, checks, clock)
        self._reachable = ReachableCondition(view, self._writer, recorder, clock)
        self._series = None if metrics is None else ResetMetrics(metrics)
        self._resets = ResetReporter(view, recorder, self._series, clock)

    def listen(self) -> None:
        """Begin to follow load balancers and drivers; before the informers start."""
        self._view.load_balancers.on_change(self._load_balancer_changed)
        self._view.drivers.on_change(self._driver_changed)
        if self._series is not None:
            self._view.drivers.on_end(self._series.forget)

    def rounds(self) -> tuple[Coroutine[Any, Any, object], ...]:
        """Return what reads all load balancers, each by period, and what writes InService.

        Each goes on until cancelled. In one TaskGroup nobody would tell that a library has
        cancelled something in the second, and InService would never be written again.
        """
        return self._rounds.run(), self._in_service.run()

    def _load_balancer_changed(
        self, old: LoadBalancer | None, new: LoadBalancer | None
    ) -> None:
        """Read a load balancer as long as its driver can list its members.

        And once where it cannot: people are told that nobody knows how it is.
        """
        if new is not None and self._is_listed(new):
            self._rounds.follow(new.meta.key, new.driver_key)
            return
        gone = new or old
        if gone is not None:
            self._rounds.forget(gone.meta.key)
            self._forget(gone.meta.key)

    def _driver_changed(
        self, old: LoadBalancerDriver | None, new: LoadBalancerDriver | None
    ) -> None:
        """Look at a driver's load balancers when it may list them, or no longer."""
        either = new or old
        if either is None or same_spec(old, new):
            return
        if self._series and new and new.declares(Operation.LIST_BACKENDS):
            self._series.follow(new.meta.key)
        for found in self._view.load_balancers.by_index("driver", either.meta.key):
            self._load_balancer_changed(found, found)

    def _is_listed(self, load_balancer: LoadBalancer) -> bool:
        if load_balancer.info is None or load_balancer.meta.deleting_since is not None:
            return False
        if not self._view.shard.has(load_balancer.meta.key):
            return False
        driver = self._view.drivers.get(load_balancer.driver_key)
        can_list = driver is not None and driver.declares(Operation.LIST_BACKENDS)
        return can_list or is_to_be_told(load_balancer, driver)

    def _forget(self, key: ObjectKey) -> None:
        self._drift.forget(key)
        self._reachable.forget(key)
        self._in_service.forget(key)
        self._resets.forget(key)
        self._orphans.forget(key)
        self._epochs.pop(key, None)

    async def _read(self, key: ObjectKey) -> None:
        """Read a load balancer, and keep nothing of it if it has gone meanwhile."""
        try:
            await self._look(key)
        finally:
            if not self._rounds.follows(key):
                self._forget(key)

    async def _look(self, key: ObjectKey) -> None:
        """Read one epoch and act on it; whatever fails is read again next time."""
        load_balancer = self._view.load_balancers.get(key)
        if load_balancer is None:
            return
        driver = self._view.driver(load_balancer.driver_key)
        if isinstance(driver, Explanation) or not driver.declares(
            Operation.LIST_BACKENDS
        ):
            why = driver if isinstance(driver, Explanation) else None
            members = self._view.members_of(key)
            self._in_service.not_asked(members, is_known=why is None)
            await self._reachable.not_asked(key, why)
            return
        registered = self._drift.candidates(key)
        known = self._drift.known(load_balancer, driver.member_key, registered)
        listed = await self._calls.list(load_balancer, driver, known)
        self._rounds.leave(key)
        if listed is not None and not isinstance(listed, Listing):
            await self._reachable.failed(key, driver, listed)
            return
        # None: nothing has changed on either side.
        is_new = bool(
            listed is not None
            and listed.epoch
            and await self._is_new(load_balancer, driver, listed)
        )
        if listed is not None and not is_new:
            await self._compare(key, driver, registered, listed)
        # Also while lost members are put back: one that its driver refuses never is.
        self._in_service.read(key, driver.member_key, registered, listed)
        epochs = self._epochs.get(key) or Epochs()
        await self._reachable.succeeded(key, epochs, is_epoch_due=is_new)

    async def _is_new(
        self, load_balancer: LoadBalancer, driver: LoadBalancerDriver, listed: Listing
    ) -> bool:
        """See to an epoch that is not written down; False: it is, nothing was lost."""
        key, now = load_balancer.meta.key, self._clock.monotonic()
        known = self._epochs.get(key) or Epochs(load_balancer.epoch)
        if known.epoch != listed.epoch:
            if known.rest(now) or not await self._has_listed(key):
                return True
            known = self._reset(load_balancer, driver.member_key, known, listed)
            self._epochs[key] = known
            self._drift.forget(key)
        elif load_balancer.epoch == listed.epoch and self._resets.is_told(
            load_balancer
        ):
            return False
        elif self._is_resetting(key):
            # Whether they are back was to be seen since the last reading.
            if condition := self._resets.under_way(load_balancer):
                await self._write(load_balancer, condition)
            return True
        if not self._is_resetting(key):
            await self._close(load_balancer, listed.epoch)
        return True

    async def _has_listed(self, key: ObjectKey) -> bool:
        """See all records of a load balancer; False: the API server could not say."""
        try:
            await self._lists.since_now(key)
        except KubeError as error:
            _log.warning("records.unlisted", load_balancer=str(key), error=str(error))
            return False
        return True

    async def _compare(
        self,
        key: ObjectKey,
        driver: LoadBalancerDriver,
        registered: tuple[BackendRecord, ...],
        listed: Listing,
    ) -> None:
        """Report members that are missing although nothing was reset, and orphans."""
        if self._is_resetting(key):
            return
        try:
            await self._drift.compare(key, driver.member_key, registered, listed)
            if not await self._orphans.read(key, driver.member_key, listed):
                self._drift.read_again(key)
        except KubeError as error:
            self._drift.read_again(key)
            _log.warning("drift.untold", load_balancer=str(key), error=str(error))

    def _reset(
        self,
        load_balancer: LoadBalancer,
        member_key: MemberKey,
        known: Epochs,
        listed: Listing,
    ) -> Epochs:
        """Have every lost member put back, also those that are on their way in."""
        key = load_balancer.meta.key
        records = self._view.records_at(key)
        members = [(m.backend_addr, m.record_id) for m in listed.backends]
        lost = lost_members(records, members, member_key, known.epoch)
        if lost or known.epoch:
            _log.warning(
                "load_balancer.reset",
                load_balancer=str(key),
                epoch_before=known.epoch,
                epoch=listed.epoch,
                records=len(lost),
            )
        for record in lost:
            if self._view.shard.has_namespace(record.meta.key.namespace):
                self._registrar.reset(record, _LOST)
            else:
                # With the epoch it is another version, also where the last loss is
                # written already.
                self._elsewhere.add(record, f"{_LOST} (epoch {listed.epoch})")
        if not known.epoch:
            return known.acted_on(listed.epoch)
        self._resets.lost(load_balancer, known.epoch, listed.epoch, lost)
        return known.after_reset(listed.epoch, self._clock.monotonic())

    def _is_resetting(self, key: ObjectKey) -> bool:
        elsewhere = self._elsewhere.is_resetting(key)
        return self._registrar.is_resetting(key) or elsewhere

    async def _close(self, load_balancer: LoadBalancer, epoch: str) -> None:
        """Write down the epoch in which all records are in, or written down as lost."""
        epochs = self._epochs.get(load_balancer.meta.key) or Epochs()
        back = self._resets.over(load_balancer)
        first = self._reachable.first(load_balancer, epochs)
        news = tuple(filter(None, (first, back)))
        if await self._write(load_balancer, *news, epoch=epoch) and back:
            self._resets.written(load_balancer, back)

    async def _write(
        self, load_balancer: LoadBalancer, *news: Condition, epoch: str | None = None
    ) -> bool:
        """Write what is new; False: it is to be tried again at the next reading."""
        try:
            await self._writer.write(load_balancer, *news, epoch=epoch)
        except (Conflict, NotFound):
            return False
        except KubeError as error:
            _log.warning("epoch.unwritten", error=str(error))
            return False
        return True
