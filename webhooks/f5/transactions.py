"""Many changes in one transaction: the unit makes all of them, or none.

`pool` hands in a step for each member, for as many transactions as it takes. Each is filled
while the one before is committed, so that they are small, one that is refused costs the others
little, and all together take no longer for it. Where the unit refuses one, the steps that its
message names are left out, and the others are made without them; where it names none, the step
that spoils it is found by halving, after all that is in other transactions. Steps that were not
made are left to whoever changes one member at a time: that one is told why.
"""

import asyncio
import contextlib
import math
import re

from collections.abc import Awaitable, Callable, Collection, Sequence
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

QUEUEING = timedelta(seconds=0.1)
"""How long a transaction is filled at least, and longer while another one is committed: the
slower commits are, the more is in each. All of it is lost where the unit refuses it; and a unit
that is slow makes some steps in the time that a call has, where it would make none if all had
to be in one."""

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

    def needs(self, nodes: Collection[ObjectPath]) -> bool:
        """Tell whether its node is one of these."""
        return self.node is not None and self.node.path in nodes

    def is_named(self, message: str) -> bool:
        """Tell whether a message of the unit means this one: no part of a longer name."""
        return any(
            re.search(rf"(?<![\w.:/-]){re.escape(name)}(?![\w:%-]|\.\w)", message)
            for name in self.names
        )


