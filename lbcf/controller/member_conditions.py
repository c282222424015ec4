"""The conditions of a load balancer that its members tell: Drifted, Orphaned, Reachable.

Drifted: registered members have been taken out by hand. It takes two readings in a row:
what is missing in one may be on its way. Orphaned: members are there whose records are
not, as after `abandon`. Reachable: the members can be listed, and the
epochs be believed; what it says is decided by `lbcf.core.lifecycle.listing`, and when by
`lbcf.core.lifecycle.steadiness`.
"""

import attrs
import structlog

from prometheus_client import Gauge

from lbcf.controller.binds import Binds
from lbcf.controller.other_shards import ElsewhereKnown
from lbcf.controller.view import View
from lbcf.core.lifecycle.listing import (
    RETOLD,
    Epochs,
    can_drift,
    drift_of,
    missing_members,
    not_asked,
    orphaned,
    orphans_of,
    reachable,
    unreachable,
)
from lbcf.core.lifecycle.orphans import named
from lbcf.core.lifecycle.steadiness import Steadiness
from lbcf.core.lifecycle.steps import CallFailure
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import bind_of
from lbcf.core.model.resources import BackendRecord, LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import Listed, MemberKey, ObjectKey, Uid
from lbcf.core.reasons import Explanation, Reason
from lbcf.executor import Listing
from lbcf.executor.object_events import reference_to
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import Conflict, KubeError, NotFound
from lbcf.kube.events import EventRecorder
from lbcf.runtime.clock import Clock
from lbcf.runtime.metrics import Metrics
from lbcf.wire.resources import render_load_balancer_status


_log = structlog.get_logger(__name__)


class ConditionWriter:
    """Writes conditions of load balancers, also of those of Binds.

    Args:
        writer: writes LoadBalancers.
        binds: writes the statuses of Binds.
        clock: their times.
    """

    def __init__(
        self, writer: ObjectWriter[LoadBalancer], binds: Binds, clock: Clock
    ) -> None:
        self._writer = writer
        self._binds = binds
        self._clock = clock

    async def write(
        self,
        found: LoadBalancer,
        *news: Condition,
        epoch: str | None = None,
        orphans: tuple[Listed, ...] | None = None,
    ) -> None:
        """Write conditions, and an epoch with them if there is a new one.

        Args:
            found: the load balancer.
            news: the conditions.
            epoch: None: as it is.
            orphans: whom the status names; None: as it does. A Bind's names none.

        Raises:
            KubeError: it could not be written.
        """
        if bind_of(found.meta.key) is not None:
            await self._binds.tell(found, news, epoch)
            return
        said = found.conditions
        for condition in news:
            said = conditions.with_condition(said, condition, self._clock.now())
        body = render_load_balancer_status(found, said, epoch=epoch, orphans=orphans)
        await self._writer.patch(found.meta, body, "status")


@attrs.frozen
class _Compared:
    """The last listing that left no drift to report; an identical one can be skipped.

    Attributes:
        load_balancer: whose list it was, as it was then.
        member_key: by what members are told apart.
        members: who must be there.
        records: how many records there were, those that are being deleted among them.
        digest: of the list's bytes.
    """

    load_balancer: LoadBalancer
    member_key: MemberKey
    members: tuple[BackendRecord, ...]
    records: int
    digest: bytes


