"""Performs a batch: each item as a call of its own, and an answer that waits for no last one.

An item waits for its member like a single call, and is as late as one. Then the author's
method for one member is called for it, `batch_concurrency` at a time; or, where the author
has written one for many, that is called with all items whose turn has come.
"""

import asyncio

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import cast

import msgspec
import structlog

from lbcf.core.model.operations import BATCHED, Operation
from lbcf.runtime.clock import Clock
from lbcf.sdk.driver import Driver, NotThere, Refusal, RetrySingly
from lbcf.sdk.mistakes import METHODS
from lbcf.sdk.replies import answer_of_error, answer_of_result, refused, reply
from lbcf.wire.driver import Answer, Request
from lbcf.wire.driver_answers import (
    BackendAnswer,
    BackendResult,
    BackendsAnswer,
    DrainBackendsAnswer,
    DrainResult,
    Status,
)
from lbcf.wire.driver_requests import BackendRequest, BatchRequest


Item = BackendRequest[BackendAnswer]
Perform = Callable[[Item], Awaitable[Answer | None]]
Keep = Callable[[asyncio.Task[None]], None]
"""Holds a task, and ends it where the driver ends."""

LAST_ONES = timedelta(seconds=0.5)
"""How long an answer waits for the other half of its items once one half has ended."""

_UNDER_WAY = "still under way; the driver has answered without it: ask again"

_log = structlog.get_logger(__name__)


def is_together(driver: Driver, operation: Operation) -> bool:
    """Return whether an author has written a method for many members at once."""
    name = METHODS[BATCHED[operation]]
    return getattr(type(driver), name) is not getattr(Driver, name)


class OneByOne:
    """Calls the author's method for one member, for some items at a time."""

    def __init__(self, driver: Driver, operation: Operation, clock: Clock) -> None:
        self._driver = driver
        self._operation = operation
        self._clock = clock
        self.places = asyncio.Semaphore(driver.batch_concurrency)

    async def perform(self, item: Item) -> Answer | None:
        """Perform one item."""
        request = cast("Request[Answer]", item)
        return await reply(self._driver, self._operation, request, self._clock)


class Together:
    """Calls the author's method for many members with all items whose turn has come.

    Attributes:
        singly: items that the author wants to be asked for alone.

    Args:
        keep: is given each call: its items end when they are cut, and it goes on.
    """

    def __init__(
        self, driver: Driver, operation: Operation, clock: Clock, keep: Keep
    ) -> None:
        name = METHODS[BATCHED[operation]]
        self._method = cast(
            "Callable[[Sequence[Item]], Awaitable[object]]", getattr(driver, name)
        )
        self._operation = operation
        self._clock = clock
        self._waiting: dict[str, tuple[Item, asyncio.Future[Answer | None]]] = {}
        self._keep = keep
        self.places = asyncio.Semaphore(1_000_000)
        self.singly: set[str] = set()

    async def perform(self, item: Item) -> Answer | None:
        """Perform an item together with those whose turn has come, too."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Answer | None] = loop.create_future()
        if not self._waiting:
            name = BATCHED[self._operation]
            self._keep(asyncio.create_task(self._call(), name=name))
        self._waiting[item.record_id] = (item, ended)
        return await ended

    async def _call(self) -> None:
        """Make one call; the items of a batch come to it in the same turn of the loop."""
        await asyncio.sleep(0)
        waiting, self._waiting = self._waiting, {}
        outcomes: Mapping[str, object] = {}
        try:
            outcomes = await self._outcomes([item for item, _ in waiting.values()])
        finally:
            # Also where something that the method awaits was cancelled: an item that nobody
            # ends would keep its member for ever.
            for record, (_, ended) in waiting.items():
                if not ended.done():
                    ended.set_result(self._answer(record, outcomes.get(record)))

    async def _outcomes(self, items: Sequence[Item]) -> Mapping[str, object]:
        """Return what the author's method says of each; nothing where it broke."""
        try:
            outcomes = await self._method(items)
        except (Refusal, NotThere) as said:
            return dict.fromkeys([item.record_id for item in items], said)
        except Exception:  # noqa: BLE001  (an author's mistake must not leak, nor be lost)
            _log.exception("driver.broken", operation=BATCHED[self._operation])
            return {}
        if isinstance(outcomes, Mapping):
            return outcomes
        _log.error(
            "driver.broken",
            operation=BATCHED[self._operation],
            error=f"a mapping by record id is due, not {outcomes!r:.80}",
        )
        return {}

    def _answer(self, record: str, outcome: object) -> Answer | None:
        """Return the answer of an item; None: nobody knows what became of it."""
        if outcome is None:
            return None
        if isinstance(outcome, RetrySingly):
            self.singly.add(record)
        if isinstance(outcome, Exception):
            return answer_of_error(self._operation, outcome, self._clock)
        return answer_of_result(self._operation, outcome, self._clock)


