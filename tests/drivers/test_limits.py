"""Gates: first come, first served, never more than the limit, nobody forgotten."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from lbcf.drivers.limits import Gate, Gates


async def settle() -> None:
    """Let every task go on until it waits for something."""
    for _ in range(10):
        await asyncio.sleep(0)


async def visit(gates: Gates, key: str, log: list[str], name: str) -> None:
    """Go through a gate and stay inside until cancelled."""
    async with gates.through(key, 1):
        log.append(name)
        await asyncio.Event().wait()


async def end(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_who_comes_first_goes_first() -> None:
    """Those who wait get in one by one, in their order."""
    gates, log = Gates(), list[str]()
    tasks = [asyncio.create_task(visit(gates, "k", log, name)) for name in "abc"]
    await settle()
    assert ["a"] == log

    for count in (1, 2):
        await end(tasks[count - 1])
        await settle()
        assert list("abc"[: count + 1]) == log
    await end(tasks[2])


async def test_who_is_ahead_goes_first() -> None:
    """Before those who came earlier, and behind others who are ahead."""
    gate, order = Gate(1), list[str]()
    await gate.enter()

    async def wait(name: str, *, ahead: bool) -> None:
        """Note who got in, and make room."""
        await gate.enter(ahead=ahead)
        order.append(name)
        gate.leave()

    tasks = [
        asyncio.create_task(wait(name, ahead=name.isupper()))
        for name in ("a", "B", "C")
    ]
    await settle()
    gate.leave()
    await asyncio.gather(*tasks)

    assert ["B", "C", "a"] == order
    assert gate.is_idle


async def test_newcomers_do_not_overtake() -> None:
    """A place that is given back belongs to who waits, not to who just came."""
    gate, log = Gate(1), list[str]()
    await gate.enter()

    async def wait() -> None:
        await gate.enter()
        log.append("waited")

    task = asyncio.create_task(wait())
    await settle()
    gate.leave()
    newcomer = asyncio.create_task(gate.enter())
    await settle()

    assert task.done()
    assert not newcomer.done()
    assert ["waited"] == log
    await end(newcomer)


async def test_keys_do_not_wait_for_each_other() -> None:
    """A driver that is busy holds up nobody else's calls."""
    gates, log = Gates(), list[str]()
    tasks = [asyncio.create_task(visit(gates, key, log, key)) for key in "ab"]
    await settle()

    assert ["a", "b"] == log
    await end(*tasks)


async def test_a_higher_limit_lets_in_at_once() -> None:
    """An edited limit holds from the next call on, for those who wait too."""
    gate = Gate(1)
    waiting = [asyncio.create_task(gate.enter()) for _ in range(3)]
    await settle()
    gate.resize(2)
    await settle()

    assert [True, True, False] == [task.done() for task in waiting]
    await end(waiting[2])


async def test_a_lower_limit_throws_nobody_out() -> None:
    """Calls under way end; only then does the lower limit hold."""
    gate = Gate(2)
    await gate.enter()
    await gate.enter()
    gate.resize(1)
    waiting = asyncio.create_task(gate.enter())
    gate.leave()
    await settle()
    assert not waiting.done()

    gate.leave()
    await settle()
    assert waiting.done()


async def test_a_waiter_that_is_cancelled_gives_up_its_place_in_line() -> None:
    """Those behind it move up."""
    gates, log = Gates(), list[str]()
    tasks = [asyncio.create_task(visit(gates, "k", log, name)) for name in "abc"]
    await settle()
    await end(tasks[1])
    await end(tasks[0])
    await settle()

    assert ["a", "c"] == log
    await end(tasks[2])


async def test_one_ahead_that_is_cancelled_gives_up_its_place_in_line() -> None:
    """The gate does not stay open for it."""
    gate = Gate(1)
    await gate.enter()
    waiting = asyncio.create_task(gate.enter(ahead=True))
    await settle()
    await end(waiting)
    gate.leave()

    assert gate.is_idle


async def test_a_place_given_at_the_moment_of_cancelling_is_given_back() -> None:
    """Cancelled in the turn in which the place was given, it is not lost."""
    gate = Gate(1)
    await gate.enter()
    waiting = asyncio.create_task(gate.enter())
    await settle()
    gate.leave()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert waiting.cancelled()
    assert gate.is_idle


async def test_gates_that_nobody_needs_are_forgotten() -> None:
    """Drivers come and go; their gates go with them."""
    gates, log = Gates(), list[str]()
    tasks = [asyncio.create_task(visit(gates, "k", log, name)) for name in "ab"]
    await settle()
    assert 1 == len(gates)

    await end(*tasks)
    assert 0 == len(gates)


@given(
    limit=st.integers(1, 3),
    stays=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12),
)
async def test_never_more_than_the_limit(
    limit: int, stays: list[tuple[int, bool]]
) -> None:
    """Whoever stays long or is cancelled, the limit holds and everybody gets in."""
    gates, inside, most, served = Gates(), 0, 0, 0

    async def stay(turns: int) -> None:
        nonlocal inside, most, served
        async with gates.through("k", limit):
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
    assert 0 == len(gates)