class DriftedCondition:
    """Compares what is listed with what is registered."""

    def __init__(
        self, view: View, writer: ConditionWriter, recorder: EventRecorder
    ) -> None:
        self._view = view
        self._writer = writer
        self._recorder = recorder
        self._suspects: dict[ObjectKey, tuple[str, frozenset[Uid]]] = {}
        self._compared: dict[ObjectKey, _Compared] = {}

    def candidates(self, key: ObjectKey) -> tuple[BackendRecord, ...]:
        """Return which members must be there; to be asked before they are listed."""
        return tuple(self._view.members_of(key))

    def known(
        self,
        load_balancer: LoadBalancer,
        member_key: MemberKey,
        candidates: tuple[BackendRecord, ...],
    ) -> bytes:
        """Return the digest of a list of which all has been told, empty if there is none."""
        compared = self._compared.get(load_balancer.meta.key)
        if compared is None or compared.member_key is not member_key:
            return b""
        # Stores hold the same objects as long as nothing changes: this is quick.
        same = (
            compared.load_balancer == load_balancer
            and compared.members == candidates
            and compared.records == self._count(load_balancer.meta.key)
        )
        return compared.digest if same else b""

    def _count(self, key: ObjectKey) -> int:
        # One that goes without its member, as by abandon, leaves the list as it was.
        return self._view.record_count(key)

    def read_again(self, key: ObjectKey) -> None:
        """Have the next list read though it may be the same: not all was told of it."""
        self._compared.pop(key, None)

    def forget(self, key: ObjectKey) -> None:
        """Forget a load balancer that is not listed any more, or had another memory."""
        self._suspects.pop(key, None)
        self._compared.pop(key, None)

    async def compare(
        self,
        key: ObjectKey,
        member_key: MemberKey,
        candidates: tuple[BackendRecord, ...],
        listed: Listing,
    ) -> None:
        """Write Drifted for what is missing in this reading and was in the last one.

        Raises:
            KubeError: it could not be written.
        """
        self._compared.pop(key, None)
        members = [(m.backend_addr, m.record_id) for m in listed.backends]
        unlisted = missing_members(candidates, members, member_key)
        missing = tuple(filter(self._still, unlisted))
        uids = frozenset(record.meta.uid for record in missing)
        epoch, before = self._suspects.pop(key, ("", frozenset()))
        if missing:
            self._suspects[key] = (listed.epoch, uids)
        if epoch != listed.epoch:
            before = frozenset()
        sure = tuple(record for record in missing if record.meta.uid in before)
        if sure or not missing:
            told = await self._tell(key, sure)
            # What is missing for the first time must be read again to be told.
            if told is not None and sure == missing:
                count = self._count(key)
                compared = _Compared(told, member_key, candidates, count, listed.digest)
                self._compared[key] = compared

    def _still(self, record: BackendRecord) -> bool:
        now = self._view.record(record.meta.key)
        return now is not None and now.meta.uid == record.meta.uid and can_drift(now)

    async def _tell(
        self, key: ObjectKey, missing: tuple[BackendRecord, ...]
    ) -> LoadBalancer | None:
        """Write the condition, if it says anything new; else return who says it."""
        found = self._view.load_balancers.get(key)
        condition = None if found is None else drift_of(found, missing)
        if found is None or condition is None:
            return found
        old = conditions.find(found.conditions, condition.type)
        if condition.says_the_same(old):
            return found
        _log.warning(
            "load_balancer.drifted",
            load_balancer=str(key),
            missing=[record.address for record in missing],
        )
        await _write_and_record(self._writer, self._recorder, found, condition)
        return None


