"""The one place where steps become calls of the API server and of drivers."""

import asyncio
import contextlib

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol, TypeVar, cast
from weakref import WeakValueDictionary

import attrs
import structlog

from lbcf.core.lifecycle.steps import (
    Abandoned,
    BalancerRead,
    CallDriver,
    Conflicted,
    CoverEnd,
    EndCovered,
    Finish,
    LockHeld,
    LockTaken,
    NoAnswer,
    Observed,
    Permission,
    PodRead,
    ReadBalancer,
    ReadPod,
    ReadRecord,
    RecordGone,
    Released,
    ReleaseRecord,
    Reply,
    Step,
    StillRunning,
    Succeeded,
    Superseded,
    TakeLock,
    WriteSettling,
    WriteStatus,
    WriteUnconfirmed,
)
from lbcf.core.lifecycle.trouble import with_refusal
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model import names
from lbcf.core.model.binds import as_load_balancers
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, LoadBalancer
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import Reason
from lbcf.drivers.batches import Batches, Item, Lane, Permit, Permitted
from lbcf.drivers.errors import DriverError, TimedOut, TooLate
from lbcf.drivers.pool import DriverPool
from lbcf.executor.backend_requests import ask_for_address, backend_request, reply_of
from lbcf.executor.turns import is_finish, read_now, take_turn
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import (
    Conflict,
    Invalid,
    KubeError,
    NotFound,
    Unavailable,
    UnreadableAnswer,
    answer_lost,
)
from lbcf.kube.kinds import BINDS, LOAD_BALANCERS, PODS, RECORDS, HasMeta, Resource
from lbcf.kube.reader import KubeReader
from lbcf.kube.store import Store
from lbcf.runtime import failpoints, spans
from lbcf.runtime.clock import Clock
from lbcf.runtime.queue import ReconnectNotifier
from lbcf.runtime.shared_call import SharedCall
from lbcf.runtime.tasks import is_ending
from lbcf.wire.driver_answers import BackendResult, RetriedAnswer
from lbcf.wire.driver_requests import Request
from lbcf.wire.metadata import render_finalizer_removed
from lbcf.wire.records import render_settling, render_status_update


S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T", bound=HasMeta)

_log = structlog.get_logger(__name__)

_USE_WITHIN = timedelta(seconds=2)
"""A permission is good for the operation's time-out and 2 s: these 2 s are for us."""
_PATIENCE = timedelta(seconds=1)
"""A read of a load balancer without an answer for so long is not waited for: another one begins
for those who have asked since."""


@attrs.frozen
class Subject:
    """The record that a turn is about; a namesake with another uid is not it."""

    key: ObjectKey
    uid: Uid


class TakesLocks(Protocol):
    """Whoever takes locks on addresses."""

    async def take(self, step: TakeLock) -> LockTaken | LockHeld:
        """Take one, or say who has it and when to ask again."""


class CoversEnds(Protocol):
    """Whoever announces calls for an end that may take effect for long."""

    async def cover(self, step: CoverEnd) -> EndCovered:
        """Announce them to whoever takes the address over."""


