"""Many changes in one transaction: the unit makes all of them, or none.

`pool` hands in a step for each member, for as many transactions as it takes: each has what
the unit takes in half a second, so that one that it refuses costs the others no more
than that. Where it refuses one, the steps that its message names are left out, and the others
are made without them; where it names none, the step that spoils it is found by halving, after
all that is in other transactions. Steps that were not made are left to whoever changes one
member at a time: that one is told why.
"""

import contextlib
import math
import re

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import attrs

from webhooks.device.errors import DeviceError, Refused
from webhooks.f5.errors import Denied
from webhooks.f5.halving import Halving
from webhooks.f5.icontrol import Icontrol
from webhooks.f5.members import Node
from webhooks.f5.names import ObjectPath


MOST_REFUSALS = 10
"""For one set of steps: halving finds one of a hundred with 8. What is left then is not made."""

QUEUEING = timedelta(seconds=0.5)
"""How long a transaction is filled before it is committed. All of it is lost where the unit
refuses it; and a unit that is slow makes some steps in the time that a call has, where it
would make none if all had to be in one."""

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
        refusals_left: how many more are borne.
    """

    api: Icontrol
    changed: Callable[[], object]
    until: float = math.inf
    refusals_left: int = MOST_REFUSALS
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
        async with self.api.session.batch():
            return await self._make(steps)

    async def _make(self, steps: Sequence[Step]) -> dict[str, Refused]:
        """Make steps, as `make` does; others of this batch may have been made before."""
        out: dict[str, Refused] = {}
        spoilt: list[tuple[Sequence[Step], Refused]] = []
        while steps:
            why_not = self._why_not()
            if why_not is not None:
                out |= {step.key: why_not for step in steps}
                break
            number, refused = await self._attempt(steps)
            if refused is None:
                steps = steps[number:]
                continue
            named = _named(steps, refused)
            if named:
                out |= named
                steps = [step for step in steps if step.key not in named]
            else:
                spoilt.append((steps[:number], refused))
                steps = steps[number:]
        for some, refused in spoilt:
            out |= await self._without_culprit(some, refused)
        return out

    async def _without_culprit(
        self, steps: Sequence[Step], refused: Refused
    ) -> dict[str, Refused]:
        """Make steps that were refused together, but for the one that is the cause."""
        search = Halving(steps)
        while search.half and self._why_not() is None:
            number, said = await self._attempt(search.half)
            if said is None:
                search = search.made(number)
                continue
            refused, named = said, _named(search.unmade, said)
            if named:
                others = [step for step in search.unmade if step.key not in named]
                return named | await self._make(others)
            search = search.refused(number)
        if search.half:  # nothing more is to be tried
            return await self._make(search.unmade)
        culprit = {search.suspects[0].key: refused}
        return culprit | await self._make(search.cleared)

    def _why_not(self) -> Refused | None:
        """Return why nothing more is to be tried; None: it is."""
        if not self.refusals_left:
            return self._last
        return NO_TIME if self._is_late() else None

    async def _attempt(self, steps: Sequence[Step]) -> tuple[int, Refused | None]:
        """Make steps from the first on, by one transaction.

        Returns how many there was time for; and what the unit said where it made none of
        these.
        """
        async with self.api.session.turn():
            if self._is_late():
                return 0, None  # others had their turn all the while
            tried: list[Step] = []
            try:
                await self._commit(await self._begin(), steps, tried)
            except Denied:
                raise
            except Refused as refused:
                self._last = refused
                self.refusals_left = max(0, self.refusals_left - 1)
                return len(tried) or len(steps), refused
            return len(tried), None

    def _is_late(self) -> bool:
        """Tell whether it is too late to begin."""
        return self.api.session.clock.monotonic() > self.until

    async def _begin(self) -> Icontrol:
        """Begin a transaction; a unit that refuses even that is not asked again."""
        try:
            return await self.api.begin()
        except Refused:
            self.refusals_left = 0
            raise

    async def _commit(
        self, queued: Icontrol, steps: Sequence[Step], tried: list[Step]
    ) -> None:
        """Queue steps in a transaction while there is time, and commit it.

        Args:
            queued: hands to the transaction.
            steps: the steps.
            tried: gets those that there was time for.
        """
        try:
            nodes = await self._queue(queued, steps, tried)
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

    async def _queue(
        self, queued: Icontrol, steps: Sequence[Step], tried: list[Step]
    ) -> set[ObjectPath]:
        """Queue steps, each behind the node that it needs; return the nodes."""
        clock = self.api.session.clock
        end = min(clock.monotonic() + QUEUEING.total_seconds(), self.until)
        nodes: set[ObjectPath] = set()
        for step in steps:
            if tried and clock.monotonic() > end:
                break
            tried.append(step)
            if step.node is not None and step.node.path not in nodes | self._nodes:
                nodes.add(step.node.path)
                await queued.add_node(step.node)
            await step.queue(queued)
        return nodes


def _named(steps: Sequence[Step], refused: Refused) -> dict[str, Refused]:
    """Return what was said by the keys of those whom it names."""
    return {step.key: refused for step in steps if step.is_named(refused.said)}
