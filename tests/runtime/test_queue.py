"""The work queue: merging, order, urgency, delays, one worker a key, closing."""

import asyncio

from datetime import timedelta

import pytest

from lbcf.runtime.metrics import Metrics
from lbcf.runtime.queue import URGENT_IN_A_ROW, QueueClosed, WorkQueue
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual


Queue = WorkQueue[str]


def seconds(number: float) -> timedelta:
    """Write a length short."""
    return timedelta(seconds=number)


def a_queue() -> Queue:
    """Make an empty queue in virtual time."""
    return WorkQueue("test", VirtualClock())


async def taken(queue: Queue) -> list[str]:
    """Take and finish all keys that are due, in their order."""
    keys = []
    while len(queue):
        keys.append(await queue.get())
        queue.done(keys[-1])
    return keys


class TestMerging:
    """Any number of adds before a take are one."""

    async def test_keys_come_in_the_order_of_their_first_add(self) -> None:
        """A second add neither doubles a key nor moves it back."""
        queue = a_queue()
        for key in "abab":
            queue.add(key)

        assert ["a", "b"] == await taken(queue)

    async def test_key_in_work_comes_again_after_done_only(self) -> None:
        """An add during the work is kept until the worker is through."""
        queue = a_queue()
        queue.add("a")
        await queue.get()
        queue.add("a")
        during = len(queue)
        queue.done("a")

        assert (0, 1) == (during, len(queue))

    async def test_key_done_without_an_add_is_gone(self) -> None:
        """Work that nobody disturbed leaves nothing behind."""
        queue = a_queue()
        queue.add("a")
        queue.done(await queue.get())

        assert (0, 0, 0, True) == (
            len(queue),
            queue.in_work,
            queue.delayed,
            queue.idle,
        )

    async def test_done_of_a_key_not_taken_is_refused(self) -> None:
        """To finish what was not begun is a defect of the caller, and is told."""
        queue = a_queue()
        queue.add("a")

        with pytest.raises(KeyError):
            queue.done("a")


class TestUrgency:
    """The urgent lane goes first, but not for ever."""

    async def test_urgent_keys_go_first(self) -> None:
        """An urgent key overtakes those that wait."""
        queue = a_queue()
        queue.add("a")
        queue.add("b", urgent=True)

        assert ["b", "a"] == await taken(queue)

    async def test_waiting_key_becomes_urgent(self) -> None:
        """A second, urgent add lets a waiting key overtake, and does not double it."""
        queue = a_queue()
        queue.add("a")
        queue.add("b")
        queue.add("b", urgent=True)

        assert ["b", "a"] == await taken(queue)

    async def test_urgent_key_stays_urgent(self) -> None:
        """A later plain add takes nothing away."""
        queue = a_queue()
        queue.add("a")
        queue.add("b", urgent=True)
        queue.add("b")

        assert ["b", "a"] == await taken(queue)

    async def test_urgency_is_kept_while_in_work(self) -> None:
        """An urgent add of a key in work is urgent after done, whatever follows it."""
        queue = a_queue()
        queue.add("a")
        await queue.get()
        queue.add("b")
        queue.add("a", urgent=True)
        queue.add("a")
        queue.done("a")

        assert ["a", "b"] == await taken(queue)

    async def test_others_have_their_turn(self) -> None:
        """After a row of urgent keys one other goes, then urgent ones again."""
        queue = a_queue()
        queue.add("other")
        for number in range(URGENT_IN_A_ROW + 1):
            queue.add(f"urgent-{number}", urgent=True)
        order = await taken(queue)

        assert URGENT_IN_A_ROW == order.index("other")

    async def test_row_counts_only_while_others_wait(self) -> None:
        """A long row that made nobody wait costs the next urgent key nothing."""
        queue = a_queue()
        for number in range(2 * URGENT_IN_A_ROW):
            queue.add(f"urgent-{number}", urgent=True)
        await taken(queue)
        queue.add("other")
        queue.add("urgent", urgent=True)

        assert ["urgent", "other"] == await taken(queue)