class Executor:
    """Performs steps.

    Args:
        client: the API server.
        drivers: the webhook services.
        clock: the time.
        locks: on addresses; None in a process that takes none.
        ends: announces calls for them; None in a process that ends no records.
        records: takes in what each write returned; None where nobody reads it.
        limit: says how many calls a load balancer bears at a time, None: any number.
        recall: told whether drivers could be reached, None where nobody waits.
        told: told what a driver answered.
    """

    def __init__(
        self,
        client: KubeClient,
        drivers: DriverPool,
        clock: Clock,
        *,
        locks: TakesLocks | None = None,
        ends: CoversEnds | None = None,
        records: Store[BackendRecord] | None = None,
        limit: Callable[[ObjectKey], int | None] = lambda _key: None,
        recall: ReconnectNotifier | None = None,
        told: Callable[[CallDriver, Reply], None] = lambda _step, _reply: None,
    ) -> None:
        self._client: KubeReader = client
        store = Store[BackendRecord]() if records is None else records
        self._records = ObjectWriter(client, RECORDS, store)
        self._drivers = drivers
        self._clock = clock
        self._locks = locks
        self._ends = ends
        self._limit = limit
        self._batches = Batches(drivers, clock)
        self._recall = recall
        self._told = told
        self._balancer_reads: WeakValueDictionary[
            ObjectKey, SharedCall[LoadBalancer | None]
        ] = WeakValueDictionary()

    def now(self) -> Now:
        """Read the clock once for one decision."""
        return read_now(self._clock)

    async def run(
        self,
        subject: Subject,
        state: S,
        next_step: Callable[[S, Now], Step],
        learn: Callable[[S, Step, Reply, Now], S],
        remember: Callable[[S], None],
    ) -> Finish:
        """Let the core ask and the world answer until the turn is over.

        Args:
            subject: the record.
            state: what is known of it.
            next_step: the core's question.
            learn: what the core makes of a reply.
            remember: keeps the state after each step, so that a turn that an error
                ends in the middle forgets nothing.

        Raises:
            KubeError: the API server could not be asked; the turn is to be repeated.
        """

        async def perform(step: Step) -> Reply:
            """Carry out a step, and tell what a driver answered."""
            reply = await self.perform(subject, step)
            if isinstance(step, CallDriver):
                self._tell(subject, step, reply)
                self._told(step, reply)
            return reply

        return await take_turn(
            state,
            next_step,
            learn,
            perform,
            is_last=is_finish,
            now=self.now,
            remember=remember,
            after_error=_unconfirmed,
        )

    def _tell(self, subject: Subject, step: CallDriver, reply: Reply) -> None:
        """Notify who waits for a driver that it could be reached, or could not."""
        driver = step.driver.meta.key
        if self._recall is None or isinstance(reply, RecordGone | Superseded):
            return
        if isinstance(reply, NoAnswer) and not reply.may_land:
            self._recall.missed(driver, subject.key)
        else:
            self._recall.reached(driver, subject.key)

    async def perform(self, subject: Subject, step: Step) -> Reply:
        """Carry out one step.

        Raises:
            KubeError: the API server could not be asked.
        """
        match step:
            case ReadRecord():
                return await self._read(subject)
            case WriteStatus() | WriteSettling():
                return await self._write_step(step)
            case CallDriver():
                return await self._call_driver(subject, step)
            case ReadPod() | ReadBalancer():
                return await self._read_beside(step)
            case TakeLock() | CoverEnd():
                return await self._write_lease(step)
            case ReleaseRecord():
                return await self._release(step)
            case Finish():
                raise ValueError("a finished turn has nothing to perform")

    async def end(self) -> None:
        """Cut the batches that are out still; to be called when no turn goes on."""
        await self._batches.end()

    async def _read(self, subject: Subject) -> Observed | RecordGone:
        """Read the record as it is now."""
        began = self._clock.monotonic()
        record = await self._find(RECORDS, subject.key)
        if record is None or record.meta.uid != subject.uid:
            return RecordGone()
        return Observed(Permission(record, began))

    async def _write_step(self, step: WriteStatus | WriteSettling) -> Reply:
        if isinstance(step, WriteSettling):
            return await self._write(step.record, render_settling(step.settling))
        body = render_status_update(step.record, step.status)
        return await self._write(step.record, body, "status")

    async def _read_beside(
        self, step: ReadPod | ReadBalancer
    ) -> PodRead | BalancerRead:
        """Read what a record depends on."""
        if isinstance(step, ReadPod):
            pod = await self._find(PODS, step.key)
            is_there = pod is not None and pod.meta.uid == step.uid
            is_kept = pod is not None and not pod.is_terminating
            return PodRead(is_ending=not (is_there and is_kept))
        key = step.record.load_balancer_key
        try:
            found = await self._balancer_now(key)
        except UnreadableAnswer as error:
            return BalancerRead(False, f"load balancer {key} is unreadable: {error}")
        is_there = found is not None and found.is_of(step.record.spec)
        is_kept = found is not None and found.meta.deleting_since is None
        return BalancerRead(is_ending=not (is_there and is_kept))

    async def _balancer_now(self, key: ObjectKey) -> LoadBalancer | None:
        """Read a load balancer, for all of its records that ask meanwhile."""
        shared = self._balancer_reads.get(key)
        if shared is None:
            shared = SharedCall(partial(self._read_balancer, key), _PATIENCE)
            self._balancer_reads[key] = shared
        return await shared.since_now()

    async def _read_balancer(self, key: ObjectKey) -> LoadBalancer | None:
        """Read a load balancer, or the Bind that it is one of; None: there is none."""
        bind_key = names.bind_of(key)
        if bind_key is None:
            return await self._find(LOAD_BALANCERS, key)
        bind = await self._find(BINDS, bind_key)
        found = () if bind is None else as_load_balancers(bind)
        return next((one for one in found if one.meta.key == key), None)

    async def _find(self, kind: Resource[T], key: ObjectKey) -> T | None:
        """Read an object from the API server itself; None: there is none."""
        try:
            return await failpoints.through(self._client.get(kind, key), answer_lost)
        except NotFound:
            return None

    async def _write(
        self, before: BackendRecord, body: dict[str, object], subresource: str = ""
    ) -> Observed | RecordGone | Conflicted:
        """Write a record by compare-and-swap."""
        began = self._clock.monotonic()
        try:
            record = await self._records.patch(before.meta, body, subresource)
        except NotFound:
            return RecordGone()
        except Conflict:
            return Conflicted()
        except Invalid as error:
            await self._tell_of_refusal(before, error)
            raise
        return Observed(Permission(record, began))

    async def _tell_of_refusal(self, record: BackendRecord, error: Invalid) -> None:
        """Let a condition say why the record stands still; the turn is made again."""
        status = with_refusal(record, str(error), self._clock.now())
        if status == record.status:
            return
        with contextlib.suppress(KubeError):  # the first refusal is what is told
            body = render_status_update(record, status)
            await self._records.patch(record.meta, body, "status")

    async def _release(
        self, step: ReleaseRecord
    ) -> RecordGone | Conflicted | Observed | Released:
        """Take our finalizer off by compare-and-swap."""
        began = self._clock.monotonic()
        record = step.proof.record
        if isinstance(step.proof, Abandoned):
            _log.warning(
                "record.abandoned",
                record=str(record.meta.key),
                address=record.address,
                why=step.proof.why,
            )
        body = render_finalizer_removed(record.meta, names.FINALIZER_RECORD)
        try:
            left = await self._records.patch(record.meta, body, observe=False)
        except NotFound:
            return RecordGone()
        except Conflict:
            return Conflicted()
        # As in `ObjectWriter.release`: without finalizers it is gone.
        if not left.meta.finalizers:
            return Released()
        return Observed(Permission(left, began))

    async def _write_lease(self, step: TakeLock | CoverEnd) -> Reply:
        if isinstance(step, CoverEnd):
            if self._ends is None:
                raise ValueError("this process ends no records")
            return await failpoints.through(self._ends.cover(step), answer_lost)
        if self._locks is None:
            raise ValueError("this process takes no locks on addresses")
        return await failpoints.through(self._locks.take(step), answer_lost)

    async def _call_driver(self, subject: Subject, step: CallDriver) -> Reply:
        """Call the driver, together with others where it takes them so."""
        uid = step.permission.record.meta.uid
        if not self._batches.takes(step.driver, step.operation, uid):
            return await self._call_alone(subject, step)
        name = str(step.driver.meta.key)
        with spans.open_span(step.operation, driver=name) as span:
            reply = await self._call_in_batch(subject, step, span)
            span.tell("outcome", type(reply).__name__)
        return reply

    async def _call_in_batch(
        self, subject: Subject, step: CallDriver, span: spans.Span
    ) -> Reply:
        """Have the call go out in a batch, by a permission that is judged just before."""
        withheld: list[Reply | KubeError] = []
        held = step.permission

        async def permit() -> Permitted | None:
            nonlocal held
            try:
                found = await self._permission(subject, step, held)
            except KubeError as error:
                withheld.append(error)
                return None
            if not isinstance(found, Permission):
                withheld.append(found)
                return None
            held = found
            until = held.at + step.driver.window(step.operation).total_seconds()
            not_after = self._wall_time_of(until)
            request = backend_request(step, self._clock.new_id(), not_after)
            return Permitted(request, until, held.at + _USE_WITHIN.total_seconds())

        reply = _counted(
            await self._answered(
                step, self._batches.send(*self._item(subject, step, permit, span))
            ),
            held.at,
        )
        if reply is None:
            reason = withheld[-1]
            if isinstance(reason, KubeError):
                raise reason
            return reason
        if isinstance(reply, _Singly):
            return await self._call_alone(subject, step)
        return reply

    def _item(
        self, subject: Subject, step: CallDriver, permit: Permit, span: spans.Span
    ) -> tuple[Lane, Item]:
        """Return where a call waits for others, and as what."""
        record, driver = step.permission.record, step.driver
        where = record.load_balancer_key
        info = frozenset(record.spec.lb_info.items())
        lane = Lane(driver.meta.key, step.operation, where, info, subject.key.namespace)
        uid, limit = record.meta.uid, self._limit(where)
        return lane, Item(uid, driver, permit, step.urgent, limit, span)

    async def _call_alone(self, subject: Subject, step: CallDriver) -> Reply:
        """Call the driver when it has a free place, under a permission still good."""
        where = step.permission.record.load_balancer_key
        async with self._drivers.slot(
            step.driver,
            where,
            namespace=subject.key.namespace,
            limit=self._limit(where),
            ahead=step.urgent,
        ):
            permission = await self._permission(subject, step, step.permission)
            if not isinstance(permission, Permission):
                return permission
            until = self._end_of(step, permission)
            request = await self._request(step, until)
            call = self._sent(step, request, until)
            window = step.driver.window(step.operation).total_seconds()
            reply = _counted(await self._answered(step, call), until - window)
            if isinstance(reply, Succeeded | StillRunning):
                self._batches.answered(step.permission.record.meta.uid)
            return cast("Reply", reply)

    async def _permission(
        self, subject: Subject, step: CallDriver, held: Permission
    ) -> Permission | RecordGone | Superseded:
        """Return a permission that is good still; of a record that has changed, none."""
        if self._clock.monotonic() <= held.at + _USE_WITHIN.total_seconds():
            return held
        fresh = await self._read(subject)
        if isinstance(fresh, RecordGone):
            return fresh
        before, now = step.permission.record.meta, fresh.permission.record.meta
        if before.resource_version != now.resource_version:
            return Superseded(fresh.permission)
        return fresh.permission

    def _end_of(self, step: CallDriver, permission: Permission) -> float:
        """Return when a call that is made now must be over, in monotonic seconds.

        Its permission covers more as long as it is young: nobody waits for the answer by
        then, but a driver that goes by `notAfter` might still begin (Δ would be longer).
        """
        until = permission.at + step.driver.window(step.operation).total_seconds()
        if step.operation is Operation.GENERATE_BACKEND_ADDR:
            return until  # what it is about is read first, and it changes no member
        limit = step.driver.timeout(step.operation).total_seconds()
        return min(until, self._clock.monotonic() + limit)

    def _wall_time_of(self, until: float) -> datetime:
        """Return the moment of some monotonic seconds, for a driver."""
        rest = timedelta(seconds=until - self._clock.monotonic())
        return self._clock.now() + rest

    async def _request(self, step: CallDriver, until: float) -> Request[RetriedAnswer]:
        retry_id, not_after = self._clock.new_id(), self._wall_time_of(until)
        if step.operation is not Operation.GENERATE_BACKEND_ADDR:
            return backend_request(step, retry_id, not_after)
        record, key = step.permission.record, step.driver.member_key
        return await ask_for_address(self._client, record, retry_id, not_after, key)

    async def _sent(
        self, step: CallDriver, request: Request[RetriedAnswer], until: float
    ) -> RetriedAnswer:
        """Send the request, unless its permission has run out.

        Raises:
            DriverError: there was no valid answer.
        """
        driver, limit = step.driver, step.driver.timeout(step.operation)
        call = self._drivers.call(
            driver, step.operation, request, timeout=limit, until=until
        )
        return await failpoints.through(call, TimedOut)

    async def _answered(
        self, step: CallDriver, call: Awaitable[RetriedAnswer | None]
    ) -> "Reply | _Singly | None":
        """Read what came of a call; None: it was not to be sent."""
        driver = step.driver
        try:
            answer = await call
        except TooLate:
            return Superseded(step.permission)  # read anew: it is too old by now
        except DriverError as error:
            return NoAnswer(error.reason, str(error), may_land=not error.definite)
        except asyncio.CancelledError:
            if is_ending():
                raise
            # Something below was cancelled, not this turn: the call may be out.
            return NoAnswer(
                Reason.DRIVER_CALL_CUT, "the call was cut off", may_land=True
            )
        except Exception as error:  # noqa: BLE001 - told to the reader of the record
            # A defect of ours, but the call may be out: to forget that would be worse.
            _log.exception("driver.call_broke", driver=str(driver.meta.key))
            message = f"{type(error).__name__} in this process"
            return NoAnswer(Reason.DRIVER_CALL_BROKE, message, may_land=True)
        if answer is None:
            return None
        if isinstance(answer, BackendResult) and answer.retry_singly:
            return _Singly()
        _log.debug(
            "driver.answered",
            driver=str(driver.meta.key),
            operation=step.operation.value,
            record=str(step.permission.record.meta.key),
            status=answer.status.value,
            message=answer.msg,
        )
        return reply_of(answer)


@attrs.frozen
class _Singly:
    """The driver has tried nothing, and wants to be asked for this one alone."""


def _counted(reply: R, since: float) -> R:
    """Return a reply that tells, where there was no answer, from when the call counts."""
    if not isinstance(reply, NoAnswer):
        return reply
    return attrs.evolve(reply, counts_from=since)


def _unconfirmed(step: Step, error: BaseException) -> WriteUnconfirmed | None:
    """Answer for a write that failed so but may have been made, or may still be."""
    if not isinstance(step, WriteStatus):
        return None
    is_definite = isinstance(error, KubeError)
    if isinstance(error, Unavailable):
        is_definite = not error.maybe_applied
    return None if is_definite else WriteUnconfirmed()
