"""Many members in one call: gathers calls of one operation at one load balancer.

    reply = await batches.send(lane, item)      one for each turn; comes back with its result

A lane has the calls of one operation about one load balancer of one driver, for one
namespace: nobody's items fill another's batch. What is alone goes out at once; what comes
while a batch is under way waits for company up to `maxItems` or for
`maxDelayMilliseconds`, and no longer than until that batch has ended and nobody comes any more. A batch holds one of the driver's places, and
what goes into it is decided only then: each item is permitted anew, or says that it is not
to be sent any more, and the others go without it.
"""

import asyncio

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import attrs

from lbcf.core.model.operations import BATCHED, Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.drivers.errors import BadAnswer, DriverError, NotSent, TimedOut
from lbcf.drivers.pool import CANCELLED, DriverPool
from lbcf.runtime import failpoints
from lbcf.runtime.clock import Clock
from lbcf.runtime.spans import NOWHERE, Span
from lbcf.runtime.tasks import end_tasks, is_ending
from lbcf.wire import driver_requests as requests
from lbcf.wire.driver import Request
from lbcf.wire.driver_answers import BackendAnswer, BackendResult, BatchAnswer


_T = TypeVar("_T")

Member = requests.BackendRequest[BackendAnswer]

_LINGER = timedelta(milliseconds=2)
"""How long a lane with nothing under way waits for another call: a storm comes as one."""

_PERMITTING = timedelta(seconds=1)
"""How long a batch waits for permissions that are being renewed; whose comes later goes
with a later one."""

_ALONE = timedelta(minutes=10)
"""How long an item goes alone that its batch may have been spoilt by, unless it gets through
before."""
_MOST_ALONE = 10_000

_KINDS: Mapping[Operation, Callable[..., Request[BatchAnswer]]] = {
    Operation.ENSURE_BACKENDS: requests.EnsureBackendsRequest,
    Operation.DEREGISTER_BACKENDS: requests.DeregisterBackendsRequest,
    Operation.DRAIN_BACKENDS: requests.DrainBackendsRequest,
}


@attrs.frozen
class Lane:
    """What may go into one batch.

    Attributes:
        driver: its key.
        operation: on one member.
        load_balancer: what the calls are about.
        info: its identity, as the driver knows it.
        namespace: for whom they are.
    """

    driver: ObjectKey
    operation: Operation
    load_balancer: ObjectKey
    info: frozenset[tuple[str, str]]
    namespace: str


@attrs.frozen
class Permitted:
    """A call that may be sent.

    Attributes:
        request: the item.
        until: monotonic seconds at which it must be over.
        good_until: monotonic seconds at which it must have been sent.
    """

    request: Member
    until: float
    good_until: float


Permit = Callable[[], Awaitable[Permitted | None]]
"""Looks at a permission just before a batch goes out; None: it is not to be sent."""