class TestDelays:
    """Keys for later."""

    @staticmethod
    async def moment_of(queue: Queue, clock: VirtualClock) -> float:
        """Wait for the next key; return when it came."""
        queue.done(await queue.get())
        return clock.monotonic()

    @pytest.mark.parametrize(
        ("delays", "expected"),
        [
            pytest.param([5], 5, id="one"),
            pytest.param([5, 9], 5, id="later does not postpone"),
            pytest.param([9, 5], 5, id="earlier wins"),
            pytest.param([9, 5, 7, 3, 8], 3, id="earliest of many"),
            pytest.param([9, 0], 0, id="no delay is now"),
            pytest.param([9, -1], 0, id="past is now"),
        ],
    )
    def test_earliest_moment_wins(self, delays: list[int], expected: int) -> None:
        """Of all the moments asked for, the key comes at the first, and only then."""
        clock = VirtualClock()
        queue: Queue = WorkQueue("test", clock)

        async def body() -> tuple[float, int]:
            """Add, wait; what is left afterwards would come a second time."""
            for delay in delays:
                queue.add_after("a", seconds(delay))
            return await self.moment_of(queue, clock), queue.delayed

        assert (expected, 0) == run_virtual(body())

    def test_moment_given_up_is_not_taken_up_again(self) -> None:
        """A later wait of the same key is not ended by a moment of an earlier one."""
        clock = VirtualClock()
        queue: Queue = WorkQueue("test", clock)

        async def body() -> list[float]:
            """Move from 9 s to 5 s; ask for 20 s more; another key is due between."""
            queue.add_after("a", seconds(9))
            queue.add_after("a", seconds(5))
            queue.add_after("b", seconds(8))
            first = await self.moment_of(queue, clock)
            queue.add_after("a", seconds(20))
            return [first, *[await self.moment_of(queue, clock) for _ in range(2)]]

        assert [5, 8, 25] == run_virtual(body())

    def test_add_for_now_forgets_the_later_moment(self) -> None:
        """A key that comes now does not come again for the old reason."""
        clock = VirtualClock()
        queue: Queue = WorkQueue("test", clock)

        async def body() -> tuple[float, int]:
            """Add for later, then for now."""
            queue.add_after("a", seconds(5))
            queue.add("a")
            return await self.moment_of(queue, clock), queue.delayed

        assert (0, 0) == run_virtual(body())

    def test_key_that_is_due_is_not_delayed(self) -> None:
        """For later means nothing to a key that is given out anyway."""
        queue = a_queue()

        async def body() -> None:
            """Delay a key that is due, and one that is to come again after done."""
            queue.add("a")
            queue.add_after("a", seconds(5))
            queue.add("b")
            await queue.get()
            queue.add("a")
            queue.add_after("a", seconds(5))

        run_virtual(body())

        assert 0 == queue.delayed

    def test_key_in_work_is_delayed_from_now(self) -> None:
        """What a worker asks for before `done` holds."""
        clock = VirtualClock()
        queue: Queue = WorkQueue("test", clock)

        async def body() -> float:
            """Ask for later while in work."""
            queue.add("a")
            queue.add_after(await queue.get(), seconds(5))
            queue.add_after("a", seconds(5))
            queue.done("a")
            return await self.moment_of(queue, clock)

        assert 5 == run_virtual(body())

    def test_moment_that_comes_during_work_waits_for_done(self) -> None:
        """A delay that ends while the key is in work breaks no exclusion."""
        clock = VirtualClock()
        queue: Queue = WorkQueue("test", clock)

        async def body() -> tuple[int, int]:
            """Work for longer than the delay."""
            queue.add("a")
            await queue.get()
            queue.add_after("a", seconds(5))
            await clock.sleep(seconds(9))
            during = len(queue)
            queue.done("a")
            return during, len(queue)

        assert (0, 1) == run_virtual(body())

    def test_delayed_urgency_is_kept(self) -> None:
        """A key delayed as urgent is urgent when it comes, also when it comes early."""
        queue = a_queue()

        async def body() -> list[str]:
            """Delay two keys, one made earlier, one cut short by an add for now."""
            queue.add("plain")
            queue.add_after("a", seconds(9), urgent=True)
            queue.add_after("a", seconds(5))
            queue.add_after("b", seconds(9), urgent=True)
            queue.add("b")
            queue.add_after("c", seconds(5))
            queue.add_after("c", seconds(6), urgent=True)
            await asyncio.sleep(5)
            return await taken(queue)

        assert ["b", "a", "c", "plain"] == run_virtual(body())

    def test_many_keys_need_one_timer(self) -> None:
        """Fifty thousand delayed keys put one entry into the loop's timers at most."""
        queue: WorkQueue[int] = WorkQueue("test", VirtualClock())

        async def body() -> tuple[int, int]:
            """Delay many keys to falling moments, each of which winds the timer."""
            loop = asyncio.get_running_loop()
            for key in range(50_000):
                queue.add_after(key, seconds(100_000 - key))
            scheduled = loop._scheduled  # type: ignore[attr-defined]  # noqa: SLF001
            live = [timer for timer in scheduled if not timer.cancelled()]
            return len(live), queue.delayed

        assert (1, 50_000) == run_virtual(body())

    def test_later_moments_leave_the_timer_alone(self) -> None:
        """A key that comes after the first one winds nothing: storms are cheap."""
        queue: WorkQueue[int] = WorkQueue("test", VirtualClock())

        async def body() -> int:
            """Delay keys to rising moments; count timers, the cancelled ones too."""
            loop = asyncio.get_running_loop()
            for key in range(50):
                queue.add_after(key, seconds(1 + key))
            return len(loop._scheduled)  # type: ignore[attr-defined]  # noqa: SLF001

        assert 1 == run_virtual(body())

    async def test_no_delay_is_due_before_the_loop_turns(self) -> None:
        """A delay of zero is an add, at once."""
        queue = a_queue()
        queue.add_after("a", seconds(0))

        assert 1 == len(queue)

    def test_moved_keys_leave_no_pile(self) -> None:
        """A key that is delayed and added again and again costs no memory."""
        queue = a_queue()

        async def body() -> int:
            """Delay and recall one key very often."""
            for _ in range(10_000):
                queue.add_after("a", seconds(500))
                queue.add("a")
                queue.done(await queue.get())
            return len(queue._delays._heap)  # noqa: SLF001

        assert 100 > run_virtual(body())


