"""Concurrency limits of turns: one driver, load balancer or namespace keeps nobody waiting.

Between a `queue` and the reconcile function of a process. Its workers are shared by all
tenants, and a turn that calls a driver holds one for as long as the driver takes. So a
turn counts against several limits, such as one of its driver and one of its namespace. If
any of them is reached the key is parked: it leaves its worker at once, and comes back by
the queue when a slot is free, which is kept for it until then.

Those that are parked at a limit get its slots in turn by namespace, then by the other
limits that they count against (a load balancer's own, say), then in order of arrival.
"""

import contextlib

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import attrs

from lbcf.core.lifecycle.turn import namespace_share, turns_at_once
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation
from lbcf.runtime.fair_queue import FairQueue
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Parked, Result


K = TypeVar("K", bound=Hashable)

_Ids = tuple[Hashable, ...]
"""The keys of limits, in their order."""

_DRIVERS_PART = 8
_NAMESPACES_PART = 4
_LEAST = 4
"""Turns that every share allows, however few workers there are."""


@attrs.frozen
class Limit:
    """How many turns at a time may count against something.

    Attributes:
        key: what they count against; the same key in all turns.
        most: how many there may be from now on.
    """

    key: Hashable
    most: int


@attrs.frozen
class Shares:
    """How the workers of a queue are shared out.

    A driver has at most an eighth of them whatever it declares to bear, so that eight
    drivers that hang would have to join to hold up the rest, and a namespace a quarter.

    Attributes:
        workers: how many there are.
    """

    workers: int

    @property
    def of_driver(self) -> int:
        """Return how many turns one driver may have at a time."""
        return max(_LEAST, self.workers // _DRIVERS_PART)

    def of_namespace(self, namespace: str) -> Limit:
        """Return the limit of a namespace."""
        most = max(_LEAST, self.workers // _NAMESPACES_PART)
        return Limit(f"namespace {namespace}", most)

    def at_driver(
        self,
        key: ObjectKey,
        driver: LoadBalancerDriver | Explanation,
        namespace: str,
        tag: str = "",
    ) -> tuple[Limit, ...]:
        """Return the limits of a driver's turns.

        Half of the turns that it bears calls may wait for the other half: they write what
        they know meanwhile. A batch is one call for many turns. A driver that other namespaces may use too leaves them room.

        Args:
            key: of the driver.
            driver: as far as it is known.
            namespace: for whom it is called.
            tag: tells apart turns of one driver that do not count together.
        """
        most = max(1, min(2 * turns_at_once(driver), self.of_driver))
        # Texts, because the hash of a text is computed once: turns are many.
        name = f"driver {key.namespace}/{key.name} {tag}"
        whole = Limit(name, most)
        part = namespace_share(key, namespace, most)
        if part == most:
            return (whole,)
        return (whole, Limit(f"{name} for {namespace}", part))

    def at_balancer(
        self,
        key: ObjectKey,
        driver: LoadBalancerDriver | Explanation,
        calls: int | None,
        tag: str = "",
    ) -> tuple[Limit, ...]:
        """Return the limit of a load balancer's turns, if it has one of its own.

        Args:
            key: of the load balancer.
            driver: of it, as far as it is known.
            calls: how many it bears at a time.
            tag: as for `at_driver`.
        """
        if calls is None:
            return ()
        name = f"load balancer {key.namespace}/{key.name} {tag}"
        items = 1 if isinstance(driver, Explanation) else driver.largest_batch
        return (Limit(name, max(1, 2 * calls * items)),)


class ConcurrencyLimiter(Generic[K]):
    """Counts turns against limits, and parks the keys that have to wait.

    Args:
        queue: where keys come back to; groups keys by namespace.
    """

    def __init__(self, queue: WorkQueue[K]) -> None:
        self._queue = queue
        self._levels: dict[Hashable, _Level[K]] = {}
        self._waiters: dict[tuple[Hashable, _Ids], _Waiters[K]] = {}
        # Slots that are kept for keys on their way through the queue, and, while such
        # a key is being looked at, those that it has not used yet.
        self._kept: dict[K, list[Slot]] = {}
        self._offered: dict[K, list[Slot]] = {}

    def __len__(self) -> int:
        """Return how many limits have a turn counted against them."""
        return len(self._levels)

    @contextlib.contextmanager
    def looking_at(self, key: K) -> Iterator[None]:
        """Reconcile a key inside the block: it may use the slots that are kept for it.

        Those that it did not use go to the next ones: what it waited for may be gone.
        """
        self._offered[key] = self._kept.pop(key, [])
        try:
            yield
        finally:
            for slot in self._offered.pop(key):
                slot.leave()

    async def turn(
        self,
        limits: Sequence[Limit],
        key: K,
        visit: Callable[["Slot"], Awaitable[Result]],
    ) -> Result:
        """Give a key its turn if all its limits have room, else park it.

        Args:
            limits: what the turn counts against.
            key: whose turn it is.
            visit: the turn itself.
        """
        slot = self.enter(limits, key)
        if slot is None:
            return Parked()
        try:
            return await visit(slot)
        finally:
            slot.leave()

    def around(
        self,
        reconcile: Callable[[K], Awaitable[Result]],
        limits_of: Callable[[K], Sequence[Limit]],
    ) -> Callable[[K], Awaitable[Result]]:
        """Count all turns of a reconcile function.

        Args:
            reconcile: what is to be limited.
            limits_of: what a key's turn counts against now.
        """

        async def limited(key: K) -> Result:
            with self.looking_at(key):
                return await self.turn(
                    limits_of(key), key, lambda _slot: reconcile(key)
                )

        return limited

    def enter(self, limits: Sequence[Limit], key: K) -> "Slot | None":
        """Count a turn against limits; None: the key is parked.

        The caller leaves the slot when the turn is over.
        """
        ids = tuple([limit.key for limit in limits])
        for slot in self._offered.get(key, ()):
            if slot.ids == ids:
                self._offered[key].remove(slot)
                return slot
        self._resize(limits)
        full = self._full(limits)
        if full is None:  # then nobody waits for these: each free slot is given at once
            self._count(limits)
            return Slot(self, ids)
        group = self._queue.group_of(key)
        waiters = self._waiters.get((group, ids))
        if waiters is None:
            waiters = self._waiters[group, ids] = _Waiters(group, ids, limits)
            full.waiting.add(waiters, waiters.group)
        waiters.keys[key] = None
        return None

    def change(self, slot: "Slot", limits: Sequence[Limit]) -> bool:
        """Count a turn against other limits, if those have room."""
        new = [limit for limit in limits if limit.key not in slot.ids]
        self._resize(new)
        if self._full(new) is not None:
            return False
        left = [key for key in slot.ids if all(key != limit.key for limit in limits)]
        self._count(new)
        slot.ids = tuple(limit.key for limit in limits)
        self.release(left)
        return True

    def _full(self, limits: Sequence[Limit]) -> "_Level[K] | None":
        """Find the first limit that is reached."""
        for limit in limits:
            level = self._levels.get(limit.key)
            if level is not None and level.inside >= level.most:
                return level
        return None

    def _resize(self, limits: Sequence[Limit]) -> None:
        """Take in what limits are now; a raised one lets parked keys come at once."""
        for limit in limits:
            level = self._levels.get(limit.key)
            if level is not None and level.most != limit.most:
                level.most = limit.most
                self._admit(limit.key)

    def _count(self, limits: Sequence[Limit]) -> None:
        """Count a turn."""
        for limit in limits:
            level = self._levels.get(limit.key)
            if level is None:
                level = self._levels[limit.key] = _Level(limit.most)
            level.inside += 1

    def release(self, ids: Sequence[Hashable]) -> None:
        """Count a turn no more, and let the next ones come; for slots alone."""
        for key in ids:
            self._levels[key].inside -= 1
        for key in ids:
            self._admit(key)

    def _admit(self, limit: Hashable) -> None:
        """Give free slots of a limit to those that are parked at it."""
        level = self._levels[limit]
        while level.inside < level.most:
            waiters = level.waiting.pop()
            if waiters is None:
                break
            self._serve(waiters, level)
        if not level.inside:
            del self._levels[limit]

    def _serve(self, waiters: "_Waiters[K]", level: "_Level[K]") -> None:
        """Keep a slot for the first of the waiters, or let it wait where it has to."""
        full = self._full(waiters.limits)
        if full is not None:
            full.waiting.add(waiters, waiters.group)
            return
        key, _ = waiters.keys.popitem(last=False)
        if waiters.keys:
            level.waiting.add(waiters, waiters.group)
        else:
            del self._waiters[waiters.group, waiters.ids]
        self._count(waiters.limits)
        self._kept.setdefault(key, []).append(Slot(self, waiters.ids))
        self._queue.add(key)


class Slot:
    """A turn as it is counted.

    Attributes:
        ids: of the limits that it counts against.
    """

    def __init__(self, limiter: ConcurrencyLimiter[Any], ids: _Ids) -> None:
        self._limiter = limiter
        self.ids = ids

    def change_to(self, limits: Sequence[Limit]) -> bool:
        """Go on under other limits, if these have room; else the turn is to end here."""
        return self._limiter.change(self, limits)

    def leave(self) -> None:
        """Be counted no more."""
        left, self.ids = self.ids, ()
        self._limiter.release(left)


@attrs.define(eq=False)
class _Waiters(Generic[K]):
    """Keys of one group whose turns count against the same limits.

    Attributes:
        ids: of the limits.
        keys: those that wait, in order; at least one.
    """

    group: Hashable
    ids: _Ids
    limits: Sequence[Limit]
    keys: OrderedDict[K, None] = attrs.field(factory=OrderedDict)


@attrs.define(eq=False)
class _Level(Generic[K]):
    """A limit in use.

    Attributes:
        most: how many turns it allows.
        inside: how many are counted.
        waiting: waiters that are parked at it: only while it is reached.
    """

    most: int
    inside: int = 0
    waiting: FairQueue[_Waiters[K]] = attrs.field(factory=FairQueue)
