"""Registers and deregisters in batches: one call for up to 100 targets.

Callers come one by one, `group` hands their changes in here, and each gets its own
answer. One worker per target group sends them in the order in which they came, one call
at a time: a later change never overtakes an earlier one, even if its caller has given
up waiting. What its caller gave up on before it was sent is not sent, nor sent again
where a batch is halved.
"""

import asyncio

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from enum import StrEnum

import attrs

from lbcf.runtime.tasks import end_tasks
from lbcf.sdk import Clock
from webhooks.elbv2.errors import TargetRefused
from webhooks.elbv2.targets import Target
from webhooks.shared.identity import Owner


MOST_TARGETS = 100
"""In one call. AWS documents no limit; Kubernetes' own provider sends as many."""

WINDOW = timedelta(milliseconds=20)
"""How long a batch waits for company."""


class Action(StrEnum):
    """What is done with targets, as the API calls it."""

    REGISTER = "RegisterTargets"
    DEREGISTER = "DeregisterTargets"


@attrs.frozen
class Change:
    """One target in a batch.

    Attributes:
        target: id and port.
        owner: whose it is; not sent.
        zone: the availability zone, or `all`; empty: AWS finds it.
    """

    target: Target
    owner: Owner
    zone: str = ""


Send = Callable[[Action, Sequence[Change]], Awaitable[None]]


@attrs.frozen(eq=False)
class _Waiting:
    """A change, and who waits for its answer."""

    action: Action
    change: Change
    answer: "asyncio.Future[None]"


@attrs.define(eq=False)
class Changes:
    """The changes of one target group.

    Attributes:
        send: one call of the API.
        clock: for the window, and for when the last call ended.
        window: how long a batch waits for company.
        ended: monotonic seconds when the last call ended; what was read from before
            that may not show it.
    """

    send: Send
    clock: Clock
    window: timedelta = WINDOW
    ended: float = attrs.field(default=0.0, init=False)
    _queue: deque[_Waiting] = attrs.field(factory=deque, init=False)
    _worker: "asyncio.Task[None] | None" = attrs.field(default=None, init=False)

    async def apply(self, action: Action, change: Change) -> None:
        """Have a change made; come back when it is.

        Raises:
            Elbv2Error: it was refused, or is not known to have been made.
        """
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(action, change, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        await answer

    async def close(self) -> None:
        """Send nothing more."""
        if self._worker is not None:
            await end_tasks([self._worker])

    async def _work(self) -> None:
        """Send batch after batch until nobody waits."""
        while self._queue:
            await self.clock.sleep(self.window)
            batch = self._next_batch()
            if batch:
                await self._settle(batch)

    def _next_batch(self) -> list[_Waiting]:
        """Take those from the front that can go into one call."""
        batch: list[_Waiting] = []
        while self._queue and len(batch) < MOST_TARGETS:
            first = self._queue[0]
            if first.answer.done():
                self._queue.popleft()
                continue
            if batch and first.action is not batch[0].action:
                break
            batch.append(self._queue.popleft())
        return batch

    async def _settle(self, batch: Sequence[_Waiting]) -> None:
        """Send a batch; where one target spoils it, find out which."""
        # While the batch, or another half of it, was under way, callers may have given up:
        # what was refused with it has no claim, so their records may be gone by now.
        batch = [waiting for waiting in batch if not waiting.answer.done()]
        if not batch:
            return
        changes = dict.fromkeys(waiting.change for waiting in batch)
        try:
            await self.send(batch[0].action, list(changes))
        except TargetRefused as refused:
            if len(changes) == 1:
                _tell(batch, refused)
                return
            middle = len(batch) // 2
            await self._settle(batch[:middle])
            await self._settle(batch[middle:])
        except asyncio.CancelledError:
            _tell([*batch, *self._queue], asyncio.CancelledError())
            raise
        except Exception as error:  # noqa: BLE001  (those who wait raise it)
            _tell(batch, error)
        else:
            _tell(batch, None)
        finally:
            self.ended = self.clock.monotonic()


def _tell(batch: Sequence[_Waiting], error: BaseException | None) -> None:
    """Give all who still wait their answer."""
    for waiting in batch:
        if waiting.answer.done():
            continue
        if error is None:
            waiting.answer.set_result(None)
        elif isinstance(error, asyncio.CancelledError):
            waiting.answer.cancel()
        else:
            waiting.answer.set_exception(error)
