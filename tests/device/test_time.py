"""Time limits, retries of busy devices and saving: in virtual time."""

from collections.abc import Iterator
from datetime import timedelta

import attrs
import pytest

from lbcf.sdk import Fail, Refusal, RetryAfter
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from webhooks.device.attempts import BUSY_PAUSE, PATIENCE, attempt
from webhooks.device.errors import Busy, InvalidInput, Refused, Uncertain
from webhooks.device.retries import TRIES, until_free
from webhooks.device.saving import Saver


SECOND = timedelta(seconds=1)


@attrs.define(eq=False)
class Disk:
    """Takes configurations; each takes a second to write.

    Attributes:
        clock: of the test.
        failures: how many saves fail from now on.
        begun: the moments at which saves began, in seconds.
        ended: how many were written.
    """

    clock: VirtualClock
    failures: int = 0
    begun: list[float] = attrs.field(factory=list)
    ended: int = 0

    async def save(self) -> None:
        """Write one."""
        self.begun.append(self.clock.monotonic())
        await self.clock.sleep(SECOND)
        if self.failures:
            self.failures -= 1
            raise Busy("the disk is busy")
        self.ended += 1


def a_saver(disk: Disk) -> Saver:
    """Return one with the usual period of ten seconds."""
    return Saver("f5", disk.save, disk.clock)


class TestAttempts:
    """What becomes of errors and of time."""

    @pytest.mark.parametrize(
        ("error", "kind", "delay"),
        [
            (Busy("busy"), RetryAfter, BUSY_PAUSE),
            (Busy("full", timedelta(minutes=1)), RetryAfter, timedelta(minutes=1)),
            (Uncertain("sent"), RetryAfter, SECOND),
            (Refused("no", 400), Fail, None),
            (InvalidInput("wrong"), Fail, None),
        ],
    )
    def test_errors_become_words_of_the_sdk(
        self, error: Exception, kind: type[Refusal], delay: timedelta | None
    ) -> None:
        """What comes right by asking again is Running, the rest is Fail."""

        async def tried() -> None:
            async with attempt(VirtualClock()):
                raise error

        with pytest.raises(kind, match=str(error)) as refusal:
            run_virtual(tried())

        assert delay == refusal.value.retry_after

    @pytest.mark.parametrize("ahead", [None, 2 * SECOND, timedelta(minutes=1)])
    def test_an_operation_ends_in_time(self, ahead: timedelta | None) -> None:
        """It is over when its caller gives up, and never after the driver's patience."""
        clock = VirtualClock()

        async def tried() -> float:
            limit = None if ahead is None else clock.now() + ahead
            with pytest.raises(RetryAfter, match="too slow"):
                async with attempt(clock, limit):
                    await clock.sleep(timedelta(hours=1))
            return clock.monotonic()

        expected = PATIENCE if ahead is None else min(ahead, PATIENCE)
        assert expected.total_seconds() == run_virtual(tried())

    def test_nothing_is_begun_too_late(self) -> None:
        """A call whose time is as good as over is sent back."""
        clock = VirtualClock()
        begun = []

        async def tried() -> None:
            async with attempt(clock, clock.now() + timedelta(milliseconds=50)):
                begun.append(1)

        with pytest.raises(RetryAfter, match="notAfter"):
            run_virtual(tried())
        assert [] == begun


class TestRetries:
    """Asking a busy device again."""

    @pytest.mark.parametrize(("busy", "asked"), [(0, 1), (2, 3), (99, TRIES)])
    def test_it_is_asked_a_few_times(self, busy: int, asked: int) -> None:
        """A device that is busy for a moment is waited for; one that stays so is not."""
        clock = VirtualClock()
        seen = []

        async def ask() -> str:
            seen.append(clock.monotonic())
            if len(seen) <= busy:
                raise Busy("busy")
            return "done"

        if busy < TRIES:
            assert "done" == run_virtual(until_free(clock, ask))
        else:
            with pytest.raises(Busy):
                run_virtual(until_free(clock, ask))
        assert [0, 0.25, 0.75, 1.75][:asked] == seen

    def test_any_callable_will_do(self) -> None:
        """What returns something to await is as good as what is defined with async."""
        answers: Iterator[Busy | str] = iter([Busy("busy"), "done"])

        async def ask(_question: str) -> str:
            answer = next(answers)
            if isinstance(answer, Busy):
                raise answer
            return answer

        assert "done" == run_virtual(until_free(VirtualClock(), lambda: ask("?")))

    def test_other_errors_are_told_at_once(self) -> None:
        """Only what says that it is busy is asked again."""
        seen = []

        async def ask() -> None:
            seen.append(1)
            raise Refused("no")

        with pytest.raises(Refused):
            run_virtual(until_free(VirtualClock(), ask))
        assert [1] == seen


class TestSaving:
    """Configurations on disk."""

    def test_a_rollout_is_saved_rarely(self) -> None:
        """At most once per period, and once after the last change."""

        async def rollout() -> Disk:
            clock = VirtualClock()
            disk = Disk(clock)
            saver = a_saver(disk)
            for number in range(1, 26):
                assert number == saver.note_change()
                await clock.sleep(SECOND)
            await clock.sleep(timedelta(minutes=5))
            assert 25 == saver.saved
            return disk

        assert [10, 21, 32] == run_virtual(rollout()).begun

    def test_what_changes_during_a_save_is_saved_again(self) -> None:
        """The save that was under way may not have had it."""

        async def changes() -> Disk:
            clock = VirtualClock()
            disk = Disk(clock)
            saver = a_saver(disk)
            saver.note_change()
            await clock.sleep(timedelta(seconds=10.5))
            saver.note_change()
            await clock.sleep(SECOND)
            assert (1, True) == (saver.saved, saver.is_due)
            await clock.sleep(timedelta(minutes=1))
            assert (2, False) == (saver.saved, saver.is_due)
            return disk

        assert [10, 21] == run_virtual(changes()).begun

    def test_a_failed_save_is_made_again(self) -> None:
        """It says why, and tries again after the period."""

        async def fails() -> Disk:
            clock = VirtualClock()
            disk = Disk(clock, failures=1)
            saver = a_saver(disk)
            saver.note_change()
            await clock.sleep(timedelta(seconds=12))
            assert "the disk is busy" == saver.trouble
            await clock.sleep(timedelta(seconds=12))
            assert ("", 1) == (saver.trouble, saver.saved)
            return disk

        assert [10, 21] == run_virtual(fails()).begun

    @pytest.mark.parametrize("waited", [0, 10.5, 60])
    def test_the_last_change_is_saved_at_the_end(self, waited: float) -> None:
        """Before, within and after a save: nothing is left when the driver ends."""

        async def ends() -> Disk:
            clock = VirtualClock()
            disk = Disk(clock)
            saver = a_saver(disk)
            saver.note_change()
            await clock.sleep(timedelta(seconds=waited))
            await saver.close()
            assert not saver.is_due
            return disk

        assert 1 == run_virtual(ends()).ended

    def test_the_end_does_not_wait_for_ever(self) -> None:
        """A device that cannot save keeps no driver from ending."""

        async def ends() -> float:
            clock = VirtualClock()
            saver = a_saver(Disk(clock, failures=99))
            saver.note_change()
            await saver.close()
            assert saver.is_due
            return clock.monotonic()

        assert 1 == run_virtual(ends())
