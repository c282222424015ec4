"""Polls of DescribeTargetHealth, shared by all who wait for the same target group.

AWS bears 10 describing calls per second for a whole account and region (docs,
elb-api-throttling); a hundred draining members must not be a hundred calls.
"""

import asyncio

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

import attrs

from lbcf.runtime.tasks import end_tasks
from lbcf.sdk import Clock
from webhooks.elbv2.errors import Elbv2Error
from webhooks.elbv2.targets import Health, Reading, Target


SPACING = timedelta(milliseconds=200)
"""Between the beginnings of two polls of one target group, whoever asks."""

Read = Callable[[], Awaitable[Mapping[Target, Health]]]


@attrs.define(eq=False)
class Readings:
    """The polls of one target group.

    Attributes:
        read: one call of the API.
        clock: tells when a poll began.
        spacing: between the beginnings of two polls.
        failed: monotonic seconds when the last poll began that failed; what was read
            before it may be no more, as a target group that is gone.
    """

    read: Read
    clock: Clock
    spacing: timedelta = SPACING
    failed: float = attrs.field(default=0.0, init=False)
    _latest: Reading | None = attrs.field(default=None, init=False)
    _poll: "asyncio.Task[Reading] | None" = attrs.field(default=None, init=False)
    _began: float = attrs.field(default=0.0, init=False)

    async def since(self, moment: float) -> Reading:
        """Return a reading that began at that moment (monotonic seconds) or later.

        Raises:
            Elbv2Error: the poll that should have brought it failed.
        """
        while self._latest is None or self._latest.began < moment:
            if self._poll is None or self._poll.done():
                self._poll = asyncio.create_task(self._polled())
            try:
                await asyncio.shield(self._poll)
            except Elbv2Error:
                # One that began too early says nothing about the one we need.
                if self._began >= moment:
                    raise
        return self._latest

    async def close(self) -> None:
        """Give up on a poll that is under way."""
        if self._poll is not None:
            await end_tasks([self._poll])

    async def _polled(self) -> Reading:
        """Poll once, not too soon after the last time."""
        rest = self._began + self.spacing.total_seconds() - self.clock.monotonic()
        if self._began and rest > 0:
            await self.clock.sleep(timedelta(seconds=rest))
        self._began = self.clock.monotonic()
        try:
            reading = Reading(self._began, await self.read())
        except Elbv2Error:
            self.failed = self._began
            raise
        self._latest = reading
        return reading