class OrphanedCondition:
    """Tells of members that were registered for records that do not exist.

    Args:
        view: where the records are.
        writer: writes the condition.
        recorder: of events.
        metrics: of the process; None: nobody measures.
        elsewhere: knows the records of other shards.
    """

    def __init__(
        self,
        view: View,
        writer: ConditionWriter,
        recorder: EventRecorder,
        metrics: Metrics | None,
        elsewhere: ElsewhereKnown,
    ) -> None:
        self._elsewhere = elsewhere
        self._view = view
        self._writer = writer
        self._recorder = recorder
        self._suspects: dict[ObjectKey, frozenset[Listed]] = {}
        self._named: dict[ObjectKey, tuple[Listed, ...]] = {}
        self._gauge = None if metrics is None else _make_gauge(metrics)

    def forget(self, key: ObjectKey) -> None:
        """Keep nothing of a load balancer."""
        self._named.pop(key, None)
        self._elsewhere.forget(key)
        if self._suspects.pop(key, None) and self._gauge is not None:
            self._gauge.remove_by_labels({"namespace": key[0], "load_balancer": key[1]})

    async def read(
        self, key: ObjectKey, member_key: MemberKey, listed: Listing
    ) -> bool:
        """Take in a list; False: all of it is to be read again to be told.

        What was listed in the last reading, too, is told: the view may lag behind.

        Raises:
            KubeError: it could not be written.
        """
        members = [(m.backend_addr, m.record_id) for m in listed.backends]
        of_balancer = self._view.records_at(key)
        found = orphans_of(of_balancer, members, member_key)
        if found:
            # A load balancer may have several LoadBalancers, each with its records.
            view = self._view
            every = (*view.records.values(), *view.others.values())
            uids = {record.meta.uid for record in every}
            found = tuple(member for member in found if member[1] not in uids)
        is_complete = True
        if not self._view.shard.is_whole:
            judged = await self._elsewhere.judge(key, found)
            found, is_complete = judged.orphans, judged.is_complete
        before = self._suspects.get(key, frozenset())
        self._count(key, len(found), len(before))
        self._suspects.pop(key, None)
        if found:
            self._suspects[key] = frozenset(found)
        sure = tuple(member for member in found if member in before)
        if not sure and (found or not is_complete):
            return False
        return await self._tell(key, sure) and is_complete and sure == found

    async def _tell(self, key: ObjectKey, orphans: tuple[Listed, ...]) -> bool:
        """Write the condition; True: it says so already."""
        found = self._view.load_balancers.get(key)
        condition = None if found is None else orphaned(found, orphans)
        if found is None or condition is None:
            return True
        known = conditions.find(found.conditions, condition.type)
        names = () if bind_of(key) else named(orphans)
        # The CRD of an older version drops the names: they are not written for ever.
        is_named = names in {found.orphans, self._named.get(key)}
        if is_named and condition.says_the_same(known):
            return True
        _log.warning(
            "load_balancer.orphans", load_balancer=str(key), members=list(orphans)
        )
        if await _write_and_record(
            self._writer, self._recorder, found, condition, orphans=names
        ):
            self._named[key] = names
        return False

    def _count(self, key: ObjectKey, orphans: int, before: int) -> None:
        """Show how many there are, and nothing where there are none."""
        if self._gauge is None or not (orphans or before):
            return
        if orphans:
            self._gauge.labels(*key).set(orphans)
        else:
            self._gauge.remove(*key)


def _make_gauge(metrics: Metrics) -> Gauge:
    """Make the metric."""
    return Gauge(
        "lbcf_orphaned_members",
        "Members of load balancers that were registered for records that do not exist, "
        "as drivers list them.",
        ["namespace", "load_balancer"],
        registry=metrics.registry,
    )


async def _write_and_record(
    writer: ConditionWriter,
    recorder: EventRecorder,
    found: LoadBalancer,
    condition: Condition,
    *,
    orphans: tuple[Listed, ...] | None = None,
) -> bool:
    """Write a condition that is better False; an Event tells each change of its status.

    Returns False after a conflict: the next reading tells it.

    Raises:
        KubeError: it could not be written.
    """
    old = conditions.find(found.conditions, condition.type)
    try:
        await writer.write(found, condition, orphans=orphans)
    except (Conflict, NotFound):
        return False
    if old is None or old.status != condition.status:
        recorder.record(
            reference_to("LoadBalancer", found.meta.key, found.meta.uid),
            reason=condition.reason,
            action="List",
            note=condition.message,
            warning=bool(condition.status),
        )
    return True


@attrs.define
class _Readings:
    """What was read of one load balancer.

    Attributes:
        steadiness: whether its members were listed.
        told_at: monotonic seconds at which that was last written down, None: never.
    """

    steadiness: Steadiness
    told_at: float | None = None


