"""Limits of turns: who waits holds no worker, nobody is passed over, none is lost."""

import asyncio

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import attrs
import pytest

from hypothesis import given
from hypothesis import strategies as st

from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import BatchShape, ObjectKey
from lbcf.runtime.limiter import ConcurrencyLimiter, Limit, Shares, Slot
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, Failed, Parked, Result, Workers
from tests.builders import a_driver, a_key
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual


SLOW, FAST = Limit("slow", 2), Limit("fast", 2)


def key_of(name: str) -> ObjectKey:
    """Return a key: `web/a`, or `a` of the usual namespace."""
    namespace, _, own = name.rpartition("/")
    return ObjectKey(namespace, own) if namespace else a_key(own)


@attrs.define
class Bench:
    """A limiter, the queue behind it, and turns that last until the test ends them."""

    queue: WorkQueue[ObjectKey] = attrs.Factory(
        lambda: WorkQueue("records", VirtualClock(), group_of=lambda key: key.namespace)
    )
    limiter: ConcurrencyLimiter[ObjectKey] = attrs.field(init=False)
    under_way: dict[ObjectKey, asyncio.Future[Result]] = attrs.Factory(dict)
    slots: dict[ObjectKey, Slot] = attrs.Factory(dict)
    tasks: dict[ObjectKey, asyncio.Task[Result]] = attrs.Factory(dict)

    def __attrs_post_init__(self) -> None:
        self.limiter = ConcurrencyLimiter(self.queue)

    async def come(self, name: str, *limits: Limit) -> bool:
        """Let a worker try a key; tell whether its turn began."""
        key = key_of(name)

        async def visit(slot: Slot) -> Result:
            self.under_way[key] = asyncio.get_running_loop().create_future()
            self.slots[key] = slot
            return await self.under_way[key]

        async def look() -> Result:
            with self.limiter.looking_at(key):
                return await self.limiter.turn(limits or (SLOW,), key, visit)

        self.tasks[key] = asyncio.create_task(look())
        await asyncio.sleep(0)
        return key in self.under_way

    async def all_come(self, names: str, *limits: Limit) -> list[bool]:
        """Let workers try several keys."""
        return [await self.come(name, *limits) for name in names.split()]

    async def end(self, name: str) -> list[str]:
        """End a turn; return what that brought back to the queue."""
        key = key_of(name)
        self.under_way.pop(key).set_result(Done())
        await self.tasks[key]
        return await self.brought_back()

    async def brought_back(self) -> list[str]:
        """Take all that is in the queue."""
        found = []
        while len(self.queue):
            key = await self.queue.get()
            self.queue.done(key)
            found.append(key.name)
        return found

    async def pass_by(self, name: str) -> list[str]:
        """Look at a key that begins no turn; return what that brought back."""
        with self.limiter.looking_at(key_of(name)):
            pass
        return await self.brought_back()


@pytest.fixture(name="bench")
async def _bench() -> Bench:
    return Bench()


async def test_no_more_turns_than_the_limit(bench: Bench) -> None:
    """The third is parked."""
    assert [True, True, False] == await bench.all_come("a b c")


async def test_parked_key_leaves_its_worker_at_once(bench: Bench) -> None:
    """Not looked at; its key comes back by the queue."""
    await bench.all_come("a b c")

    waiting = bench.tasks[key_of("c")]
    assert waiting.done()
    assert Parked() == waiting.result()


async def test_other_limits_are_left_alone(bench: Bench) -> None:
    """That is what limits are for."""
    await bench.all_come("a b c")

    assert await bench.come("d", FAST)


async def test_all_limits_must_have_room(bench: Bench) -> None:
    """A turn that counts twice waits for whichever is reached, and takes no other."""
    await bench.all_come("a b")
    assert not await bench.come("c", FAST, SLOW)
    assert [True, True, False] == await bench.all_come("d e f", FAST)

    assert [] == await bench.end("a")
    assert ["f"] == await bench.end("d")
    assert ["c"] == await bench.end("e")
    assert await bench.come("c", FAST, SLOW)


async def test_one_comes_back_for_one_that_leaves(bench: Bench) -> None:
    """In the order of their coming, and once, however often it was asked for."""
    await bench.all_come("a b c d c d")

    assert [["c"], ["d"]] == [await bench.end("a"), await bench.end("b")]


async def test_place_is_kept_for_the_one_that_comes_back(bench: Bench) -> None:
    """Nobody takes it on the way through the queue."""
    await bench.all_come("a b c")
    assert ["c"] == await bench.end("a")

    assert [False, True] == await bench.all_come("d c")


