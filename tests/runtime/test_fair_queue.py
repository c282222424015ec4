"""Fair queues: groups take turns, ranks order a group, and nothing is lost."""

from hypothesis import given
from hypothesis import strategies as st

from lbcf.runtime.fair_queue import FairQueue


def all_of(queue: FairQueue[str]) -> str:
    """Take everything out."""
    taken = []
    while (item := queue.pop()) is not None:
        taken.append(item)
    return "".join(taken)


def test_groups_take_turns() -> None:
    """A hundred items of one group put off another's by one."""
    queue: FairQueue[str] = FairQueue()
    for item in "abcd":
        queue.add(item, "many")
    queue.add("X", "few")
    queue.add("Y", "few")

    assert "aXbYcd" == all_of(queue)


def test_group_that_comes_back_waits_for_its_turn() -> None:
    """One that always has one item is not served twice as often."""
    queue: FairQueue[str] = FairQueue()
    queue.add("X", "few")
    for item in "ab":
        queue.add(item, "many")
    taken = [queue.pop()]
    queue.add("Y", "few")
    taken += [queue.pop(), queue.pop(), queue.pop()]

    assert ["X", "a", "Y", "b"] == taken


def test_lower_ranks_of_a_group_go_first() -> None:
    """Among equals who came first; other groups are not overtaken by rank."""
    queue: FairQueue[str] = FairQueue()
    for item, rank in (("c", 2), ("a", 0), ("b", 1), ("A", 0)):
        queue.add(item, "one", rank)
    queue.add("x", "other", 3)

    assert "axAbc" == all_of(queue)


def test_higher_ranks_are_served_once_in_a_while() -> None:
    """Where that is asked for."""
    queue: FairQueue[str] = FairQueue(in_a_row=2)
    for item in "abcde":
        queue.add(item, None, 0)
    for item in "XY":
        queue.add(item, None, 1)

    assert "abXcdYe" == all_of(queue)


def test_rank_may_become_better_and_never_worse() -> None:
    """An item stands in the queue once."""
    queue: FairQueue[str] = FairQueue()
    for item in "ab":
        queue.add(item, None, 1)
    queue.add("b", None, 0)
    queue.add("b", None, 1)

    assert 2 == len(queue)
    assert "ba" == all_of(queue)


def test_only_the_first_rank_may_be_taken() -> None:
    """Of the first group in turn that has one."""
    queue: FairQueue[str] = FairQueue()
    queue.add("a", "one", 1)
    queue.add("X", "two", 0)
    queue.add("y", "two", 1)

    assert ["X", None] == [queue.pop(first_only=True) for _ in range(2)]
    assert "ay" == all_of(queue)


ITEMS = st.tuples(
    st.sampled_from("abcdefgh"), st.sampled_from("nm"), st.integers(0, 2), st.booleans()
)


@given(moves=st.lists(ITEMS, max_size=40), in_a_row=st.none() | st.integers(1, 3))
def test_each_item_comes_once(
    moves: list[tuple[str, str, int, bool]], in_a_row: int | None
) -> None:
    """Whatever was added, raised and discarded."""
    queue: FairQueue[str] = FairQueue(in_a_row=in_a_row)
    waiting: dict[str, None] = {}
    for item, group, rank, stays in moves:
        if stays:
            queue.add(item, group, rank)
            waiting[item] = None
        else:
            queue.discard(item)
            waiting.pop(item, None)
        assert len(waiting) == len(queue)
        assert (item in waiting) == (item in queue)

    assert sorted(waiting) == sorted(all_of(queue))
    assert queue.pop() is None
