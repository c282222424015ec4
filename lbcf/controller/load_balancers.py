"""A LoadBalancer's own life: finalizer, create, ensure, delete.

Before it: a LoadBalancer, its driver or the last of its records changed. After it: its
`status.lbInfo` is the identity that records copy, and its conditions tell how it is.
"""

from collections.abc import Mapping
from datetime import timedelta

import structlog

from lbcf.controller.balancer_status import BalancerStatuses
from lbcf.controller.legacy import LegacyLocks
from lbcf.controller.patience import Patience
from lbcf.controller.unclear import UnclearCreates
from lbcf.controller.view import View
from lbcf.core.lifecycle import locking
from lbcf.core.lifecycle.turn import DRIVER_RECHECK, describe_failure
from lbcf.core.model import conditions, names
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import MemberKey, ObjectKey, Uid
from lbcf.core.reasons import Explanation, Reason
from lbcf.executor import LoadBalancerCalls
from lbcf.executor.load_balancers import Created, Ensured, Trouble
from lbcf.executor.object_events import AbandonmentReporter
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Conflict, NotFound
from lbcf.kube.kinds import LOAD_BALANCERS
from lbcf.runtime.clock import Clock
from lbcf.runtime.worker import Done, RequeueAfter, Result
from lbcf.wire.metadata import render_finalizer_added, render_finalizer_removed


_UNCLEAR_TOLD = (
    "being deleted; createLoadBalancer may still take effect, and deleteLoadBalancer "
    "follows when it no longer can"
)

_LOCK_AGAIN = timedelta(seconds=1)

_log = structlog.get_logger(__name__)