class TestTakers:
    """Workers that wait, and those that are cancelled while they wait."""

    async def test_waiting_taker_gets_the_key(self) -> None:
        """A key added later reaches who waits already."""
        queue = a_queue()
        taker = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")

        assert "a" == await taker

    async def test_each_key_wakes_another_taker(self) -> None:
        """Keys added together are worked on side by side."""
        queue = a_queue()
        takers = [asyncio.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(0)
        for key in "abc":
            queue.add(key)

        assert ["a", "b", "c"] == await asyncio.gather(*takers)

    async def test_taker_cancelled_after_it_was_woken_passes_the_key_on(self) -> None:
        """A key is not left lying because the one it woke was cancelled first."""
        queue = a_queue()
        first, second = (asyncio.create_task(queue.get()) for _ in range(2))
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()

        assert "a" == await asyncio.wait_for(second, 5)
        assert first.cancelled()

    async def test_taker_cancelled_before_an_add_takes_nothing(self) -> None:
        """An add right after a cancellation goes to somebody who still waits."""
        queue = a_queue()
        first, second = (asyncio.create_task(queue.get()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        queue.add("a")

        assert "a" == await asyncio.wait_for(second, 5)
        with pytest.raises(asyncio.CancelledError):
            await first

    async def test_cancelled_taker_is_forgotten(self) -> None:
        """Takers that give up leave nothing behind."""
        queue = a_queue()
        taker = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        taker.cancel()
        await asyncio.wait([taker])

        assert not queue._takers  # noqa: SLF001


class TestClosing:
    """After shutdown."""

    async def test_get_is_refused_even_with_keys_left(self) -> None:
        """No key is given out any more."""
        queue = a_queue()
        queue.add("a")
        queue.shutdown()

        with pytest.raises(QueueClosed, match="queue test gives out no more keys"):
            await queue.get()

    async def test_all_who_wait_are_told(self) -> None:
        """Every waiting taker ends."""
        queue = a_queue()
        takers = [asyncio.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(0)
        queue.shutdown()
        ends = await asyncio.gather(*takers, return_exceptions=True)

        assert [QueueClosed] * 3 == [type(end) for end in ends]

    async def test_key_in_work_may_be_done(self) -> None:
        """A worker that was under way finishes as usual."""
        queue = a_queue()
        queue.add("a")
        key = await queue.get()
        queue.shutdown()
        queue.add_after(key, seconds(1))
        queue.add("b")
        queue.done(key)

        assert (0, 0, 0) == (len(queue), queue.in_work, queue.delayed)


def test_metrics_follow_the_queue() -> None:
    """Each series of the queue says what happened, under the queue's name."""
    clock, metrics = VirtualClock(), Metrics()
    queue: Queue = WorkQueue("records", clock, metrics)

    async def body() -> dict[str, float]:
        """Three adds of two keys; `a` waits 2 s and is in work since 3 s, `b` 5 s."""
        queue.add("a")
        queue.add("a")
        queue.add_after("b", seconds(2))
        await clock.sleep(seconds(2))
        await queue.get()
        await clock.sleep(seconds(3))
        queue.add("a")
        queue.done("a")
        await queue.get()
        await clock.sleep(seconds(4))
        return {
            name: metrics.registry.get_sample_value(name, {"name": "records"}) or 0
            for name in (
                "workqueue_depth",
                "workqueue_adds_total",
                "workqueue_retries_total",
                "workqueue_queue_duration_seconds_sum",
                "workqueue_work_duration_seconds_sum",
                "workqueue_unfinished_work_seconds",
                "workqueue_longest_running_processor_seconds",
            )
        }

    assert [1, 3, 1, 5, 3, 4, 4] == list(run_virtual(body()).values())
