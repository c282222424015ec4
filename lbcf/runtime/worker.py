"""Takes keys from a queue, has them reconciled, and acts on the `Result`.

What happens after a key was reconciled is decided here, in one place: nothing, later, or
with backoff. To come again is a result, not an error: so a count of failures means
something.
"""

import asyncio

from collections.abc import Awaitable, Callable, Hashable
from datetime import timedelta
from typing import Generic, TypeVar, assert_never

import attrs
import structlog

from lbcf.core import backoff
from lbcf.core.errors import LbcfError
from lbcf.runtime import spans
from lbcf.runtime.clock import Clock
from lbcf.runtime.queue import QueueClosed, WorkQueue
from lbcf.runtime.tasks import is_ending


@attrs.frozen
class Done:
    """All is as it should be; look again when something changes."""


@attrs.frozen
class RequeueAfter:
    """All went well, and there will be something to do later.

    Attributes:
        delay: how long to wait; a change of the key ends the wait early.
    """

    delay: timedelta


@attrs.frozen
class Parked:
    """It was not looked at, for it has to wait: its failures in a row count on.

    Attributes:
        delay: how long; None: something else brings the key back.
    """

    delay: timedelta | None = None


@attrs.frozen
class Failed:
    """It did not work; try again with backoff.

    Attributes:
        error: what happened, to what; goes into the log.
        at_least: the wait that the other side asked for, if it did.
    """

    error: Exception
    at_least: timedelta | None = None


Result = Done | RequeueAfter | Parked | Failed


K = TypeVar("K", bound=Hashable)

_log = structlog.get_logger(__name__)


class Workers(Generic[K]):
    """A number of tasks that empty a queue, one key each at a time.

    Attributes:
        queue: where the keys come from; `stop` closes it.
    """

    def __init__(
        self,
        queue: WorkQueue[K],
        reconcile: Callable[[K], Awaitable[Result]],
        count: int,
        clock: Clock,
        *,
        base: timedelta = backoff.BASE,
        cap: timedelta = backoff.CAP,
    ) -> None:
        """Get the parts ready; nothing runs before `start`.

        Args:
            queue: where the keys come from.
            reconcile: looks at one key; may raise, which counts as `Failed`.
            count: how many keys may be in work at a time; at least 1.
            clock: gives the jitter.
            base: the shortest wait after a failure.
            cap: the longest wait after a failure, unless a longer one was asked for.
        """
        self.queue = queue
        self._reconcile = reconcile
        self._count = count
        self._clock = clock
        self._base = base
        self._cap = cap
        self._failures: dict[K, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._in_work: dict[asyncio.Task[None], K] = {}

    def start(self) -> None:
        """Begin to take keys; call it once, in a running loop."""
        self._tasks = [
            asyncio.create_task(self._work(), name=f"{self.queue.name}-{number}")
            for number in range(self._count)
        ]

    async def wait(self) -> None:
        """Wait until the workers have ended, which they do only when stopped.

        Raises:
            Exception: a worker broke down; a defect of this module or of the clock.
        """
        await asyncio.gather(*self._tasks)

    async def stop(self, grace: timedelta) -> tuple[K, ...]:
        """Take no more keys, let those in work finish; cancel them after the grace.

        Cancelled itself, it cancels them at once. However it ends, they have ended.

        Returns:
            The keys whose work was cut, the longest in work first.
        """
        self.queue.shutdown()
        running = [task for task in self._tasks if not task.done()]
        if not running:
            return ()
        cut: dict[asyncio.Task[None], K] = {}
        try:
            await asyncio.wait(running, timeout=grace.total_seconds())
        finally:
            # Also when somebody who lost patience cancels this very call.
            cut.update(self._in_work)
            for task, key in cut.items():
                _log.warning("work.cut", queue=self.queue.name, key=key, grace=grace)
                task.cancel()
            await asyncio.wait(running)
        return tuple(cut.values())

    async def _work(self) -> None:
        """Take keys until the queue closes: the life of one worker."""
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            await self._work_on(key)
            # A key that wants to come again at once, and waits for nothing, would keep
            # the loop for itself: no watch could tell what it waits for.
            await asyncio.sleep(0)

    async def _work_on(self, key: K) -> None:
        """Reconcile one key and act on the result."""
        worker = asyncio.current_task()
        assert worker is not None  # noqa: S101 - tells mypy that a task runs this
        self._in_work[worker] = key
        try:
            # Of this task's context, in which the next key takes this one's place.
            structlog.contextvars.bind_contextvars(queue=self.queue.name, key=key)
            with spans.open_span(self.queue.name, key=str(key)) as span:
                result = await self._outcome(key)
                span.tell("result", type(result).__name__)
                if isinstance(result, Failed):
                    span.fail(str(result.error))
                self._act_on(result, key)
        finally:
            del self._in_work[worker]
            self.queue.done(key)

    async def _outcome(self, key: K) -> Result:
        """Reconcile; make a failure of whatever is raised."""
        try:
            return await self._reconcile(key)
        except asyncio.CancelledError as error:
            # Something that the function awaited was cancelled, not this worker:
            # it must not end for that, or a queue loses its workers one by one.
            if is_ending():
                raise
            return self._crashed(RuntimeError("a call was cancelled"), error)
        except LbcfError as error:
            return Failed(error, at_least=error.retry_after)
        except Exception as error:  # noqa: BLE001 - one bad key stops no other
            return self._crashed(error, error)

    @staticmethod
    def _crashed(error: Exception, cause: BaseException) -> Failed:
        _log.error("reconcile.crashed", exc_info=cause)
        return Failed(error)

    def _act_on(self, result: Result, key: K) -> None:
        """Put the key back for later, or leave it."""
        match result:
            case Done():
                self._failures.pop(key, None)
            case RequeueAfter(delay):
                self._failures.pop(key, None)
                self.queue.add_after(key, delay)
            case Parked(delay):
                if delay is not None:
                    self.queue.add_after(key, delay)
            case Failed():
                self._retry(result, key)
            case _:
                assert_never(result)

    def _retry(self, failed: Failed, key: K) -> None:
        """Put a key back with a wait that grows with its failures in a row."""
        attempt = self._failures.get(key, 0) + 1
        self._failures[key] = attempt
        delay = backoff.delay_for(
            attempt,
            self._clock.jitter(),
            base=self._base,
            cap=self._cap,
            at_least=failed.at_least,
        )
        _log.warning(
            "reconcile.failed", error=failed.error, attempt=attempt, retry_after=delay
        )
        self.queue.add_after(key, delay)
