"""Has a device write its configuration to disk: not at each change, but after the last.

Changes are live at once and lost at a reboot until they are saved; saving takes seconds.
So each device has one of these: a client tells it of each change, and it saves at most
once per period, in the background.
"""

import asyncio
import contextlib

from collections.abc import Awaitable, Callable
from datetime import timedelta

import attrs
import structlog

from lbcf.sdk import Clock
from webhooks.device.errors import DeviceError


PERIOD = timedelta(seconds=10)
LAST = timedelta(seconds=10)
"""How long the last save, at the driver's end, may take."""

_log = structlog.get_logger(__name__)


@attrs.define(eq=False)
class Saver:
    """Saves one device.

    Attributes:
        name: of the device, for the log.
        save: does it once; raises `DeviceError` where it fails.
        clock: for the period.
        period: between two saves at least.
        trouble: why the last save failed; empty where it did not.
    """

    name: str
    save: Callable[[], Awaitable[None]]
    clock: Clock
    period: timedelta = PERIOD
    trouble: str = attrs.field(default="", init=False)
    _changed: int = attrs.field(default=0, init=False)
    _saved: int = attrs.field(default=0, init=False)
    _work: asyncio.Task[None] | None = attrs.field(default=None, init=False)

    @property
    def saved(self) -> int:
        """The last change that is on disk, with all before it; 0: none was made."""
        return self._saved

    @property
    def is_due(self) -> bool:
        """Whether a change is not on disk yet."""
        return self._saved < self._changed

    def note_change(self) -> int:
        """Have a change saved, soon; return its number, one above that of the last.

        Call it before the change is sent, too, where its answer could get lost: a save
        too many harms nobody.
        """
        self._changed += 1
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(
                self._keep_saving(), name=f"save {self.name}"
            )
        return self._changed

    async def close(self) -> None:
        """Save what is not saved, without waiting for the period; then end."""
        if self._work is not None:
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work
        if not self.is_due:
            return
        try:
            async with asyncio.timeout(LAST.total_seconds()):
                await self._save_once()
        except TimeoutError:
            self.trouble = f"not finished within {LAST.total_seconds():g} s"
        if self.is_due:
            _log.error("device.unsaved", device=self.name, reason=self.trouble)

    async def _keep_saving(self) -> None:
        """Save until nothing is left to be saved, with pauses between."""
        while self.is_due:
            # First the pause: what a rollout changes within it is saved as one.
            await self.clock.sleep(self.period)
            await self._save_once()

    async def _save_once(self) -> None:
        """Save; what is changed meanwhile counts as not saved."""
        upto = self._changed
        try:
            await self.save()
        except DeviceError as error:
            self.trouble = str(error)
            _log.warning("device.save_failed", device=self.name, reason=str(error))
            return
        self._saved = max(self._saved, upto)
        self.trouble = ""
