"""Workers: what follows each result, backoff, crashes, the orderly stop."""

import asyncio

from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta

import attrs
import pytest
import structlog

from lbcf.core.errors import LbcfError
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, Failed, Parked, RequeueAfter, Result, Workers
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual


GRACE = timedelta(seconds=10)
LONG = timedelta(hours=1)


class UnspreadClock(VirtualClock):
    """A virtual clock that adds no chance, so that waits can be told exactly."""

    def jitter(self) -> float:
        """Return the least chance there is."""
        return 0.0


@attrs.define
class Scene:
    """A queue with workers whose answers a test gives, and what they saw.

    Attributes:
        answers: what reconcile gives for each call in turn, then Done; a function is
            awaited, an exception raised.
        count: number of workers.
        calls: (seconds, key) of each call.
    """

    answers: Iterator[Result | Exception | Callable[[], Awaitable[Result]]] = (
        attrs.field(factory=lambda: iter(()))
    )
    count: int = 1
    calls: list[tuple[float, str]] = attrs.Factory(list)
    clock: VirtualClock = attrs.Factory(UnspreadClock)
    queue: WorkQueue[str] = attrs.field(init=False)
    workers: Workers[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.queue = WorkQueue("test", self.clock)
        self.workers = Workers(self.queue, self.reconcile, self.count, self.clock)

    async def reconcile(self, key: str) -> Result:
        """Note the call and give the next answer."""
        self.calls.append((self.clock.monotonic(), key))
        match next(self.answers, Done()):
            case Exception() as error:
                raise error
            case Done() | RequeueAfter() | Parked() | Failed() as result:
                return result
            case answer:
                return await answer()

    async def run_for(self, delay: timedelta, *keys: str) -> None:
        """Add keys, work for a while, stop."""
        self.workers.start()
        for key in keys:
            self.queue.add(key)
        await self.clock.sleep(delay)
        await self.workers.stop(GRACE)

    async def bring_again_at(self, seconds: float) -> None:
        """Add `a` at the start, and once more then; work for minutes, stop."""
        self.workers.start()
        self.queue.add("a")
        await self.clock.sleep(timedelta(seconds=seconds))
        self.queue.add("a")
        await self.clock.sleep(timedelta(minutes=5))
        await self.workers.stop(GRACE)

    @property
    def moments(self) -> list[float]:
        """The seconds at which reconcile was called."""
        return [moment for moment, _ in self.calls]


def failure() -> Failed:
    """Give a failure that asks for nothing."""
    return Failed(OSError("refused"))


class TestResults:
    """What follows each answer of reconcile."""

    def test_done_is_not_called_again(self) -> None:
        """A key that is as it should be rests."""
        scene = Scene()
        run_virtual(scene.run_for(LONG, "a"))

        assert [(0, "a")] == scene.calls

    def test_requeue_after_comes_again_after_the_delay(self) -> None:
        """Each wish to come again is kept to the second."""
        scene = Scene(iter([RequeueAfter(timedelta(seconds=n)) for n in (3, 30)]))
        run_virtual(scene.run_for(LONG, "a"))

        assert [0, 3, 33] == scene.moments

    def test_failures_back_off_up_to_the_cap(self) -> None:
        """The waits of a key that fails on and on double, then stay."""
        scene = Scene(iter([failure() for _ in range(8)]))
        run_virtual(scene.run_for(LONG, "a"))

        assert [0, 1, 3, 7, 15, 31, 63, 123, 183] == scene.moments

    @pytest.mark.parametrize(
        "success",
        [pytest.param(Done(), id="done"), pytest.param(RequeueAfter(LONG), id="later")],
    )
    def test_success_ends_the_row_of_failures(self, success: Result) -> None:
        """After a success the next failure waits as long as a first one."""
        scene = Scene(iter([failure(), failure(), success, failure()]))

        run_virtual(scene.bring_again_at(10))

        assert [0, 1, 3, 10, 11] == scene.moments

    def test_parked_key_keeps_its_row_of_failures(self) -> None:
        """It comes back when it said, or when it is brought, and its waits grow on."""
        parked = [Parked(timedelta(seconds=2)), Parked()]
        scene = Scene(iter([failure(), failure(), *parked, failure()]))

        run_virtual(scene.bring_again_at(10))

        assert [0, 1, 3, 5, 10, 14] == scene.moments

    def test_limits_of_the_backoff_can_be_set(self) -> None:
        """Base and cap are those that the workers were given."""
        scene = Scene(iter([failure() for _ in range(4)]))
        scene.workers = Workers(
            scene.queue,
            scene.reconcile,
            1,
            scene.clock,
            base=timedelta(seconds=4),
            cap=timedelta(seconds=20),
        )
        run_virtual(scene.run_for(LONG, "a"))

        assert [0, 4, 12, 22, 32] == scene.moments

    def test_keys_back_off_apart(self) -> None:
        """The failures of one key make no other wait longer."""
        scene = Scene(iter([failure(), failure(), failure()]))
        run_virtual(scene.run_for(LONG, "a", "b"))

        assert [(0, "a"), (0, "b"), (1, "a"), (1, "b"), (3, "a")] == scene.calls

    def test_longer_wish_is_kept(self) -> None:
        """A wait that the other side asked for is not undercut."""
        scene = Scene(iter([Failed(OSError(), at_least=timedelta(minutes=9))]))
        run_virtual(scene.run_for(LONG, "a"))

        assert [0, 540] == scene.moments

    def test_change_ends_the_backoff(self) -> None:
        """A key that changed is looked at now, not when its wait is over."""
        scene = Scene(iter([failure() for _ in range(6)]))

        async def body() -> None:
            """Fail until the wait is long, then change the key."""
            scene.workers.start()
            scene.queue.add("a")
            await scene.clock.sleep(timedelta(seconds=32))
            scene.queue.add("a")
            await scene.clock.sleep(timedelta(seconds=1))

        run_virtual(body())

        assert [0, 1, 3, 7, 15, 31, 32] == scene.moments

    def test_failure_is_told_once_with_key_and_wait(self) -> None:
        """The log says which key failed, why, how often, and when it comes again."""
        scene = Scene(iter([failure()]))
        with structlog.testing.capture_logs(
            [structlog.contextvars.merge_contextvars]
        ) as events:
            run_virtual(scene.run_for(LONG, "a"))

        assert [("reconcile.failed", "test", "a", 1, "OSError('refused')")] == [
            (one["event"], one["queue"], one["key"], one["attempt"], repr(one["error"]))
            for one in events
        ]


class TestCrashes:
    """Exceptions that nobody foresaw."""

    def test_exception_is_retried_like_a_failure(self) -> None:
        """A reconcile that raises is called again with backoff."""
        scene = Scene(iter([ValueError("odd"), ValueError("odd")]))
        run_virtual(scene.run_for(LONG, "a"))

        assert [0, 1, 3] == scene.moments

    def test_exception_is_logged_with_its_key(self) -> None:
        """The traceback is told with the key that caused it."""
        error = ValueError("odd")
        scene = Scene(iter([error]))
        with structlog.testing.capture_logs(
            [structlog.contextvars.merge_contextvars]
        ) as events:
            run_virtual(scene.run_for(LONG, "a"))

        assert ("reconcile.crashed", "a", error) == (
            events[0]["event"],
            events[0]["key"],
            events[0]["exc_info"],
        )

    def test_foreseen_error_is_told_in_one_line(self) -> None:
        """No traceback: an API server that is away would cost one for each record."""
        error = LbcfError("PATCH /x: no answer")
        scene = Scene(iter([error]))
        with structlog.testing.capture_logs() as events:
            run_virtual(scene.run_for(LONG, "a"))

        assert [("reconcile.failed", error)] == [
            (event["event"], event["error"]) for event in events
        ]

    def test_foreseen_error_says_when_to_come_again(self) -> None:
        """A server that asks for a longer pause gets it."""
        error = LbcfError("PATCH /x: too many requests")
        error.retry_after = timedelta(seconds=20)
        scene = Scene(iter([error]))
        run_virtual(scene.run_for(LONG, "a"))

        assert [0, 20] == scene.moments

    def test_cancelled_call_does_not_end_the_worker(self) -> None:
        """When something that reconcile awaits is cancelled, the worker goes on."""

        async def await_cancelled() -> Result:
            """Await a future that somebody cancelled."""
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            return await future  # type: ignore[no-any-return]

        scene = Scene(iter([await_cancelled]))
        run_virtual(scene.run_for(LONG, "a", "b"))

        assert [(0, "a"), (0, "b"), (1, "a")] == scene.calls


class TestSideBySide:
    """Several workers on one queue."""

    @staticmethod
    async def slow() -> Result:
        """Work for ten seconds."""
        await asyncio.sleep(10)
        return Done()

    def test_count_keys_are_in_work_together(self) -> None:
        """As many keys as there are workers, and no more, are worked on at a time."""
        scene = Scene(iter([self.slow] * 5), count=2)
        run_virtual(scene.run_for(LONG, *"abcde"))

        assert [0, 0, 10, 10, 20] == scene.moments

    def test_one_key_is_never_in_two_hands(self) -> None:
        """A key added while in work waits for its worker, though others are free."""
        scene = Scene(iter([self.slow] * 2), count=2)

        async def body() -> None:
            """Add the key again while it is in work."""
            scene.workers.start()
            scene.queue.add("a")
            await scene.clock.sleep(timedelta(seconds=1))
            scene.queue.add("a")
            await scene.clock.sleep(LONG)

        run_virtual(body())

        assert [0, 10] == scene.moments


@attrs.define
class Slow:
    """A reconcile that takes its time, and notes how each key ended."""

    seconds: float
    ended: list[str] = attrs.Factory(list)

    async def reconcile(self, key: str) -> Result:
        """Work; note whether it was finished or cut."""
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.ended.append(f"{key} cut")
            raise
        self.ended.append(f"{key} finished")
        return Done()


class TestStop:
    """The orderly end."""

    @staticmethod
    def stopped(slow: Slow, after: float) -> tuple[float, tuple[str, ...]]:
        """Start two workers on a, b, c; stop; return the seconds it took, and cuts."""
        clock = VirtualClock()
        queue: WorkQueue[str] = WorkQueue("test", clock)

        async def body() -> tuple[float, tuple[str, ...]]:
            """Work a while, then stop."""
            workers = Workers(queue, slow.reconcile, 2, clock)
            workers.start()
            for key in "abc":
                queue.add(key)
            await asyncio.sleep(after)
            cut = await workers.stop(GRACE)
            await workers.wait()
            return clock.monotonic() - after, cut

        return run_virtual(body())

    def test_keys_in_work_are_finished(self) -> None:
        """Stop waits for what was begun, and begins nothing more."""
        slow = Slow(8)

        assert (7, ()) == self.stopped(slow, after=1)
        assert ["a finished", "b finished"] == slow.ended

    def test_waiting_workers_end_at_once(self) -> None:
        """Without keys in work there is nothing to wait for."""
        slow = Slow(1)

        assert (0, ()) == self.stopped(slow, after=5)
        assert 3 == len(slow.ended)

    def test_work_past_the_grace_is_cut_and_named(self) -> None:
        """What is not finished in time is cancelled, and told by key."""
        slow = Slow(100)
        clock = VirtualClock()
        queue: WorkQueue[str] = WorkQueue("test", clock)

        async def body() -> tuple[float, tuple[str, ...], int]:
            """Stop in the midst of the work."""
            workers = Workers(queue, slow.reconcile, 2, clock)
            workers.start()
            queue.add("a")
            await asyncio.sleep(1)
            cut = await workers.stop(GRACE)
            return clock.monotonic(), cut, queue.in_work

        assert (11, ("a",), 0) == run_virtual(body())
        assert ["a cut"] == slow.ended

    def test_no_grace_cuts_at_once(self) -> None:
        """A grace of zero cancels what is in work, and ends those who wait."""

        async def body() -> tuple[float, tuple[str, ...]]:
            """One worker has a key, the others wait."""
            workers = Workers(queue, slow.reconcile, 3, clock)
            workers.start()
            queue.add("a")
            await asyncio.sleep(1)
            return clock.monotonic(), await workers.stop(timedelta(0))

        slow = Slow(100)
        clock = VirtualClock()
        queue: WorkQueue[str] = WorkQueue("test", clock)

        assert (1, ("a",)) == run_virtual(body())

    def test_stop_before_the_first_turn_takes_nothing(self) -> None:
        """Workers that were started and stopped in one breath take no key."""
        scene = Scene(count=3)

        async def body() -> tuple[str, ...]:
            """Let nothing run between the two."""
            scene.queue.add("a")
            scene.workers.start()
            cut = await scene.workers.stop(timedelta(0))
            await scene.workers.wait()
            return cut

        assert ((), []) == (run_virtual(body()), scene.calls)

    def test_cancelled_stop_cuts_the_work(self) -> None:
        """Who cannot wait for the grace cancels the stop, and no task is left over."""
        slow = Slow(100)
        clock = VirtualClock()
        queue: WorkQueue[str] = WorkQueue("test", clock)

        async def body() -> float:
            """Cancel the stop after two seconds."""
            workers = Workers(queue, slow.reconcile, 1, clock)
            workers.start()
            queue.add("a")
            await asyncio.sleep(1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(workers.stop(GRACE), 2)
            with pytest.raises(asyncio.CancelledError):
                await workers.wait()
            return clock.monotonic()

        assert 3 == run_virtual(body())
        assert ["a cut"] == slow.ended

    def test_cancelled_stop_waits_for_what_it_cut(self) -> None:
        """Work that winds up after its end was asked for is not left behind."""
        ended: list[float] = []
        clock = VirtualClock()
        queue: WorkQueue[str] = WorkQueue("test", clock)

        async def wind_up(_key: str) -> Result:
            """Need three seconds to end."""
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(3)
                ended.append(clock.monotonic())
            return Done()

        async def body() -> float:
            """Cancel the stop after two seconds."""
            workers = Workers(queue, wind_up, 1, clock)
            workers.start()
            queue.add("a")
            await asyncio.sleep(1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(workers.stop(GRACE), 2)
            return clock.monotonic()

        assert 6 == run_virtual(body())
        assert [6] == ended

    def test_stop_without_start_does_nothing(self) -> None:
        """Stopping what never ran is fine, and closes the queue."""
        scene = Scene()

        assert () == run_virtual(scene.workers.stop(GRACE))
