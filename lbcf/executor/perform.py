"""The one place where steps become calls of the API server and of drivers."""

import asyncio
import contextlib

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

import attrs
import structlog

from lbcf.core.lifecycle.steps import (
    Abandoned,
    CallDriver,
    Conflicted,
    Finish,
    LockHeld,
    LockTaken,
    NoAnswer,
    Observed,
    Permission,
    PodRead,
    ReadPod,
    ReadRecord,
    RecordGone,
    Released,
    ReleaseRecord,
    Reply,
    Step,
    Superseded,
    TakeLock,
    WriteSettling,
    WriteStatus,
    WriteUnconfirmed,
)
from lbcf.core.lifecycle.trouble import with_refusal
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model import names
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import Reason
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
    answer_lost,
)
from lbcf.kube.kinds import PODS, RECORDS
from lbcf.kube.reader import KubeReader
from lbcf.kube.store import Store
from lbcf.runtime import failpoints
from lbcf.runtime.clock import Clock
from lbcf.runtime.queue import ReconnectNotifier
from lbcf.wire.driver_answers import RetriedAnswer
from lbcf.wire.driver_requests import Request
from lbcf.wire.metadata import render_finalizer_removed
from lbcf.wire.records import render_settling, render_status_update


S = TypeVar("S")

_log = structlog.get_logger(__name__)

_USE_WITHIN = timedelta(seconds=2)
"""A permission is good for the operation's time-out and 2 s: these 2 s are for us."""


@attrs.frozen
class Subject:
    """The record that a turn is about; a namesake with another uid is not it."""

    key: ObjectKey
    uid: Uid


class TakesLocks(Protocol):
    """Whoever takes locks on addresses."""

    async def take(self, step: TakeLock) -> LockTaken | LockHeld:
        """Take one, or say who has it and when to ask again."""


class Executor:
    """Performs steps.

    Args:
        client: the API server.
        drivers: the webhook services.
        clock: the time.
        locks: on addresses; None in a process that takes none.
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
        self._limit = limit
        self._recall = recall
        self._told = told

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
            case ReadPod():
                return await self._read_pod(step)
            case TakeLock():
                return await self._take_lock(step)
            case ReleaseRecord():
                return await self._release(step)
            case Finish():
                raise ValueError("a finished turn has nothing to perform")

    async def _read(self, subject: Subject) -> Observed | RecordGone:
        """Read the record as it is now."""
        began = self._clock.monotonic()
        try:
            record = await failpoints.through(
                self._client.get(RECORDS, subject.key), answer_lost
            )
        except NotFound:
            return RecordGone()
        if record.meta.uid != subject.uid:
            return RecordGone()
        return Observed(Permission(record, began))

    async def _write_step(self, step: WriteStatus | WriteSettling) -> Reply:
        if isinstance(step, WriteSettling):
            return await self._write(step.record, render_settling(step.settling))
        body = render_status_update(step.record, step.status)
        return await self._write(step.record, body, "status")

    async def _read_pod(self, step: ReadPod) -> PodRead:
        try:
            pod = await failpoints.through(
                self._client.get(PODS, step.key), answer_lost
            )
        except NotFound:
            return PodRead(is_ending=True)
        return PodRead(is_ending=pod.is_terminating or pod.meta.uid != step.uid)

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

    async def _take_lock(self, step: TakeLock) -> Reply:
        if self._locks is None:
            raise ValueError("this process takes no locks on addresses")
        return await failpoints.through(self._locks.take(step), answer_lost)

    async def _call_driver(self, subject: Subject, step: CallDriver) -> Reply:
        """Call the driver when it has a free place, under a permission still good."""
        record, driver = step.permission.record, step.driver
        where = record.load_balancer_key
        limit = self._limit(where)
        async with self._drivers.slot(
            driver,
            where,
            namespace=subject.key.namespace,
            limit=limit,
            ahead=step.urgent,
        ):
            permission = step.permission
            if self._clock.monotonic() > permission.at + _USE_WITHIN.total_seconds():
                fresh = await self._read(subject)
                if isinstance(fresh, RecordGone):
                    return fresh
                permission = fresh.permission
                before, now = record.meta, permission.record.meta
                if before.resource_version != now.resource_version:
                    return Superseded(permission)
            until = permission.at + driver.window(step.operation).total_seconds()
            rest = timedelta(seconds=until - self._clock.monotonic())
            not_after = self._clock.now() + rest
            request = await self._request(step, self._clock.new_id(), not_after)
            return await self._ask(step, request, until)

    async def _request(
        self, step: CallDriver, retry_id: str, not_after: datetime
    ) -> Request[RetriedAnswer]:
        if step.operation is not Operation.GENERATE_BACKEND_ADDR:
            return backend_request(step, retry_id, not_after)
        record = step.permission.record
        return await ask_for_address(self._client, record, retry_id, not_after)

    async def _ask(
        self, step: CallDriver, request: Request[RetriedAnswer], until: float
    ) -> Reply:
        """Send the request, unless its permission has run out, and read the answer."""
        driver, limit = step.driver, step.driver.timeout(step.operation)
        try:
            call = self._drivers.call(
                driver, step.operation, request, timeout=limit, until=until
            )
            answer = await failpoints.through(call, TimedOut)
        except TooLate:
            return Superseded(step.permission)  # read anew: it is too old by now
        except DriverError as error:
            return NoAnswer(error.reason, str(error), may_land=not error.definite)
        except asyncio.CancelledError:
            if _is_ending():
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
        reply = reply_of(answer)
        _log.debug(
            "driver.answered",
            driver=str(driver.meta.key),
            operation=step.operation.value,
            record=str(step.permission.record.meta.key),
            status=answer.status.value,
            message=answer.msg,
        )
        return reply


def _unconfirmed(step: Step, error: BaseException) -> WriteUnconfirmed | None:
    """Answer for a write that failed so but may have been made, or may still be."""
    if not isinstance(step, WriteStatus):
        return None
    is_definite = isinstance(error, KubeError)
    if isinstance(error, Unavailable):
        is_definite = not error.maybe_applied
    return None if is_definite else WriteUnconfirmed()


def _is_ending() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
