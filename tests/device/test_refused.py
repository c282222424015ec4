"""A login that was refused, and what is made of it for a minute."""

import asyncio
import traceback

import pytest

from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from webhooks.device.errors import DeviceError
from webhooks.device.refused import PAUSE, RefusedLogin
from webhooks.device.secrets import Login


OLD, NEW = Login("lbcf", "old"), Login("lbcf", "new")


def test_it_is_refused_for_a_minute_and_another_one_is_not() -> None:
    """Some devices lock users out who try again and again."""

    async def play() -> None:
        refused = RefusedLogin(VirtualClock())
        refused.check(OLD)
        refused.note(OLD, DeviceError("wrong password"))
        refused.check(NEW)
        with pytest.raises(DeviceError, match="wrong password"):
            refused.check(OLD)
        await asyncio.sleep(PAUSE.total_seconds())
        refused.check(OLD)

    run_virtual(play())


def test_trace_of_the_error_does_not_grow() -> None:
    """Thousands of calls may raise the same one within the minute."""

    async def play() -> set[int]:
        refused = RefusedLogin(VirtualClock())
        refused.note(OLD, DeviceError("wrong password"))
        lengths = set[int]()
        for _ in range(5):
            with pytest.raises(DeviceError) as caught:
                refused.check(OLD)
            lengths.add(len(traceback.extract_tb(caught.value.__traceback__)))
        return lengths

    assert 1 == len(run_virtual(play()))