async def test_unused_place_goes_to_the_next(bench: Bench) -> None:
    """What it was kept for may be gone by then."""
    await bench.all_come("a b c d")
    assert ["c"] == await bench.end("a")

    assert ["d"] == await bench.pass_by("c")


async def test_namespaces_get_places_in_turn(bench: Bench) -> None:
    """Also from among thousands of one, and however late the other came."""
    await bench.all_come("n/a n/b n/c n/d n/e m/x m/y")
    served = []
    for _ in range(5):
        served += await bench.end(str(next(iter(bench.under_way))))
        last = served[-1]
        await bench.come(("m/" if last in "xy" else "n/") + last)

    assert ["c", "x", "d", "y", "e"] == served


async def test_lines_of_a_namespace_get_places_in_turn(bench: Bench) -> None:
    """One load balancer's many do not keep the one of another waiting."""
    one, other = Limit("one", 9), Limit("other", 9)
    await bench.all_come("a b")
    await bench.all_come("c d e", SLOW, one)
    await bench.all_come("x", SLOW, other)

    assert ["c", "x"] == await bench.end("a") + await bench.end("b")


async def test_raised_limit_counts_at_once(bench: Bench) -> None:
    """For those who wait, too."""
    await bench.all_come("a b c d")
    assert not await bench.come("e", Limit("slow", 3))

    assert ["c"] == await bench.brought_back()


async def test_lowered_limit_throws_nobody_out(bench: Bench) -> None:
    """Turns under way end; only then does the lower limit hold."""
    await bench.all_come("a b")
    assert not await bench.come("c", Limit("slow", 1))

    assert [[], ["c"]] == [await bench.end("a"), await bench.end("b")]


async def test_turn_that_fails_makes_room_too(bench: Bench) -> None:
    """An error, or the end of a worker, must not lower the limit."""
    await bench.all_come("a b c")
    bench.under_way[key_of("a")].set_exception(RuntimeError("broken"))
    await asyncio.wait([bench.tasks[key_of("a")]])
    assert bench.tasks[key_of("a")].exception()

    assert ["c"] == await bench.brought_back()


async def test_turn_may_change_its_limits(bench: Bench) -> None:
    """The next key comes at once, and the end of the turn frees no second place."""
    await bench.all_come("a b c")
    slot = bench.slots[key_of("a")]

    assert [True, True] == [slot.change_to((FAST,)) for _ in range(2)]
    assert ["c"] == await bench.brought_back()
    assert [True, False] == await bench.all_come("x y", FAST)
    assert ["y"] == await bench.end("a")


async def test_turn_keeps_its_limits_if_others_have_no_room(bench: Bench) -> None:
    """What is behind it stays parked."""
    await bench.all_come("a b c")
    await bench.all_come("x y", FAST)

    assert not bench.slots[key_of("a")].change_to((FAST,))
    assert [] == await bench.brought_back()
    assert ["c"] == await bench.end("a")


async def test_limit_that_stays_needs_no_second_place(bench: Bench) -> None:
    """Only what is new must have room."""
    await bench.all_come("a b", SLOW)

    assert bench.slots[key_of("a")].change_to((SLOW, FAST))
    assert bench.slots[key_of("a")].change_to((SLOW,))
    assert [True, True] == await bench.all_come("x y", FAST)


async def test_limits_that_nobody_needs_are_forgotten(bench: Bench) -> None:
    """Drivers come and go; their limits go with them."""
    await bench.all_come("a b c", SLOW, FAST)
    assert 2 == len(bench.limiter)
    for name in "ab":
        await bench.end(name)
    await bench.pass_by("c")

    assert 0 == len(bench.limiter)


def failing_for(keys: int, seconds: float) -> Counter[str]:
    """Have keys fail at a limit of four; return how many turns each had."""
    turns = Counter[str]()
    queue: WorkQueue[ObjectKey] = WorkQueue("records", VirtualClock())
    limiter = ConcurrencyLimiter(queue)

    async def fail(key: ObjectKey) -> Result:
        turns[key.name] += 1
        await asyncio.sleep(0.02)
        return Failed(OSError("refused"))

    async def body() -> None:
        limited = limiter.around(fail, lambda _key: (Limit("api", 4),))
        base, cap = timedelta(seconds=0.01), timedelta(seconds=5)
        workers = Workers(queue, limited, keys, VirtualClock(), base=base, cap=cap)
        workers.start()
        for number in range(keys):
            queue.add(a_key(f"web-{number}"))
        await asyncio.sleep(seconds)
        await workers.stop(timedelta(seconds=1))

    run_virtual(body())
    return turns


def test_keys_that_fail_back_off_however_many_wait_for_the_limit() -> None:
    """To be parked is no success: who fails with others comes no more often than alone."""
    alone, crowded = failing_for(1, seconds=3), failing_for(40, seconds=3)

    assert 40 == len(crowded)
    assert max(crowded.values()) <= max(alone.values())


