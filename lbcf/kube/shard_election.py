"""Elects one leader for each shard: a candidate competes for all Leases, and holds one.

Who holds none is the standby of whichever leader ends next.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from lbcf.kube.leader_election import LeaderElector, wait_to_look
from lbcf.runtime.clock import Clock
from lbcf.runtime.journal import Predecessor


class ShardElector:
    """A candidate for any one of several Leases.

    Args:
        electors: one for each Lease, in the order of the shards.
        clock: waits, and says where to begin.
    """

    def __init__(self, electors: Sequence[LeaderElector], clock: Clock) -> None:
        self._electors = electors
        self._clock = clock

    async def run(
        self, worker: Callable[[int, Predecessor | None], Awaitable[None]]
    ) -> None:
        """Wait for a Lease, work, and give it back once the work has ended.

        Args:
            worker: called with the number of the shard, and the name of the run in whose
                place this one leads (`LeaderElector.predecessor`).

        Raises:
            LeadershipLostError: as `LeaderElector.run`.
        """
        led = False
        while not led:
            number = await self._acquire()
            elector = self._electors[number]
            led = await elector.lead(partial(self._work, worker, number))

    async def _work(
        self,
        worker: Callable[[int, Predecessor | None], Awaitable[None]],
        number: int,
    ) -> None:
        await worker(number, self._electors[number].predecessor)

    async def _acquire(self) -> int:
        """Try one Lease after the other until one is ours; returns the number of its shard."""
        count = len(self._electors)
        # Candidates that start together do not all go for the same.
        first = int(count * self._clock.jitter())
        try:
            while True:
                for number in (n % count for n in range(first, first + count)):
                    if await self._electors[number].attempt():
                        return number
                await wait_to_look(self._electors, self._clock)
        finally:
            for elector in self._electors:
                elector.leave()