@attrs.define(eq=False)
class Filled:
    """A transaction that waits for its commit.

    Attributes:
        queued: hands to it.
        steps: those in it.
        nodes: those that it makes.
        refused: what the unit said to it, where it made nothing of it.
    """

    queued: Icontrol
    steps: list[Step] = attrs.field(factory=list)
    nodes: set[ObjectPath] = attrs.field(factory=set)
    refused: Refused | None = None


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
    _open: list[Filled] = attrs.field(factory=list, init=False)
    _commit_took: float = attrs.field(default=0.0, init=False)
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
            try:
                return await self._make(steps)
            except DeviceError:
                for filled in list(self._open):
                    await self._abandon(filled)
                raise

    async def _make(
        self, steps: Sequence[Step], filled: Filled | None = None
    ) -> dict[str, Refused]:
        """Make steps, after those that are in a transaction already."""
        out: dict[str, Refused] = {}
        spoilt: list[tuple[Sequence[Step], Refused]] = []
        while steps or filled is not None:
            if filled is not None and not self.refusals_left:
                await self._abandon(filled)
                steps, filled = [*filled.steps, *steps], None
            why_not = self._why_not()
            if why_not is not None and filled is None:
                out |= {step.key: why_not for step in steps}
                break
            following = await self._round(filled, steps)
            if following is not None:
                steps = steps[len(following.steps) :]
            if filled is not None and filled.refused is not None:
                named = _named([*filled.steps, *steps], filled.refused)
                out |= named
                if named.keys() & {step.key for step in filled.steps}:
                    steps = [*filled.steps, *steps]
                else:
                    spoilt.append((filled.steps, filled.refused))
                steps = [step for step in steps if step.key not in named]
            filled = following
        for some, refused in spoilt:
            out |= await self._without_culprit(some, refused)
        return out

    async def _without_culprit(
        self, steps: Sequence[Step], refused: Refused
    ) -> dict[str, Refused]:
        """Make steps that were refused together, but for the one that is the cause.

        A transaction of those that were cleared is filled while others are committed.
        """
        search, named = Halving(steps), dict[str, Refused]()
        kept: Filled | None = None
        while search.half and not named and self._why_not() is None:
            tried = await self._round(None, search.half)
            if tried is None:
                break  # it is too late by now
            theirs = {step.node.path for step in search.suspects if step.node}
            kept = await self._round(tried, _rest(search.cleared, kept), kept, theirs)
            if tried.refused is None:
                search = search.made(len(tried.steps))
                continue
            refused = tried.refused
            search = search.refused(len(tried.steps))
            named = _named([*search.suspects, *_rest(search.cleared, kept)], refused)
        if not search.half and not named:
            named = {search.suspects[0].key: refused}
        if kept is not None:
            kept = await self._round(None, _rest(search.cleared, kept), kept)
        left = [*_rest(search.cleared, kept), *search.suspects]
        left = [step for step in left if step.key not in named]
        return named | await self._make(left, kept)

    def _why_not(self) -> Refused | None:
        """Return why nothing more is to be tried; None: it is."""
        if not self.refusals_left:
            return self._last
        return NO_TIME if self._is_late() else None

    async def _round(
        self,
        filled: Filled | None,
        steps: Sequence[Step],
        into: Filled | None = None,
        nodes: Collection[ObjectPath] = (),
    ) -> Filled | None:
        """Commit a transaction, and fill another one meanwhile.

        Args:
            filled: what to commit; None: nothing.
            steps: for the other one, as many as there is time for.
            into: the other one, where it was begun before.
            nodes: that others may make yet: nothing that needs them goes in.

        Returns:
            The other one; None: there was nothing for it, or no time.
        """
        if filled is None:
            return await self._fill(steps, into, nodes)
        commit = asyncio.ensure_future(self._commit(filled))
        beside = self._fill(steps, into, {*nodes, *filled.nodes}, commit)
        fill = asyncio.ensure_future(beside)
        await asyncio.gather(commit, fill, return_exceptions=True)
        commit.result()
        return fill.result()

    def _is_late(self, ahead: float = 0) -> bool:
        """Tell whether it is too late to begin; or is, so many seconds ahead."""
        return self._now() + ahead > self.until

    def _now(self) -> float:
        return self.api.session.clock.monotonic()

    async def _fill(
        self,
        steps: Sequence[Step],
        into: Filled | None,
        nodes: Collection[ObjectPath],
        commit: asyncio.Future[None] | None = None,
    ) -> Filled | None:
        """Queue steps in a transaction while there is time, or a commit goes on."""
        end = self._now() + QUEUEING.total_seconds()
        ahead = 0 if commit is None else self._commit_took
        if not steps or steps[0].needs(nodes):
            return into
        if not self.refusals_left or self._is_late(ahead):
            return into
        filled = into or await self._begin()
        if filled is None or filled.refused is not None:
            return filled
        try:
            for number, step in enumerate(steps):
                over = self._now() > end and (commit is None or commit.done())
                if (number and (over or self._is_late())) or step.needs(nodes):
                    break
                await self._queue(filled, step)
        except Denied:
            raise
        except Refused as refused:
            self._bear(refused)
            filled.refused = refused
            await self._abandon(filled)
        return filled

    async def _begin(self) -> Filled | None:
        """Begin a transaction; a unit that refuses even that is not asked again."""
        try:
            filled = Filled(await self.api.begin())
        except Denied:
            raise
        except Refused as refused:
            self._bear(refused)
            self.refusals_left = 0
            return None
        self._open.append(filled)
        return filled

    async def _queue(self, filled: Filled, step: Step) -> None:
        """Queue a step, behind the node that it needs."""
        filled.steps.append(step)
        if step.node is not None and not step.needs(filled.nodes | self._nodes):
            filled.nodes.add(step.node.path)
            await filled.queued.add_node(step.node)
        await step.queue(filled.queued)

    async def _commit(self, filled: Filled) -> None:
        """Commit a transaction in a turn, unless a step of it was refused at once."""
        if filled.refused is not None:
            return
        began = self._now()
        try:
            async with self.api.session.turn():
                await self._sent(filled)
            self._nodes |= filled.nodes
        except Denied:
            raise
        except Refused as refused:
            self._bear(refused)
            filled.refused = refused
        finally:
            self._commit_took = self._now() - began

    async def _sent(self, filled: Filled) -> None:
        """Send the commit of a transaction; return once it is made."""
        self._open.remove(filled)
        self.changed()
        try:
            await filled.queued.commit()
        finally:
            # A save that began since the first note may not have it.
            self.changed()

    def _bear(self, refused: Refused) -> None:
        """Count what a unit refused."""
        self._last = refused
        self.refusals_left = max(0, self.refusals_left - 1)

    async def _abandon(self, filled: Filled) -> None:
        """Delete a transaction: left open, it would be gone two minutes later."""
        if filled not in self._open:
            return
        self._open.remove(filled)
        with contextlib.suppress(DeviceError):
            await filled.queued.abandon()


def _rest(steps: Sequence[Step], filled: Filled | None) -> Sequence[Step]:
    """Return the steps that are not in a transaction yet that has the first ones."""
    return steps if filled is None else steps[len(filled.steps) :]


def _named(steps: Sequence[Step], refused: Refused) -> dict[str, Refused]:
    """Return what was said by the keys of those whom it names."""
    return {step.key: refused for step in steps if step.is_named(refused.said)}