NAMES = st.sampled_from([f"{n}/{name}" for n in "nm" for name in "abcd"])
LIMITS = st.lists(
    st.sampled_from((Limit("x", 1), Limit("y", 2), Limit("z", 1))),
    min_size=1,
    unique=True,
)
MOVES = st.lists(
    st.tuples(st.sampled_from(("come", "come", "end")), NAMES), max_size=40
)


@given(
    moves=MOVES,
    limits=st.fixed_dictionaries(
        {f"{n}/{name}": LIMITS for n in "nm" for name in "abcd"}
    ),
    vanishing=st.sets(NAMES),
)
def test_no_parked_key_is_lost(
    moves: list[tuple[str, str]], limits: dict[str, list[Limit]], vanishing: set[str]
) -> None:
    """Also where keys that come back begin no turn: in the end nobody waits."""
    run_virtual(_wander(moves, limits, vanishing))


async def _wander(
    moves: list[tuple[str, str]], limits: dict[str, list[Limit]], vanishing: set[str]
) -> None:
    """Let keys come and turns end, then end all that is under way."""
    bench, parked = Bench(), set[str]()
    for move, name in moves:
        if move == "come" and key_of(name) not in bench.under_way:
            if not await bench.come(name, *limits[name]):
                parked.add(name)
        elif move == "end" and bench.under_way:
            await _end_first(bench, parked, limits, vanishing)
        _check(bench, limits)
    while bench.under_way:
        await _end_first(bench, parked, limits, vanishing)
    assert not parked
    assert not len(bench.limiter)


def _check(bench: Bench, limits: dict[str, list[Limit]]) -> None:
    """No limit is exceeded by the turns under way."""
    for limit in (Limit("x", 1), Limit("y", 2), Limit("z", 1)):
        inside = [key for key in bench.under_way if limit in limits[str(key)]]
        assert len(inside) <= limit.most


async def _end_first(
    bench: Bench,
    parked: set[str],
    limits: dict[str, list[Limit]],
    vanishing: set[str],
) -> None:
    """End the oldest turn; what comes back begins its own, or has vanished."""
    key = next(iter(bench.under_way))
    bench.under_way.pop(key).set_result(Done())
    await bench.tasks[key]
    while len(bench.queue):
        back = await bench.queue.get()
        name = str(back)
        if back in bench.under_way:
            bench.queue.done(back)
            continue
        parked.discard(name)
        if name in vanishing:
            with bench.limiter.looking_at(back):
                pass
        elif not await bench.come(name, *limits[name]):
            parked.add(name)
        bench.queue.done(back)


def most_of(limits: Sequence[Limit]) -> list[int]:
    """Return what limits allow."""
    return [limit.most for limit in limits]


def bearing(calls: int) -> LoadBalancerDriver:
    """Make a driver that declares to bear so many calls at a time."""
    return attrs.evolve(a_driver(), max_concurrent_calls=calls)


def test_driver_has_a_share_of_the_workers_whatever_it_declares() -> None:
    """Twice its calls, and an eighth of the workers at most."""
    shares, key = Shares(1024), ObjectKey("shop", "proxy")
    found = [
        most_of(shares.at_driver(key, bearing(calls), "shop"))
        for calls in (1, 32, 10_000)
    ]

    assert [[2], [64], [128]] == found


def test_one_namespace_leaves_room_at_a_driver_of_all() -> None:
    """A quarter of its places is for others."""
    shares, key = Shares(1024), ObjectKey("kube-system", "proxy")
    found = [
        most_of(shares.at_driver(key, bearing(calls), "shop")) for calls in (1, 32)
    ]

    assert [[2, 1], [64, 48]] == found


def test_namespace_has_a_share_of_the_workers() -> None:
    """A quarter."""
    assert 256 == Shares(1024).of_namespace("shop").most


def test_load_balancer_has_a_limit_where_it_says_so() -> None:
    """Half of its turns may wait for the other half."""
    shares, key = Shares(1024), ObjectKey("shop", "front")

    found = [most_of(shares.at_balancer(key, bearing(32), n)) for n in (3, None)]

    assert [[6], []] == found


def test_a_batch_is_one_call_for_many_turns() -> None:
    """A driver that takes many members in a call has as many turns for each call."""
    shares, key = Shares(1024), ObjectKey("shop", "front")
    shape = BatchShape(10, timedelta(milliseconds=100))
    driver = attrs.evolve(bearing(3), batches={Operation.ENSURE_BACKEND: shape})

    assert [60] == most_of(shares.at_driver(key, driver, "shop"))
    assert [20] == most_of(shares.at_balancer(key, driver, 1))