@attrs.define(eq=False)
class Item:
    """A call that waits for its batch.

    Attributes:
        record_id: of the record, as the answer names it.
        driver: as its turn knows it.
        permit: of the call; raises nothing.
        urgent: goes first.
        limit: how many calls the load balancer bears at a time, None: any number.
        span: of the call, to which the batch's own is linked.
        asked: for its permission, and not used yet: the answer to a slow question is there
            for a later batch.
        asked_at: monotonic seconds at which that began.
    """

    record_id: str
    driver: LoadBalancerDriver
    permit: Permit
    urgent: bool = False
    limit: int | None = None
    span: Span = NOWHERE
    asked: "asyncio.Task[Permitted | None] | None" = None
    asked_at: float = 0.0
    result: "asyncio.Future[BackendResult | None]" = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make what its turn waits for."""
        self.result = asyncio.get_running_loop().create_future()

    def ask(self, now: float, window: timedelta) -> "asyncio.Task[Permitted | None]":
        """Ask for its permission, unless the answer to an earlier question will do.

        Args:
            now: monotonic seconds.
            window: for how long a permission covers a call.
        """
        # An answer that was slow has come since: half of its window is enough for a call,
        # and a new question would take as long again.
        is_there = self.asked is not None and self.asked.done()
        limit = window / 2 if is_there else window
        if self.asked is None or now >= self.asked_at + limit.total_seconds():
            self.forget_asked()
            self.asked, self.asked_at = asyncio.ensure_future(self.permit()), now
        return self.asked

    def forget_asked(self) -> None:
        """Wait for no permission any more."""
        if self.asked is not None:
            self.asked.cancel()
            self.asked = None

    def take(self, asked: "asyncio.Task[Permitted | None]") -> Permitted | None:
        """Use the answer: end with it, or return a permission; None also where there is none yet."""
        if not asked.done() or self.result.done():
            return None
        self.asked = None
        if (error := _error_of(asked)) is not None:
            _fail(self, error)
        elif (permitted := asked.result()) is None:
            _end(self, None)
        else:
            return permitted
        return None


@attrs.define(eq=False)
class _Queue:
    """The items of a lane.

    Attributes:
        waiting: in order of arrival.
        forming: the batch that they will go with.
        under_way: how many batches have been sent and not answered.
        changed: another item has come, or a batch has ended.
    """

    waiting: list[Item] = attrs.field(factory=list)
    forming: "asyncio.Task[None] | None" = None
    under_way: int = 0
    changed: asyncio.Event = attrs.field(factory=asyncio.Event)

    def take(self, most: int) -> list[Item]:
        """Take those that go next: urgent ones, then in order of arrival."""
        self.waiting = [one for one in self.waiting if not one.result.done()]
        self.waiting.sort(key=lambda one: not one.urgent)
        taken, self.waiting = self.waiting[:most], self.waiting[most:]
        return taken


class Batches:
    """Gathers calls into batches.

    Args:
        pool: sends them.
        clock: the time.
    """

    def __init__(self, pool: DriverPool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock
        self._queues: dict[Lane, _Queue] = {}
        self._alone: OrderedDict[str, float] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """Return how many lanes there are that have something to do."""
        return len(self._queues)

    def takes(
        self, driver: LoadBalancerDriver, operation: Operation, record_id: str
    ) -> bool:
        """Return whether a call is to go with others.

        An item whose batch had no answer, or that its driver wanted to be asked for alone, goes
        alone until it is not refused: a member that breaks a driver, or spoils what a back
        end changes together, costs its neighbours one attempt.
        """
        alone_until = self._alone.get(record_id)
        return (
            driver.batch(operation) is not None
            and self._pool.sends_batches
            and (alone_until is None or alone_until < self._clock.monotonic())
        )

    def answered(self, record_id: str) -> None:
        """Take in that a call for an item alone was answered, and not by a refusal."""
        self._alone.pop(record_id, None)

    async def send(self, lane: Lane, item: Item) -> BackendResult | None:
        """Have an item sent with others; return its result, None: it was not to be sent.

        Raises:
            DriverError: there was no answer, or none about this item.
            Exception: what `permit` raised.
        """
        queue = self._queues.setdefault(lane, _Queue())
        queue.waiting.append(item)
        queue.changed.set()
        self._form(lane, queue)
        try:
            return await item.result
        finally:
            item.forget_asked()
            if item in queue.waiting:  # its turn was cancelled
                queue.waiting.remove(item)

    async def end(self) -> None:
        """Cut what is gathered or out, and wait until that has ended.

        To be called when no turn waits any more. A batch is no turn's: where all of its turns
        are cut it goes on, and is out still when somebody else leads.
        """
        await end_tasks(self._tasks)

    def _keep(self, task: "asyncio.Task[_T]") -> "asyncio.Task[_T]":
        """Have a task end with the others."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _form(self, lane: Lane, queue: _Queue) -> None:
        if queue.waiting and queue.forming is None:
            queue.forming = self._keep(asyncio.create_task(self._batch(lane, queue)))
        elif not queue.waiting and queue.forming is None and not queue.under_way:
            self._queues.pop(lane, None)

    async def _batch(self, lane: Lane, queue: _Queue) -> None:
        """Gather a batch, wait for a place, and send it."""
        sent = cancelled = False
        try:
            await self._gather(lane, queue)
            if not queue.waiting:
                return
            newest = queue.waiting[-1]
            async with self._pool.slot(
                newest.driver,
                lane.load_balancer,
                namespace=lane.namespace,
                limit=newest.limit,
                ahead=any(one.urgent for one in queue.waiting),
            ):
                taken = queue.take(_most_items(newest.driver, lane.operation))
                queue.forming, sent = None, True
                queue.under_way += 1
                self._form(lane, queue)
                await self._settle(lane, queue, taken, newest.driver)
        except asyncio.CancelledError:
            cancelled = True  # the process ends: nothing more is sent
            raise
        finally:
            if sent:
                queue.under_way -= 1
            else:
                queue.forming = None
            queue.changed.set()
            if not cancelled:
                self._form(lane, queue)

    async def _gather(self, lane: Lane, queue: _Queue) -> None:
        """Wait for company as long as that is worth it."""
        if not queue.waiting:
            return  # its turn was cancelled at once
        driver = queue.waiting[-1].driver
        shape = driver.batch(lane.operation)
        if shape is None:
            return
        wait = shape.max_delay if queue.under_way else min(_LINGER, shape.max_delay)
        end = self._clock.monotonic() + wait.total_seconds()
        while len(queue.waiting) < shape.max_items:
            rest = end - self._clock.monotonic()
            if not queue.under_way:
                # Those whose batch has ended come again soon, one by one.
                rest = min(rest, _LINGER.total_seconds())
            if rest <= 0 or not await self._changes(queue, rest):
                return

    async def _changes(self, queue: _Queue, seconds: float) -> bool:
        """Wait for news of a lane; return whether there was any in time, or may be more."""
        queue.changed.clear()
        was_busy = bool(queue.under_way)
        try:
            async with asyncio.timeout(seconds):
                await queue.changed.wait()
        except TimeoutError:
            return was_busy
        return True

    async def _settle(
        self,
        lane: Lane,
        queue: _Queue,
        taken: Sequence[Item],
        driver: LoadBalancerDriver,
    ) -> None:
        if not taken:
            return
        window = driver.window(lane.operation)
        permitted, later = await self._permitted(taken, window)
        queue.waiting.extend(later)
        if permitted:
            await self._call(lane, permitted, driver)

    async def _permitted(
        self, taken: Sequence[Item], window: timedelta
    ) -> tuple[dict[Item, Permitted], list[Item]]:
        """Have items permitted; return those that are, and those that wait for a later batch."""
        now = self._clock.monotonic()
        asked = [(item, self._keep(item.ask(now, window))) for item in taken]
        tasks = [task for _, task in asked]
        done, _ = await asyncio.wait(tasks, timeout=_PERMITTING.total_seconds())
        if not done:
            limit = window.total_seconds()
            await asyncio.wait(
                tasks, timeout=limit, return_when=asyncio.FIRST_COMPLETED
            )
        now = self._clock.monotonic()
        good: dict[Item, Permitted] = {}
        old: dict[Item, Permitted] = {}
        for item, task in asked:
            permitted = item.take(task)
            if permitted is not None:
                (old if now > permitted.good_until else good)[item] = permitted
        ready = good or _newest(old)
        later = [one for one in taken if one not in ready and not one.result.done()]
        return ready, later

    async def _call(
        self,
        lane: Lane,
        permitted: Mapping[Item, Permitted],
        driver: LoadBalancerDriver,
    ) -> None:
        """Make the call, and tell each item what came of it."""
        many = BATCHED[lane.operation]
        request = _KINDS[many](items=[one.request for one in permitted.values()])
        # No item's call may go on for longer than its own permission.
        until = min(one.until for one in permitted.values())
        call = self._pool.call(
            driver,
            many,
            request,
            timeout=driver.timeout(lane.operation),
            until=until,
            links=[item.span for item in permitted],
        )
        try:
            answer = await failpoints.through(call, TimedOut)
        except (Exception, asyncio.CancelledError) as error:
            # Each turn tells its own record. Also where something below was cancelled,
            # and not this task: the call may be out.
            said = error.reason if isinstance(error, DriverError) else CANCELLED
            for item in permitted:
                self._pool.count_item(driver, many, said)
                if not isinstance(error, NotSent):
                    self._remember(item)
                _fail(item, error)
            if isinstance(error, asyncio.CancelledError) and is_ending():
                raise
            return
        results = {one.record_id: one for one in answer.results}
        for item in permitted:
            result = results.get(item.record_id)
            if result is None:
                text = (
                    f"{many} of driver {driver.meta.key}: no valid result for this one"
                )
                _fail(item, BadAnswer(text))
            else:
                _end(item, result)
            if result is not None and result.retry_singly:
                # Nothing was tried of it: it counts as the call that is made next.
                self._remember(item)
                continue
            said = "NoResult" if result is None else result.status.value
            self._pool.count_item(driver, many, said)

    def _remember(self, item: Item) -> None:
        """Have an item sent alone next."""
        self._alone[item.record_id] = self._clock.monotonic() + _ALONE.total_seconds()
        while len(self._alone) > _MOST_ALONE:
            self._alone.popitem(last=False)


def _most_items(driver: LoadBalancerDriver, operation: Operation) -> int:
    shape = driver.batch(operation)
    return 1 if shape is None else shape.max_items


def _newest(old: Mapping[Item, Permitted]) -> dict[Item, Permitted]:
    """Return what goes out where no permission came in time: an API server is that slow.

    Each call has what is left of its window, as it would have alone; to ask again would take
    as long again, and never end. Those that are much older would cut it short for all.
    """
    limit = max((one.good_until for one in old.values()), default=0.0)
    least = limit - _PERMITTING.total_seconds()
    return {item: one for item, one in old.items() if one.good_until >= least}


def _end(item: Item, result: BackendResult | None) -> None:
    if not item.result.done():
        item.result.set_result(result)


def _fail(item: Item, error: BaseException) -> None:
    if item.result.done():
        return
    if isinstance(error, asyncio.CancelledError):
        item.result.cancel()
    else:
        item.result.set_exception(error)


def _error_of(task: "asyncio.Task[Permitted | None]") -> BaseException | None:
    """Return what ended a task; where something below it was cancelled, only its item ends."""
    return asyncio.CancelledError() if task.cancelled() else task.exception()
