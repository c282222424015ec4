"""Records come back when their driver can be reached again."""

from collections.abc import Callable

from lbcf.core.model.values import ObjectKey
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.queue import ReconnectNotifier, WorkQueue
from tests.builders import a_key


SLOW, OTHER = a_key("slow"), a_key("other")
A, B, C = a_key("a"), a_key("b"), a_key("c")


def nobody_ends(_listener: Callable[[ObjectKey], None]) -> None:
    """Tell of no end."""


async def test_first_call_that_gets_through_brings_all_others_back() -> None:
    """In the order in which they missed it; once."""
    queue: WorkQueue[ObjectKey] = WorkQueue("records", SystemClock())
    recall = ReconnectNotifier(queue, nobody_ends)
    for record in (A, B, C, A):
        recall.missed(SLOW, record)

    recall.reached(SLOW, B)
    recall.reached(SLOW, B)

    assert 2 == len(queue)
    assert [A, C] == [await queue.get(), await queue.get()]


async def test_other_drivers_bring_nobody_back() -> None:
    """Each driver is waited for on its own."""
    queue: WorkQueue[ObjectKey] = WorkQueue("records", SystemClock())
    recall = ReconnectNotifier(queue, nobody_ends)
    recall.missed(SLOW, A)

    recall.reached(OTHER, B)

    assert 0 == len(queue)


async def test_records_that_are_gone_are_forgotten() -> None:
    """Nothing is kept of them, though their driver may never be reached again."""
    queue: WorkQueue[ObjectKey] = WorkQueue("records", SystemClock())
    ends: list[Callable[[ObjectKey], None]] = []
    recall = ReconnectNotifier(queue, ends.append)
    recall.missed(SLOW, A)
    recall.missed(SLOW, B)

    ends[0](B)
    assert 1 == len(recall)
    ends[0](A)
    assert 0 == len(recall)

    recall.reached(SLOW, C)
    assert 0 == len(queue)
