"""Lanes: a slow driver parks its own records, and no parked record is ever lost."""

import asyncio

import attrs

from hypothesis import given
from hypothesis import strategies as st

from lbcf.core.values import ObjectKey
from lbcf.runtime.lanes import Lane, Lanes, Place
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.result import Done, Result
from tests.builders import a_key
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual


SLOW, FAST = a_key("slow"), a_key("fast")


@attrs.define
class Bench:
    """Lanes, the queue behind them, and turns that last until the test ends them."""

    bears: int = 1
    queue: WorkQueue[ObjectKey] = attrs.Factory(
        lambda: WorkQueue("records", VirtualClock())
    )
    lanes: Lanes[ObjectKey] = attrs.field(init=False)
    under_way: dict[ObjectKey, asyncio.Future[Result]] = attrs.Factory(dict)
    tasks: dict[ObjectKey, asyncio.Task[Result]] = attrs.Factory(dict)

    def __attrs_post_init__(self) -> None:
        self.lanes = Lanes(self.queue)

    async def come(self, name: str, driver: ObjectKey = SLOW) -> bool:
        """Let a worker try a record; tell whether its turn began."""
        key = a_key(name)

        async def visit() -> Result:
            self.under_way[key] = asyncio.get_running_loop().create_future()
            return await self.under_way[key]

        turn = self.lanes.turn(driver, self.bears, key, visit)
        self.tasks[key] = asyncio.create_task(turn)
        await asyncio.sleep(0)
        return key in self.under_way

    async def end(self, name: str) -> list[str]:
        """End a turn; return what that brought back to the queue."""
        self.under_way.pop(a_key(name)).set_result(Done())
        await self.tasks[a_key(name)]
        return await self.brought_back()

    async def brought_back(self) -> list[str]:
        """Take all that is in the queue."""
        found = []
        while len(self.queue):
            key = await self.queue.get()
            self.queue.done(key)
            found.append(key.name)
        return found


def test_twice_as_many_turns_as_calls_are_let_in() -> None:
    """Half of them may wait for the other half; more would only hold workers."""

    async def main() -> list[bool]:
        bench = Bench(bears=2)
        return [await bench.come(name) for name in "abcde"]

    assert [True, True, True, True, False] == run_virtual(main())


def test_parked_record_leaves_its_worker_at_once() -> None:
    """As if it were done; its key comes back by the queue."""

    async def main() -> Result:
        bench = Bench()
        for name in "abc":
            await bench.come(name)
        return await bench.tasks[a_key("c")]

    assert Done() == run_virtual(main())


def test_busy_driver_leaves_others_alone() -> None:
    """That is what lanes are for."""

    async def main() -> bool:
        bench = Bench()
        for name in "abc":
            await bench.come(name)
        return await bench.come("d", FAST)

    assert run_virtual(main())


def test_one_comes_back_for_one_that_leaves() -> None:
    """In the order of their coming, and once, however often it was asked for."""

    async def main() -> list[list[str]]:
        bench = Bench()
        for name in "abcdcd":
            await bench.come(name)
        return [await bench.end("a"), await bench.end("b")]

    assert [["c"], ["d"]] == run_virtual(main())


def test_all_come_back_after_the_last_turn() -> None:
    """Nobody else would bring them back."""

    async def main() -> list[list[str]]:
        bench = Bench()
        for name in "abcde":
            await bench.come(name)
        return [await bench.end("a"), await bench.end("b")]

    assert [["c"], ["d", "e"]] == run_virtual(main())


def test_turn_that_fails_makes_room_too() -> None:
    """An error, or the end of a worker, must not narrow the lane."""

    async def main() -> list[str]:
        bench = Bench()
        for name in "abc":
            await bench.come(name)
        bench.under_way[a_key("a")].set_exception(RuntimeError("broken"))
        await asyncio.wait([bench.tasks[a_key("a")]])
        assert bench.tasks[a_key("a")].exception()
        return await bench.brought_back()

    assert ["c"] == run_virtual(main())


MOVES = st.lists(
    st.tuples(st.sampled_from(("come", "come", "end")), st.sampled_from("abcdefgh")),
    max_size=40,
)


@given(
    bears=st.integers(1, 2), moves=MOVES, vanishing=st.sets(st.sampled_from("abcdefgh"))
)
def test_no_parked_record_is_lost(
    bears: int, moves: list[tuple[str, str]], vanishing: set[str]
) -> None:
    """Also where records that come back begin no turn: in the end nobody waits."""
    run_virtual(_wander(Bench(bears), moves, vanishing))