Performer = OneByOne | Together


def performer(
    driver: Driver, operation: Operation, clock: Clock, keep: Keep
) -> Performer:
    """Return what performs the items of one batch.

    Args:
        driver: the author's.
        operation: on one member.
        clock: for incidents.
        keep: is given each call for many.
    """
    if is_together(driver, operation):
        return Together(driver, operation, clock, keep)
    return OneByOne(driver, operation, clock)


async def answer_batch(
    operation: Operation,
    tasks: Mapping[str, asyncio.Task[Answer | None]],
    by: Performer,
    last_ones: timedelta = LAST_ONES,
) -> BackendsAnswer | DrainBackendsAnswer:
    """Wait for the items of a batch, but for the last ones only so long.

    One member that is slow must not keep what is known of all others: it is answered
    with `Running`, and asked for again.

    Args:
        operation: on one member.
        tasks: the items under way, by recordID.
        by: performs them.
        last_ones: how long to wait for the second half once the first has ended.
    """
    await _most(list(tasks.values()), last_ones)
    singly = by.singly if isinstance(by, Together) else set[str]()
    results = [
        _result(operation, record, _ended(task), singly=record in singly)
        for record, task in tasks.items()
        if not task.done() or _ended(task) is not None
    ]
    return _answer(operation, results)


def _answer(
    operation: Operation, results: Sequence[BackendResult]
) -> BackendsAnswer | DrainBackendsAnswer:
    if operation is Operation.DRAIN_BACKEND:
        return DrainBackendsAnswer(results=cast("list[DrainResult]", results))
    return BackendsAnswer(results=results)


def refused_batch(
    operation: Operation, items: Sequence[Item], refusal: Refusal
) -> BackendsAnswer | DrainBackendsAnswer:
    """Return the answer that says no to each item."""
    answer = refused(operation, refusal)
    results = [_result(operation, one.record_id, answer, singly=False) for one in items]
    return _answer(operation, results)


def batch_request(request: Request[Answer]) -> Sequence[Item]:
    """Return the items of a batch."""
    return cast("Sequence[Item]", cast("BatchRequest", request).items)


async def _most(
    tasks: Sequence[asyncio.Task[Answer | None]], last_ones: timedelta
) -> None:
    left, half = len(tasks), asyncio.Event()

    def ended(_task: object) -> None:
        nonlocal left
        left -= 1
        if left <= len(tasks) // 2:
            half.set()

    for task in tasks:
        task.add_done_callback(ended)
    await half.wait()
    await asyncio.wait(tasks, timeout=last_ones.total_seconds())


def _ended(task: asyncio.Task[Answer | None]) -> Answer | None:
    """Return what an item ended with; None: it is under way, or was cut off."""
    return task.result() if task.done() and not task.cancelled() else None


def _result(
    operation: Operation, record: str, answer: Answer | None, *, singly: bool
) -> BackendResult:
    kind = DrainResult if operation is Operation.DRAIN_BACKEND else BackendResult
    if answer is None:
        return kind(record_id=record, status=Status.RUNNING, msg=_UNDER_WAY)
    said = msgspec.structs.asdict(cast("BackendAnswer", answer))
    return cast("Callable[..., BackendResult]", kind)(
        record_id=record, retry_singly=singly, **said
    )
