"""Semaphores: fair between groups, never more than the places, nobody forgotten."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from lbcf.runtime.semaphore import KeyedSemaphores, PrioritySemaphore


async def settle() -> None:
    """Let every task go on until it waits for something."""
    for _ in range(10):
        await asyncio.sleep(0)


async def visit(
    semaphores: KeyedSemaphores, key: str, log: list[str], name: str
) -> None:
    """Hold a place until cancelled."""
    async with semaphores.held(key, 1):
        log.append(name)
        await asyncio.Event().wait()


async def end(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_who_comes_first_goes_first() -> None:
    """Those who wait get in one by one, in their order."""
    semaphores, log = KeyedSemaphores(), list[str]()
    tasks = [asyncio.create_task(visit(semaphores, "k", log, name)) for name in "abc"]
    await settle()
    assert ["a"] == log

    for count in (1, 2):
        await end(tasks[count - 1])
        await settle()
        assert list("abc"[: count + 1]) == log
    await end(tasks[2])


async def test_who_is_ahead_goes_first() -> None:
    """Before those who came earlier, and behind others who are ahead."""
    semaphore, order = PrioritySemaphore(1), list[str]()
    await semaphore.acquire(rank=1)

    async def wait(name: str, *, ahead: bool) -> None:
        """Note who got in, and make room."""
        await semaphore.acquire(rank=0 if ahead else 1)
        order.append(name)
        semaphore.release()

    tasks = [
        asyncio.create_task(wait(name, ahead=name.isupper()))
        for name in ("a", "B", "C")
    ]
    await settle()
    semaphore.release()
    await asyncio.gather(*tasks)

    assert ["B", "C", "a"] == order
    assert semaphore.is_idle


async def test_newcomers_do_not_overtake() -> None:
    """A place that is given back belongs to who waits, not to who just came."""
    semaphore, log = PrioritySemaphore(1), list[str]()
    await semaphore.acquire(rank=1)

    async def wait() -> None:
        await semaphore.acquire(rank=1)
        log.append("waited")

    task = asyncio.create_task(wait())
    await settle()
    semaphore.release()
    newcomer = asyncio.create_task(semaphore.acquire(rank=1))
    await settle()

    assert task.done()
    assert not newcomer.done()
    assert ["waited"] == log
    await end(newcomer)


async def test_keys_do_not_wait_for_each_other() -> None:
    """A driver that is busy holds up nobody else's calls."""
    semaphores, log = KeyedSemaphores(), list[str]()
    tasks = [asyncio.create_task(visit(semaphores, key, log, key)) for key in "ab"]
    await settle()

    assert ["a", "b"] == log
    await end(*tasks)


async def test_a_higher_limit_lets_in_at_once() -> None:
    """An edited limit holds from the next call on, for those who wait too."""
    semaphore = PrioritySemaphore(1)
    waiting = [asyncio.create_task(semaphore.acquire(rank=1)) for _ in range(3)]
    await settle()
    semaphore.resize(2)
    await settle()

    assert [True, True, False] == [task.done() for task in waiting]
    await end(waiting[2])


async def test_a_lower_limit_throws_nobody_out() -> None:
    """Calls under way end; only then does the lower limit hold."""
    semaphore = PrioritySemaphore(2)
    await semaphore.acquire(rank=1)
    await semaphore.acquire(rank=1)
    semaphore.resize(1)
    waiting = asyncio.create_task(semaphore.acquire(rank=1))
    semaphore.release()
    await settle()
    assert not waiting.done()

    semaphore.release()
    await settle()
    assert waiting.done()


async def test_a_waiter_that_is_cancelled_gives_up_its_place_in_line() -> None:
    """Those behind it move up."""
    semaphores, log = KeyedSemaphores(), list[str]()
    tasks = [asyncio.create_task(visit(semaphores, "k", log, name)) for name in "abc"]
    await settle()
    await end(tasks[1])
    await end(tasks[0])
    await settle()

    assert ["a", "c"] == log
    await end(tasks[2])


async def test_one_ahead_that_is_cancelled_gives_up_its_place_in_line() -> None:
    """Its place is not kept for it."""
    semaphore = PrioritySemaphore(1)
    await semaphore.acquire(rank=1)
    waiting = asyncio.create_task(semaphore.acquire())
    await settle()
    await end(waiting)
    semaphore.release()

    assert semaphore.is_idle


async def test_a_place_given_at_the_moment_of_cancelling_is_given_back() -> None:
    """Cancelled in the turn in which the place was given, it is not lost."""
    semaphore = PrioritySemaphore(1)
    await semaphore.acquire(rank=1)
    waiting = asyncio.create_task(semaphore.acquire(rank=1))
    await settle()
    semaphore.release()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert waiting.cancelled()
    assert semaphore.is_idle


async def test_semaphores_that_nobody_needs_are_forgotten() -> None:
    """Drivers come and go; their semaphores go with them."""
    semaphores, log = KeyedSemaphores(), list[str]()
    tasks = [asyncio.create_task(visit(semaphores, "k", log, name)) for name in "ab"]
    await settle()
    assert 1 == len(semaphores)

    await end(*tasks)
    assert 0 == len(semaphores)


@given(
    limit=st.integers(1, 3),
    stays=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12),
)
async def test_never_more_than_the_limit(
    limit: int, stays: list[tuple[int, bool]]
) -> None:
    """Whoever stays long or is cancelled, the limit holds and everybody gets in."""
    semaphores, inside, most, served = KeyedSemaphores(), 0, 0, 0

    async def stay(turns: int) -> None:
        nonlocal inside, most, served
        async with semaphores.held("k", limit):
            inside, served = inside + 1, served + 1
            most = max(most, inside)
            try:
                for _ in range(turns):
                    await asyncio.sleep(0)
            finally:
                inside -= 1

    tasks = [asyncio.create_task(stay(turns)) for turns, _ in stays]
    await asyncio.sleep(0)
    for task, (_, cancelled) in zip(tasks, stays, strict=True):
        if cancelled:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert most <= limit
    assert served >= sum(not cancelled for _, cancelled in stays)
    assert 0 == len(semaphores)


async def test_groups_get_places_in_turn() -> None:
    """However many of one group wait already; ranks order a group alone."""
    semaphore, order = PrioritySemaphore(1), list[str]()
    await semaphore.acquire()

    async def wait(name: str, group: str, rank: int) -> None:
        """Note who got in, and make room."""
        async with semaphore.held(group=group, rank=rank):
            order.append(name)

    visits = [("a1", "a", 0), ("a2", "a", 0), ("a3", "a", 0), ("b2", "b", 1)]
    visits.append(("b1", "b", 0))
    tasks = [asyncio.create_task(wait(*visit)) for visit in visits]
    await settle()
    semaphore.release()
    await asyncio.gather(*tasks)

    assert ["a1", "b1", "a2", "b2", "a3"] == order
    assert semaphore.is_idle