async def _wander(
    bench: Bench, moves: list[tuple[str, str]], vanishing: set[str]
) -> None:
    """Let records come and turns end, then end all that is under way."""
    parked: set[str] = set()
    for move, name in moves:
        if move == "come" and a_key(name) not in bench.under_way:
            if not await bench.come(name):
                parked.add(name)
        elif move == "end" and bench.under_way:
            await _end_first(bench, parked, vanishing)
        assert len(bench.under_way) <= 2 * bench.bears
    while bench.under_way:
        await _end_first(bench, parked, vanishing)
    assert not parked


async def _end_first(bench: Bench, parked: set[str], vanishing: set[str]) -> None:
    """End the oldest turn; what comes back begins its own, or has vanished."""
    for name in await bench.end(next(iter(bench.under_way)).name):
        parked.discard(name)
        if name in vanishing or a_key(name) in bench.under_way:
            continue
        if not await bench.come(name):
            parked.add(name)


@attrs.define
class Change:
    """A turn in the lane of `SLOW` that asks for another lane when it is told to."""

    bench: Bench = attrs.Factory(Bench)
    asked: asyncio.Event = attrs.Factory(asyncio.Event)
    over: asyncio.Event = attrs.Factory(asyncio.Event)
    granted: list[bool] = attrs.Factory(list)

    async def visit(self, place: Place) -> Result:
        """Ask twice, which is granted once more and changes nothing."""
        await self.asked.wait()
        self.granted = [place.change_to(Lane(FAST, 1)) for _ in range(2)]
        await self.over.wait()
        return Done()

    async def begin(self) -> asyncio.Task[Result]:
        """Begin the turn, and fill up the lane behind it."""
        lanes = self.bench.lanes
        turn = lanes.turn_from(Lane(SLOW, 1), a_key("a"), self.visit)
        task = asyncio.create_task(turn)
        await asyncio.sleep(0)
        assert [True, False] == [await self.bench.come(name) for name in "bc"]
        return task

    async def end(self, task: asyncio.Task[Result]) -> None:
        """End all turns."""
        self.over.set()
        await task
        for other in self.bench.tasks.values():
            other.cancel()


async def test_turn_may_change_to_another_lane() -> None:
    """The next record comes at once, and the end of the turn frees no second place."""
    change = Change()
    turn = await change.begin()
    change.asked.set()
    await asyncio.sleep(0)
    returned = await change.bench.brought_back()
    begun = [await change.bench.come(name) for name in "cd"]
    await change.end(turn)

    assert [True, True] == change.granted
    assert (["c"], [True, False]) == (returned, begun)
    assert [] == await change.bench.brought_back()


async def test_turn_counts_in_the_lane_that_it_changed_to() -> None:
    """Its end brings back what is parked there."""
    change = Change()
    turn = await change.begin()
    change.asked.set()
    await asyncio.sleep(0)
    await change.bench.brought_back()
    begun = [await change.bench.come(name, FAST) for name in "xy"]
    await change.end(turn)

    assert [True, False] == begun
    assert ["y"] == await change.bench.brought_back()


async def test_turn_stays_where_it_is_if_the_other_lane_is_full() -> None:
    """What is behind it stays parked."""
    change = Change()
    turn = await change.begin()
    for name in "xy":
        await change.bench.come(name, FAST)
    change.asked.set()
    await asyncio.sleep(0)
    returned = await change.bench.brought_back()
    await change.end(turn)

    assert [False, False] == change.granted
    assert [] == returned
    assert ["c"] == await change.bench.brought_back()


async def test_turn_may_go_on_outside_all_lanes() -> None:
    """The next record comes at once; to come back into a lane it needs room there."""
    bench, asked, over = Bench(), asyncio.Event(), asyncio.Event()
    granted: list[bool] = []

    async def visit(place: Place) -> Result:
        """Leave, twice, then try to come back."""
        place.leave()
        place.leave()
        await asked.wait()
        granted.append(place.change_to(Lane(SLOW, 1)))
        await over.wait()
        granted.append(place.change_to(Lane(SLOW, 1)))
        return Done()

    turn = asyncio.create_task(bench.lanes.turn_from(Lane(SLOW, 1), a_key("a"), visit))
    await asyncio.sleep(0)
    begun = [await bench.come(name) for name in "bcd"]
    asked.set()
    await asyncio.sleep(0)
    assert ["d"] == await bench.end("b")
    over.set()
    await turn

    assert [True, True, False] == begun
    assert [False, True] == granted
    for task in bench.tasks.values():
        task.cancel()
