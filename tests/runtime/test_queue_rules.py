"""Random lives of a work queue against a plain model of its rules.

The model holds for each key the moment at which it may be taken, or none. Urgency
changes the order only, so the model says which keys may come, not which comes first.
"""

import asyncio

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lbcf.runtime.queue import WorkQueue
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import VirtualLoop


KEYS = st.sampled_from("abcdef")
DELAYS = st.integers(-1, 12)


class QueueRules(RuleBasedStateMachine):
    """Adds, takes, finishes and waits in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.clock = VirtualClock()
        self.queue: WorkQueue[str] = WorkQueue("test", self.clock)
        self.wanted: dict[str, float] = {}
        self.in_work: set[str] = set()

    def teardown(self) -> None:
        """Give the loop back."""
        self.queue.shutdown()
        self.loop.close()

    def run(self, call: Any) -> Any:
        """Run a call inside the virtual loop."""

        async def inside() -> Any:
            """Call, and let what was woken run."""
            result = call()
            await asyncio.sleep(0)
            return result

        return self.loop.run_until_complete(inside())

    def want(self, key: str, moment: float) -> None:
        """Note in the model that the key is to come at the moment, or earlier."""
        self.wanted[key] = min(moment, self.wanted.get(key, moment))

    def due(self) -> set[str]:
        """Return the keys that the queue must have ready now."""
        now = self.loop.time()
        return {
            key
            for key, moment in self.wanted.items()
            if moment <= now and key not in self.in_work
        }

    @rule(key=KEYS, urgent=st.booleans())
    def add(self, key: str, urgent: bool) -> None:
        """Something changed."""
        self.want(key, self.loop.time())
        self.run(lambda: self.queue.add(key, urgent=urgent))

    @rule(key=KEYS, delay=DELAYS, urgent=st.booleans())
    def add_after(self, key: str, delay: int, urgent: bool) -> None:
        """Something is to be looked at later."""
        self.want(key, self.loop.time() + max(delay, 0))
        self.run(
            lambda: self.queue.add_after(key, timedelta(seconds=delay), urgent=urgent)
        )

    @precondition(lambda self: self.due())
    @rule()
    def take(self) -> None:
        """A worker is free; it gets a key that is due and that nobody else has."""
        key = self.loop.run_until_complete(self.queue.get())

        assert key in self.due()
        del self.wanted[key]
        self.in_work.add(key)

    @rule(key=KEYS)
    def give_up(self, key: str) -> None:
        """A worker that waits is woken and cancelled at once: no key is lost."""
        if self.due():
            return

        async def inside() -> None:
            """Wait, wake, cancel before it runs."""
            taker = asyncio.create_task(self.queue.get())
            await asyncio.sleep(0)
            self.queue.add(key)
            taker.cancel()
            await asyncio.wait([taker])
            assert taker.cancelled()

        self.want(key, self.loop.time())
        self.loop.run_until_complete(inside())

    @precondition(lambda self: self.in_work)
    @rule(choice=st.randoms(use_true_random=False))
    def finish(self, choice: Any) -> None:
        """A worker is through with one of the keys."""
        key = choice.choice(sorted(self.in_work))
        self.in_work.discard(key)
        self.run(lambda: self.queue.done(key))

    @rule(seconds=st.integers(1, 6))
    def wait(self, seconds: int) -> None:
        """Time goes by."""
        self.loop.run_until_complete(asyncio.sleep(seconds))
        # Timers of this very moment may stand behind the sleeper's own.
        self.run(lambda: None)

    @invariant()
    def queue_has_what_the_model_has(self) -> None:
        """Due keys are ready, others are not; nothing is lost, nothing is doubled."""
        later = {key for key in self.wanted if self.wanted[key] > self.loop.time()}

        assert len(self.due()) == len(self.queue)
        assert len(self.in_work) == self.queue.in_work
        assert len(later) == self.queue.delayed


TestQueueRules = QueueRules.TestCase
