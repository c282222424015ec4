"""Takes out members whose records do not exist, where a person has confirmed them.

    annotation -> queue -> listBackends -> LIST of records -> deregisterBackend, one by one

Which ones is decided by `lbcf.core.lifecycle.orphans`. The annotation is a standing order: as
long as it is there, its load balancer is looked at again, so that nothing is lost by the end of
a process, and a registration without an answer that lands afterwards is undone, too.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import structlog

from lbcf.core.errors import LbcfError
from lbcf.core.lifecycle.orphans import confirmed, removable, why_not
from lbcf.core.lifecycle.steps import CallFailure, NoAnswer, StillRunning, Succeeded
from lbcf.core.lifecycle.turn import describe_failure, find_driver, poll_delay
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import Listed, ObjectKey
from lbcf.core.reasons import AnyReason, EventReason, Explanation
from lbcf.core.wording import some_of
from lbcf.executor import Listing, LoadBalancerCalls
from lbcf.executor.object_events import reference_to
from lbcf.kube.errors import UnreadableAnswer
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import RECORD_METAS
from lbcf.kube.reader import KubeReader
from lbcf.kube.store import Store
from lbcf.runtime.clock import Clock
from lbcf.runtime.metrics import Metrics
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, Failed, RequeueAfter, Result, Workers


_WORKERS: Final = 4
_AGAIN: Final = timedelta(minutes=1)
"""How soon an order is looked at again of which nothing is left to do."""
_CHECKED: Final = timedelta(seconds=1)
"""How soon after calls the members are listed again."""

_log = structlog.get_logger(__name__)


class OrphansLeft(LbcfError):  # noqa: N818 - what is so, not what broke
    """A driver did not take members out, or did not list them."""


class OrphanRemoval:
    """Heeds the annotation.

    Args:
        client: the API server; asked which records exist.
        load_balancers: with the annotation.
        drivers: who operates them.
        calls: to drivers.
        recorder: of Events about load balancers.
        clock: measures.
        metrics: of the process; None: nobody measures.
    """

    def __init__(
        self,
        client: KubeReader,
        load_balancers: Store[LoadBalancer],
        drivers: Store[LoadBalancerDriver],
        calls: LoadBalancerCalls,
        *,
        recorder: EventRecorder,
        clock: Clock,
        metrics: Metrics | None,
    ) -> None:
        self._client = client
        self._load_balancers = load_balancers
        self._drivers = drivers
        self._queue: WorkQueue[ObjectKey] = WorkQueue(
            "orphans", clock, metrics, group_of=lambda key: key.namespace
        )
        self._workers = Workers(self._queue, self._reconcile, _WORKERS, clock)
        self._calls = calls
        self._recorder = recorder

    def load_balancer_changed(
        self, old: LoadBalancer | None, new: LoadBalancer | None
    ) -> None:
        """Look at a load balancer that has another order than before."""
        before = frozenset[str]() if old is None else confirmed(old)
        now = frozenset[str]() if new is None else confirmed(new)
        if new is not None and now and now != before:
            self._queue.add(new.meta.key)

    def start(self) -> None:
        """Begin to take members out."""
        self._workers.start()

    async def stop(self, grace: timedelta) -> None:
        """Begin nothing new, and let the calls under way finish."""
        await self._workers.stop(grace)

    async def _reconcile(self, key: ObjectKey) -> Result:
        """Take out what is named and nobody's.

        Raises:
            KubeError: the API server could not say which records exist.
        """
        found = self._load_balancers.get(key)
        record_ids = frozenset[str]() if found is None else confirmed(found)
        if found is None or not record_ids or found.meta.deleting_since is not None:
            return Done()  # listBackends may make one anew that is being deleted
        where = found.driver_key
        driver = find_driver(
            where, self._drivers.get(where), self._drivers.unreadable.get(where)
        )
        if found.info is None or isinstance(driver, Explanation):
            return RequeueAfter(_AGAIN)
        if why := why_not(driver):
            # Not looked at again: it is told once for each order.
            self._tell(found, EventReason.ORPHANS_KEPT, why, warning=True)
            return Done()
        return await self._remove(found, driver, record_ids)

    async def _remove(
        self,
        found: LoadBalancer,
        driver: LoadBalancerDriver,
        record_ids: frozenset[str],
    ) -> Result:
        """List the members, then the records, and take out what no record has."""
        listed = await self._calls.list(found, driver, b"")
        if listed is None:
            return RequeueAfter(_AGAIN)  # never: no list has an empty digest
        if not isinstance(listed, Listing):
            return self._failed(found, driver, Operation.LIST_BACKENDS, listed)
        members = [(m.backend_addr, m.record_id) for m in listed.backends]
        if not any(record_id in record_ids for _, record_id in members):
            return RequeueAfter(_AGAIN)
        # After the list of members, never before: a record is created before its member is.
        present = await self._present(record_ids)
        orphans = removable(record_ids, members, present)
        failure = await self._take_out(found, driver, orphans)
        if failure is not None:
            return self._failed(found, driver, Operation.DEREGISTER_BACKEND, failure)
        return RequeueAfter(_CHECKED if orphans else _AGAIN)

    async def _present(self, record_ids: frozenset[str]) -> frozenset[str]:
        """Return the ids of which there are records, in any namespace.

        A quorum LIST, not the cache, which lags. No record that is missing in it comes
        back, so that no permission has to be renewed before the calls that follow.

        Raises:
            KubeError: the API server cannot be asked, or a record cannot be read.
        """
        present: set[str] = set()
        async for page in self._client.list_pages(RECORD_METAS):
            if page.unreadable:
                broken = page.unreadable[0]
                raise UnreadableAnswer(
                    f"record {broken.identity.key}: {broken.message}"
                )
            present.update(record.meta.uid for record in page.objects)
        return frozenset(present & record_ids)

    async def _take_out(
        self,
        found: LoadBalancer,
        driver: LoadBalancerDriver,
        orphans: Iterable[Listed],
    ) -> CallFailure | None:
        """Have each taken out; returns the last failure, None if all went well."""
        failure: CallFailure | None = None
        removed: list[str] = []
        for orphan in orphans:
            if not self._is_wanted(found.meta.key, orphan):
                continue
            reply = await self._calls.deregister(found, driver, orphan)
            if isinstance(reply, Succeeded):
                address, record_id = orphan
                removed.append(f"{address} of {record_id}")
                continue
            failure = reply
            if isinstance(reply, NoAnswer):
                break  # the others would wait for it, too
        if removed:
            noun = "member was" if len(removed) == 1 else "members were"
            note = f"{len(removed)} {noun} taken out: {some_of(removed)}"
            self._tell(found, EventReason.ORPHANS_REMOVED, note)
            _log.warning(
                "orphans.removed", load_balancer=str(found.meta.key), members=removed
            )
        return failure

    def _is_wanted(self, key: ObjectKey, orphan: Listed) -> bool:
        """Look again before each call: whoever sees a mistake takes the annotation off."""
        now = self._load_balancers.get(key)
        return now is not None and orphan[1] in confirmed(now)

    def _failed(
        self,
        found: LoadBalancer,
        driver: LoadBalancerDriver,
        operation: Operation,
        failure: CallFailure,
    ) -> Result:
        """Tell what a driver said instead of a success, and try again later."""
        if isinstance(failure, StillRunning):
            return RequeueAfter(poll_delay(1, failure.again_after))
        why = describe_failure(failure, driver, operation)
        self._tell(found, why.reason, f"orphans stay: {why.message}", warning=True)
        wish = None if isinstance(failure, NoAnswer) else failure.again_after
        return Failed(OrphansLeft(f"{found.meta.key}: {why.message}"), at_least=wish)

    def _tell(
        self,
        found: LoadBalancer,
        reason: AnyReason,
        note: str,
        *,
        warning: bool = False,
    ) -> None:
        self._recorder.record(
            reference_to("LoadBalancer", found.meta.key, found.meta.uid),
            reason=reason,
            action="Deregister",
            note=note,
            warning=warning,
        )