class LoadBalancers:
    """Takes LoadBalancers through their life."""

    def __init__(
        self,
        view: View,
        client: KubeClient,
        calls: LoadBalancerCalls,
        clock: Clock,
        abandonments: AbandonmentReporter,
        *,
        inheritance: LegacyLocks,
    ) -> None:
        self._view, self._client = view, client
        self._inheritance = inheritance
        self._calls, self._clock = calls, clock
        self._abandonments = abandonments
        self._patience = Patience(clock)
        self._unclear = UnclearCreates(clock)
        self._statuses = BalancerStatuses(view, client, clock)
        self._ensured_at: dict[Uid, float] = {}
        self._synced: dict[Uid, Mapping[str, str]] = {}
        """What a change is compared with; of one that was under way when this process
        began nobody knows, and ensureLoadBalancer alone tells."""

    async def reconcile(self, key: ObjectKey) -> Result:
        """Take one load balancer as far as it goes."""
        found = self._view.load_balancers.get(key)
        if found is None:
            return Done()
        if (rest := self._client.rest(found.meta)) is not None:
            return RequeueAfter(rest)  # what a driver answers could not be written
        try:
            if found.meta.deleting_since is not None:
                return await self._end(found)
            return await self._live(found)
        except (Conflict, NotFound):
            return RequeueAfter(timedelta(seconds=1))

    async def _live(self, found: LoadBalancer) -> Result:
        """Create what is not created, ensure what changed."""
        driver = self._view.driver_of(found)
        if names.FINALIZER_LOAD_BALANCER not in found.meta.finalizers:
            if not isinstance(driver, Explanation) and not _is_held(driver):
                return await self._refused(found, driver)
            if not isinstance(driver, Explanation):
                body = render_finalizer_added(found.meta, names.FINALIZER_LOAD_BALANCER)
                found = await self._statuses.patch(found, body, status=False)
        kind = conditions.ATTRIBUTES_SYNCED if found.info else conditions.CREATED
        if isinstance(driver, Explanation):
            await self._statuses.tell(
                found, kind, reason=driver.reason, message=driver.message
            )
            return RequeueAfter(DRIVER_RECHECK)
        if (rest := self._patience.rest(found.meta)) is not None:
            return RequeueAfter(rest)
        if found.info is None:
            made = await self._create(found, driver)
            if not isinstance(made, LoadBalancer):
                return made
            found = made
        found, count_due = await self._count(found)
        return _by(count_due, await self._keep(found, driver))

    async def _count(
        self, found: LoadBalancer
    ) -> tuple[LoadBalancer, timedelta | None]:
        """Write its number of backends if that is due; say when to come for it again."""
        due = self._statuses.count_due(found)
        if due == timedelta(0):
            return await self._statuses.count(found), None
        return found, due

    async def _keep(self, found: LoadBalancer, driver: LoadBalancerDriver) -> Result:
        """Lock its members' addresses, and give it its attributes."""
        known = await self._lock(found, driver)
        if known is None:
            return RequeueAfter(_LOCK_AGAIN)
        return await self._ensure(known, driver)

    async def _lock(
        self, found: LoadBalancer, driver: LoadBalancerDriver, answered: str = ""
    ) -> LoadBalancer | None:
        """Write its key down, once its records hold their locks under it.

        None: the API server gave no answer for some.
        """
        known = next(iter(found.lock_keys), "")
        key = locking.key_of(answered, driver.url, found.info or {}, known)
        if key == known:
            return found
        records = self._view.records.by_index("load_balancer", found.meta.key)
        is_locked = driver.member_key is MemberKey.ADDRESS
        if is_locked and not await self._inheritance.take_also(records, key):
            return None
        return await self._statuses.lock(found, key)

    async def _create(
        self, found: LoadBalancer, driver: LoadBalancerDriver
    ) -> LoadBalancer | Result:
        """Let the driver make it, if it has no objections."""
        kind = conditions.CREATED
        if not found.may_exist:
            trouble = await self._calls.validate(found, driver)
            if trouble is not None:
                operation = Operation.VALIDATE_LOAD_BALANCER
                return await self._trouble(found, driver, kind, operation, trouble)
            self._unclear.begun(found.meta.uid)
            found = await self._statuses.begin(found)
        made = await self._calls.create(found, driver)
        if not isinstance(made, Created):
            self._unclear.answered(found.meta.uid, driver, made)
            operation = Operation.CREATE_LOAD_BALANCER
            return await self._trouble(found, driver, kind, operation, made)
        return await self._created(found, driver, made)

    async def _refused(self, found: LoadBalancer, driver: LoadBalancerDriver) -> Result:
        """Take nothing up with a driver that may be gone before it is needed."""
        if driver.is_leaving:
            message = (
                f"LoadBalancerDriver {driver.meta.key} is draining and takes no new "
                f"LoadBalancer; name another, or take its label "
                f"{names.LABEL_DRAINING} off"
            )
            await self._statuses.tell(
                found,
                conditions.CREATED,
                reason=Reason.DRIVER_DRAINING,
                message=message,
            )
        return RequeueAfter(DRIVER_RECHECK)  # a change of the driver brings it at once

    async def _created(
        self, found: LoadBalancer, driver: LoadBalancerDriver, made: Created
    ) -> LoadBalancer:
        """Write down the identity that all records will copy."""
        self._patience.forget(found.meta.uid)
        self._unclear.forget(found.meta.uid)
        _log.info("load_balancer.created", load_balancer=str(found.meta.key))
        key = locking.key_of(made.lock_key, driver.url, made.info)
        return await self._statuses.create(found, made.info, key)

    async def _ensure(self, found: LoadBalancer, driver: LoadBalancerDriver) -> Result:
        """Give it its attributes after each change, and by period where asked."""
        kind = conditions.ATTRIBUTES_SYNCED
        rest = self._rest(found)
        if rest is None or rest > timedelta(0):
            return Done() if rest is None else RequeueAfter(rest)
        uid, operation = found.meta.uid, Operation.VALIDATE_LOAD_BALANCER
        before = self._synced.get(uid, found.attributes)
        answer: Ensured | Trouble | None = None
        if before != found.attributes:
            answer = await self._calls.validate(found, driver, before)
        if answer is None:
            operation = Operation.ENSURE_LOAD_BALANCER
            answer = await self._calls.ensure(found, driver)
        if not isinstance(answer, Ensured):
            return await self._trouble(found, driver, kind, operation, answer)
        locked = await self._lock(found, driver, answer.lock_key)
        if locked is None:
            return RequeueAfter(_LOCK_AGAIN)
        found = locked
        self._patience.forget(uid)
        self._synced[uid] = found.attributes
        self._ensured_at[uid] = self._clock.monotonic()
        await self._statuses.sync(found)
        always = found.ensure_policy.is_always
        return RequeueAfter(found.ensure_policy.period) if always else Done()

    def _rest(self, found: LoadBalancer) -> timedelta | None:
        """Say how long its attributes need no call; None: until they change."""
        synced = conditions.find(found.conditions, conditions.ATTRIBUTES_SYNCED)
        current = (
            synced is not None
            and synced.status is True
            and synced.observed_generation == found.meta.generation
        )
        if not current:
            return timedelta(0)
        self._synced[found.meta.uid] = found.attributes
        if not found.ensure_policy.is_always:
            return None
        last = self._ensured_at.setdefault(found.meta.uid, self._clock.monotonic())
        passed = timedelta(seconds=self._clock.monotonic() - last)
        return found.ensure_policy.period - passed

    async def _end(self, found: LoadBalancer) -> Result:
        """Delete it once no record needs it, and let it go."""
        if names.FINALIZER_LOAD_BALANCER not in found.meta.finalizers:
            return Done()
        if (needed := self._needed(found)) is not None:
            reason, message = needed
            await self._statuses.tell(
                found, conditions.CREATED, reason=reason, message=message
            )
            return Done() if reason == Reason.IN_USE else RequeueAfter(DRIVER_RECHECK)
        why = found.meta.abandoned
        owed = not why and found.may_exist
        if owed and (left := await self._delete(found)) is not None:
            return left
        release = render_finalizer_removed(found.meta, names.FINALIZER_LOAD_BALANCER)
        await self._client.patch(
            LOAD_BALANCERS, found.meta.key, release, cas=found.meta
        )
        for memory in (self._ensured_at, self._synced):
            memory.pop(found.meta.uid, None)
        self._statuses.forget(found.meta.uid)
        if why:
            self._abandonments.tell("LoadBalancer", found.meta, why)
        _log.info("load_balancer.deleted", load_balancer=str(found.meta.key), why=why)
        return Done()

    def _needed(self, found: LoadBalancer) -> tuple[Reason, str] | None:
        """Say which records need it, or may; None: none does."""
        records = self._view.records
        if users := records.by_index("load_balancer", found.meta.key):
            return (
                Reason.IN_USE,
                f"being deleted; waits for {len(users)} BackendRecords to end",
            )
        unread = (key for key in records.unreadable if found.is_open_to(key.namespace))
        if (one := next(unread, None)) is not None:
            message = f"BackendRecord {one} cannot be understood and may need it"
            return Reason.RECORD_UNREADABLE, message
        return None

    async def _delete(self, found: LoadBalancer) -> Result | None:
        """Have its driver delete it; None: it has."""
        if (rest := self._patience.rest(found.meta)) is not None:
            return RequeueAfter(rest)
        driver, kind = self._view.driver(found.driver_key), conditions.CREATED
        if isinstance(driver, Explanation):
            await self._statuses.tell(
                found, kind, reason=driver.reason, message=driver.message
            )
            return RequeueAfter(DRIVER_RECHECK)
        if found.info is None and (late := self._unclear.rest(found.meta.uid, driver)):
            await self._statuses.tell(
                found, kind, reason=Reason.CREATION_UNCLEAR, message=_UNCLEAR_TOLD
            )
            return RequeueAfter(late)
        trouble = await self._calls.delete(found, driver)
        if trouble is None:
            self._patience.forget(found.meta.uid)
            self._unclear.forget(found.meta.uid)
            return None
        operation = Operation.DELETE_LOAD_BALANCER
        return await self._trouble(found, driver, kind, operation, trouble)

    async def _trouble(
        self,
        found: LoadBalancer,
        driver: LoadBalancerDriver,
        kind: str,
        operation: Operation,
        trouble: Trouble,
    ) -> Result:
        """Tell what went wrong, and come again."""
        rest = self._patience.wait(found.meta, operation, trouble)
        why = describe_failure(trouble, driver, operation)
        await self._statuses.tell(found, kind, reason=why.reason, message=why.message)
        return RequeueAfter(rest)


def _by(delay: timedelta | None, result: Result) -> Result:
    """Come again after a delay at the latest; None: as the result says."""
    is_sooner = delay is None or (
        isinstance(result, RequeueAfter) and result.delay < delay
    )
    return result if is_sooner else RequeueAfter(delay or timedelta(0))


def _is_held(driver: LoadBalancerDriver) -> bool:
    """Tell whether a driver stays as long as it is needed."""
    return not driver.is_leaving and names.FINALIZER_DRIVER in driver.meta.finalizers