class ReachableCondition:
    """Writes the condition Reachable."""

    def __init__(
        self,
        view: View,
        writer: ConditionWriter,
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        self._view = view
        self._writer = writer
        self._recorder = recorder
        self._clock = clock
        self._readings: dict[ObjectKey, _Readings] = {}

    def forget(self, key: ObjectKey) -> None:
        """Keep nothing of a load balancer."""
        self._readings.pop(key, None)

    async def failed(
        self, key: ObjectKey, driver: LoadBalancerDriver, trouble: CallFailure
    ) -> None:
        """Note a reading that failed; tell of it if that lasts."""
        found = self._view.load_balancers.get(key)
        if found is None:
            return
        readings = self._read(found, is_well=False)
        if not readings.steadiness.is_well:
            await self._tell(found, unreachable(found, driver, trouble), readings)

    async def succeeded(
        self, key: ObjectKey, epochs: Epochs, *, is_epoch_due: bool
    ) -> None:
        """Note a reading that went well; tell whether its epochs can be believed.

        Args:
            key: of the load balancer.
            epochs: that were read of it.
            is_epoch_due: the status is to be written anyway, and will say it then.
        """
        found = self._view.load_balancers.get(key)
        if found is None:
            return
        readings = self._read(found, is_well=True)
        condition = reachable(found, epochs, self._clock.monotonic())
        can_wait = condition.status is True and _said(found) is None and is_epoch_due
        if readings.steadiness.is_well and not can_wait:
            await self._tell(found, condition, readings)
        if readings == _Readings(Steadiness()):
            self.forget(key)

    async def not_asked(self, key: ObjectKey, why: Explanation | None) -> None:
        """Tell that nobody knows how a load balancer is that cannot be read."""
        found = self._view.load_balancers.get(key)
        if found is not None:
            await self._tell(found, not_asked(found, why), _Readings(Steadiness()))

    def first(self, load_balancer: LoadBalancer, epochs: Epochs) -> Condition | None:
        """Return what is to be said with the first epoch; None: it is said already."""
        if _said(load_balancer) is not None:
            return None
        return reachable(load_balancer, epochs, self._clock.monotonic())

    def _read(self, found: LoadBalancer, *, is_well: bool) -> _Readings:
        """Take a reading in."""
        said = _said(found)
        was_well = (
            said is None
            or said.status is not False
            or said.reason is Reason.EPOCH_CHANGING
        )
        readings = self._readings.setdefault(
            found.meta.key, _Readings(Steadiness(was_well))
        )
        now = self._clock.monotonic()
        readings.steadiness = readings.steadiness.read(now, is_well=is_well)
        return readings

    async def _tell(
        self, found: LoadBalancer, condition: Condition, readings: _Readings
    ) -> None:
        """Write a condition that says something new, other words not at once."""
        old = _said(found)
        now = self._clock.monotonic()
        if condition.says_the_same(old) or (
            old is not None
            and (old.status, old.reason) == (condition.status, condition.reason)
            and readings.told_at is not None
            and now - readings.told_at < RETOLD.total_seconds()
        ):
            return
        readings.told_at = None if condition.status else now
        log = _log.warning if condition.status is False else _log.info
        log(
            "load_balancer.unreachable"
            if condition.status is False
            else "load_balancer.reachable",
            load_balancer=str(found.meta.key),
            status=condition.status,
            reason=condition.reason,
            message=condition.message,
        )
        try:
            await self._writer.write(found, condition)
        except (Conflict, NotFound):
            readings.told_at = None  # the next reading tells it
        except KubeError as error:
            _log.warning("reachability.untold", error=str(error))
        else:
            self._record(found, condition, old)

    def _record(
        self, found: LoadBalancer, condition: Condition, old: Condition | None
    ) -> None:
        """Record an Event where it cannot be reached any more, or can be again."""
        is_bad, was_bad = condition.status is False, old and old.status is False
        if is_bad == bool(was_bad) or condition.status is None:
            return
        self._recorder.record(
            reference_to("LoadBalancer", found.meta.key, found.meta.uid),
            reason=condition.reason,
            action="List",
            note=condition.message,
            warning=is_bad,
        )


def is_to_be_told(
    load_balancer: LoadBalancer, driver: LoadBalancerDriver | None
) -> bool:
    """Return whether it is still to be said that nobody knows how it is.

    Of one without a driver nothing is said that was not said before: it may be coming.
    """
    said = _said(load_balancer)
    return driver is not None if said is None else said.status is not None


def _said(load_balancer: LoadBalancer) -> Condition | None:
    return conditions.find(load_balancer.conditions, conditions.REACHABLE)
