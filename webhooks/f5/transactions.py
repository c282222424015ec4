"""Many changes in one transaction: the unit makes all of them, or none.

`pool` hands in a step for each member. Where the unit refuses a transaction, the steps that
its message names are left out, and the others are made without them; where it names none,
the step that spoils it is found by halving. Steps that were not made are left to whoever
changes one member at a time: that one is told why.
"""

import contextlib
import math
import re

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import attrs

from webhooks.device.errors import DeviceError, Refused
from webhooks.f5.errors import Denied
from webhooks.f5.icontrol import Icontrol
from webhooks.f5.members import Node
from webhooks.f5.names import ObjectPath


MOST_COMMITS = 20
"""For one set of steps: halving finds one of a hundred in 15. What is left then is not made."""


QUEUEING = timedelta(seconds=2)
"""How long a transaction is filled before it is committed: a unit that is slow makes some
steps in the time that a call has, where it would make none if all had to be in one."""

NO_TIME = Refused("the unit is too slow: there was no time for it")
"""Said of a step that the unit was not asked for."""


@attrs.frozen(eq=False)
class Step:
    """A change of one member or node.

    Attributes:
        key: what it is told apart by.
        queue: hands it to the unit.
        names: words by which a message of the unit may mean it.
        node: one that is to be made before it, by whichever step needs it first.
    """

    key: str
    queue: Callable[[Icontrol], Awaitable[object]]
    names: Sequence[str]
    node: Node | None = None

    def is_named(self, message: str) -> bool:
        """Tell whether a message of the unit means this one: no part of a longer name."""
        return any(
            re.search(rf"(?<![\w.:/-]){re.escape(name)}(?![\w:%-]|\.\w)", message)
            for name in self.names
        )


@attrs.define(eq=False)
class Transactions:
    """Makes steps together.

    Attributes:
        api: the unit's.
        changed: told before and after a commit.
        until: monotonic seconds after which no step is handed to the unit: one that is cut
            off before its commit costs all that were queued with it.
        commits_left: how many more may be tried.
    """

    api: Icontrol
    changed: Callable[[], object]
    until: float = math.inf
    commits_left: int = MOST_COMMITS
    _nodes: set[ObjectPath] = attrs.field(factory=set, init=False)
    _last: Refused = attrs.field(factory=lambda: Refused("nothing was tried"))

    async def make(self, steps: Sequence[Step]) -> dict[str, Refused]:
        """Make steps; return those that were not made by their keys, with what was said.

        It is `NO_TIME` for those that another attempt may make.

        Raises:
            Uncertain: a commit was sent and not answered.
            DeviceError: nothing was made, for a reason that is no step's.
        """
        if not steps:
            return {}
        if not self.commits_left:
            return {step.key: self._last for step in steps}
        if self._is_late():
            return {step.key: NO_TIME for step in steps}
        try:
            made = await self._attempt(steps)
        except Denied:
            raise
        except Refused as refused:
            self._last = refused
            return await self._without_culprit(steps, refused)
        return await self.make(steps[made:])

    async def _without_culprit(
        self, steps: Sequence[Step], refused: Refused
    ) -> dict[str, Refused]:
        """Make steps without those that spoil it for the others."""
        named = [step for step in steps if step.is_named(refused.said)]
        if named or len(steps) == 1:
            out = {step.key: refused for step in named or steps}
            return out | await self.make([one for one in steps if one.key not in out])
        middle = len(steps) // 2
        return await self.make(steps[:middle]) | await self.make(steps[middle:])

    async def _attempt(self, steps: Sequence[Step]) -> int:
        """Make steps from the first on, or none; return how many there was time for.

        Raises:
            Refused: one cannot be made, and none was.
        """
        async with self.api.session.turn():
            if self._is_late():
                return 0  # others had their turn all the while
            self.commits_left -= 1
            return await self._commit(await self._begin(), steps)

    def _is_late(self) -> bool:
        """Tell whether it is too late to begin."""
        return self.api.session.clock.monotonic() > self.until

    async def _begin(self) -> Icontrol:
        """Begin a transaction; a unit that refuses even that is not asked again."""
        try:
            return await self.api.begin()
        except Refused:
            self.commits_left = 0
            raise

    async def _commit(self, queued: Icontrol, steps: Sequence[Step]) -> int:
        """Queue steps in a transaction while there is time, and commit it."""
        try:
            number, nodes = await self._queue(queued, steps)
        except DeviceError:
            # Left open, it would be gone two minutes later.
            with contextlib.suppress(DeviceError):
                await queued.abandon()
            raise
        self.changed()
        try:
            await queued.commit()
        finally:
            # A save that began since the first note may not have it.
            self.changed()
        self._nodes |= nodes
        return number

    async def _queue(
        self, queued: Icontrol, steps: Sequence[Step]
    ) -> tuple[int, set[ObjectPath]]:
        """Queue steps, each behind the node that it needs.

        Returns how many there was time for, and the nodes that are made with them.
        """
        clock = self.api.session.clock
        end = min(clock.monotonic() + QUEUEING.total_seconds(), self.until)
        nodes: set[ObjectPath] = set()
        for number, step in enumerate(steps):
            if number and clock.monotonic() > end:
                return number, nodes
            if step.node is not None and step.node.path not in nodes | self._nodes:
                nodes.add(step.node.path)
                await queued.add_node(step.node)
            await step.queue(queued)
        return len(steps), nodes
