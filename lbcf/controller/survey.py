"""Looks by period whether load balancers still know their members.

HAProxy forgets at every reload what was added at run time. A driver that declares
listBackends names the present memory of its load balancer by an epoch. When that
changes, every record of the load balancer is first written down as lost and then put
back; the new epoch is written down last, so that a crash in between repeats the work.
What is missing in an epoch that did not change was taken out by somebody: see `drift`.

Lost may be any member whose registration began before the new epoch was read, also one
that is not written down yet. Such a record has its address, and a quorum LIST made
afterwards shows it, however far the watch lags behind (counterexample w28). The same
where no epoch was known before, but for the members that are listed (w38).
"""

import asyncio

from datetime import timedelta

import structlog

from lbcf.controller.binds import Binds
from lbcf.controller.drift import DriftWatch
from lbcf.controller.registrar import Registrar
from lbcf.controller.view import View
from lbcf.core import epochs
from lbcf.core.names import SYSTEM_NAMESPACE, bind_of
from lbcf.core.operations import Operation
from lbcf.core.resources import BackendRecord, LoadBalancer, LoadBalancerDriver
from lbcf.core.turn import Absent
from lbcf.core.values import MemberKey, ObjectKey
from lbcf.interpreter import Listing, LoadBalancerCalls
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Conflict, KubeError, NotFound
from lbcf.kube.kinds import LOAD_BALANCERS, RECORDS
from lbcf.kube.pages import EVERYTHING, Selection
from lbcf.runtime.clock import Clock
from lbcf.wire.resources import render_load_balancer_status


_log = structlog.get_logger(__name__)


class Survey:
    """Reads epochs.

    Args:
        view: what has been read.
        client: the API server.
        calls: to drivers, about load balancers.
        registrar: puts members back.
        binds: writes the epochs of load balancers of Binds.
        period: between two readings of one load balancer.
        clock: waits.
    """

    def __init__(
        self,
        view: View,
        client: KubeClient,
        calls: LoadBalancerCalls,
        registrar: Registrar,
        binds: Binds,
        *,
        period: timedelta,
        clock: Clock,
    ) -> None:
        self._view = view
        self._client = client
        self._calls = calls
        self._registrar = registrar
        self._binds = binds
        self._clock = clock
        self._period = period
        self._epochs: dict[ObjectKey, epochs.Epochs] = {}
        self._drift = DriftWatch(view, client, clock)

    async def run(self) -> None:
        """Read all load balancers, period by period, until cancelled."""
        while True:
            due = [
                lb for lb in self._view.load_balancers.values() if self._is_listed(lb)
            ]
            self._drift.forget_others([lb.meta.key for lb in due])
            # A call that is cut off ends its own reading, never the survey.
            readings = (self._read(lb) for lb in due)
            ended = await asyncio.gather(*readings, return_exceptions=True)
            for error in (e for e in ended if isinstance(e, BaseException)):
                _log.warning("survey.unread", error=repr(error))
            await self._clock.sleep(self._period)

    def _is_listed(self, load_balancer: LoadBalancer) -> bool:
        """Tell whether its driver can list its members."""
        if load_balancer.info is None or load_balancer.meta.deleting_since is not None:
            return False
        driver = self._view.driver(load_balancer.driver_key)
        return not isinstance(driver, Absent) and driver.declares(
            Operation.LIST_BACKENDS
        )

    async def _read(self, load_balancer: LoadBalancer) -> None:
        """Read one epoch and act on it; whatever fails is read again next time."""
        driver = self._view.driver(load_balancer.driver_key)
        if isinstance(driver, Absent):
            return
        key = load_balancer.meta.key
        registered = self._drift.candidates(key)
        known = self._drift.known(load_balancer, driver.member_key, registered)
        listed = await self._calls.list(load_balancer, driver, known)
        if listed is None:
            return  # nothing has changed on either side
        if not isinstance(listed, Listing):
            _log.debug("members.unlisted", load_balancer=str(key), why=listed.message)
            return
        if not listed.epoch or not await self._is_new(load_balancer, driver, listed):
            await self._compare(key, driver, registered, listed)

    async def _is_new(
        self, load_balancer: LoadBalancer, driver: LoadBalancerDriver, listed: Listing
    ) -> bool:
        """See to an epoch that is not written down; False: it is, nothing was lost."""
        key, now = load_balancer.meta.key, self._clock.monotonic()
        known = self._epochs.get(key) or epochs.Epochs(load_balancer.epoch)
        if known.epoch != listed.epoch:
            if known.rest(now) or not await self._catch_up(key):
                return True
            known = self._reset(load_balancer, driver.member_key, known, listed)
            self._epochs[key] = known
        elif load_balancer.epoch == listed.epoch:
            return False
        if not self._registrar.is_resetting(key):
            await self._write(load_balancer, listed.epoch)
        return True

    async def _compare(
        self,
        key: ObjectKey,
        driver: LoadBalancerDriver,
        registered: tuple[BackendRecord, ...],
        listed: Listing,
    ) -> None:
        """Tell of members that are missing although nothing was reset."""
        if self._registrar.is_resetting(key):
            return
        try:
            await self._drift.compare(key, driver.member_key, registered, listed)
        except KubeError as error:
            _log.warning("drift.untold", load_balancer=str(key), error=str(error))

    async def _catch_up(self, key: ObjectKey) -> bool:
        """See every record that there is now; False: the API server could not say."""
        is_shared = key.namespace == SYSTEM_NAMESPACE
        where = EVERYTHING if is_shared else Selection(key.namespace)
        try:
            found = await self._client.list(RECORDS, where)
        except KubeError as error:
            _log.warning("records.unlisted", load_balancer=str(key), error=str(error))
            return False
        for record in found.objects:
            self._view.records.observe(record)
        return True

    def _reset(
        self,
        load_balancer: LoadBalancer,
        member_key: MemberKey,
        known: epochs.Epochs,
        listed: Listing,
    ) -> epochs.Epochs:
        """Have every lost member put back, also those that are on their way in."""
        key = load_balancer.meta.key
        records = self._view.records.by_index("load_balancer", key)
        members = [(m.backend_addr, m.record_id) for m in listed.backends]
        lost = epochs.lost_members(records, members, member_key, known.epoch)
        if lost or known.epoch:
            _log.warning(
                "load_balancer.reset",
                load_balancer=str(key),
                epoch_before=known.epoch,
                epoch=listed.epoch,
                records=len(lost),
            )
        for record in lost:
            self._registrar.reset(
                record, "the load balancer was reset and lost its members; putting back"
            )
        if not known.epoch:
            return known.acted_on(listed.epoch)
        return known.after_reset(listed.epoch, self._clock.monotonic())

    async def _write(self, load_balancer: LoadBalancer, epoch: str) -> None:
        """Write down the epoch in which all records are in, or written down as lost."""
        try:
            if bind_of(load_balancer.meta.key) is not None:
                await self._binds.write_epoch(load_balancer, epoch)
            else:
                await self._patch(load_balancer, epoch)
        except (Conflict, NotFound):
            return
        except KubeError as error:
            _log.warning("epoch.unwritten", error=str(error))

    async def _patch(self, load_balancer: LoadBalancer, epoch: str) -> None:
        """Write it into a LoadBalancer."""
        body = render_load_balancer_status(
            load_balancer, load_balancer.conditions, epoch=epoch
        )
        written = await self._client.patch(
            LOAD_BALANCERS,
            load_balancer.meta.key,
            body,
            cas=load_balancer.meta,
            subresource="status",
        )
        self._view.load_balancers.observe(written)
