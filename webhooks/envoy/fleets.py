"""The Envoys of each fleet: which are there, and what all of them have taken up.

An Envoy whose stream broke may be serving still, with what it had. So it counts for as
long as it may take to come back; only then is it taken for gone. Which Envoys there were
is on disk: a driver that starts waits for them as well.
"""

import asyncio
import contextlib

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import timedelta

import attrs

from webhooks.envoy.errors import (
    EnvoyError,
    Foreign,
    NotYet,
    Rejected,
    TurnedAway,
    TurnedAwayFor,
)
from webhooks.envoy.loads import IDLE_INTERVAL, INTERVAL, Reporting
from webhooks.envoy.messages import Node
from webhooks.envoy.resources import Kind, Resource, Snapshot
from webhooks.envoy.sessions import Session


MOST_FLEETS = 1000
"""Values of `node.cluster` that Envoys have and no load balancer does."""

MOST_ENVOYS = 1000
"""Envoys of one fleet, connected or waited for."""

MOST_STREAMS = 10
"""Streams of one kind of one Envoy: a hot restart has two for a while."""


@attrs.define(eq=False)
class Fleet:
    """All Envoys with one `node.cluster`.

    Attributes:
        name: the `node.cluster`.
        resources: what they shall have.
        sessions: streams that are open.
        reports: by `node.id`, its streams of load reports.
        left_at: Envoys without a stream, and since when.
        draining: names of load balancers with a member that drains.
    """

    name: str
    resources: dict[Kind, dict[str, Resource]] = attrs.field(
        factory=lambda: {kind: {} for kind in Kind}
    )
    sessions: set[Session] = attrs.field(factory=set)
    reports: dict[str, list[Reporting]] = attrs.field(factory=dict)
    left_at: dict[str, float] = attrs.field(factory=dict)
    draining: set[str] = attrs.field(factory=set, init=False)
    _changed: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _due: set[asyncio.Event] = attrs.field(factory=set, init=False)

    @property
    def snapshot(self) -> Snapshot:
        """What they shall have."""
        return self.resources

    def connected(self) -> Sequence[str]:
        """Return the Envoys that are."""
        return sorted({one.envoy for one in self.sessions})

    @property
    def is_needed(self) -> bool:
        """Whether it has load balancers, or an Envoy that is, or may be, there."""
        has_resources = any(self.resources.values())
        return bool(has_resources or self.sessions or self.reports or self.left_at)

    @property
    def report_every(self) -> float:
        """How often load reports are needed, in seconds: drains alone wait for them."""
        return INTERVAL if self.draining else IDLE_INTERVAL

    @contextlib.contextmanager
    def streaming(self) -> Iterator[asyncio.Event]:
        """Return what is set whenever streams are to look at what they owe, for a block."""
        due = asyncio.Event()
        self._due.add(due)
        try:
            yield due
        finally:
            self._due.discard(due)

    def tell(self) -> None:
        """Have each stream look at what it owes: as many steps as there are Envoys."""
        for due in self._due:
            due.set()
        self.heard()

    def heard(self) -> None:
        """Wake the operations that wait for an Envoy to say, or be, something else."""
        self._changed.set()
        self._changed = asyncio.Event()

    def try_refused(self) -> None:
        """Have each Envoy sent once more what it does not take: the cause may be gone."""
        tried = [session.try_refused() for session in self.sessions]
        if any(tried):
            self.tell()

    def change(self) -> Coroutine[None, None, bool]:
        """Return what waits until something is heard next, from now on.

        A coroutine function would look at the event only when its task begins: what is heard
        between would be lost.
        """
        return self._changed.wait()

    def put(self, resources: Sequence[Resource]) -> None:
        """Have a load balancer be so."""
        for one in resources:
            self.resources[one.kind][one.name] = one
            if one.kind is Kind.ENDPOINTS:
                self._note(one.name, drains=bool(one.draining))
        self.tell()

    def take_away(self, name: str) -> None:
        """Have a load balancer be no more."""
        for known in self.resources.values():
            known.pop(name, None)
        self._note(name, drains=False)
        self.tell()

    def _note(self, name: str, *, drains: bool) -> None:
        """Note whether a load balancer has members that drain."""
        (self.draining.add if drains else self.draining.discard)(name)

    def left(
        self, name: str, address: str, settling: float
    ) -> Mapping[str, int | None]:
        """Return the Envoys that have something left at a draining address, and how much.

        Args:
            name: of the load balancer.
            address: of the member.
            settling: seconds after which no request can be on its way there unseen.

        Returns:
            counts by Envoy; None: it has not reported since.
        """
        since: dict[str, float] = {}
        for session in self.sessions:
            drained_at = session.drained_since.get(name, {}).get(address)
            if drained_at is not None:  # else it has no such member
                known_at = since.get(session.envoy, drained_at)
                since[session.envoy] = max(known_at, drained_at)
        # While one restarts hot it is two processes, each with streams of its own.
        processes = Counter(session.envoy for session in self.sessions)
        found: dict[str, int | None] = {}
        for envoy, at in since.items():
            reports = self.reports.get(envoy, ())
            counts = [one.left(name, address, at + settling) for one in reports]
            known = [one for one in counts if one is not None]
            is_whole = len(known) == len(counts) >= processes[envoy]
            found[envoy] = sum(known) if is_whole else None
        return {envoy: count for envoy, count in found.items() if count != 0}

    def objection(
        self, name: str, absent: Sequence[str], *, members_alone: bool
    ) -> EnvoyError | None:
        """Return why not all Envoys have a load balancer as it shall be; None: they do.

        Args:
            name: of it.
            absent: Envoys without a stream that count.
            members_alone: whether listener and cluster do not matter.
        """
        snapshot = self.snapshot
        late: list[str] = []
        for session in self.sessions:
            if session.is_foreign(name):
                return _foreign(session.envoy, name)
            has = session.has_members if members_alone else session.has_all
            if has(name, snapshot):
                continue
            kinds = [Kind.ENDPOINTS] if members_alone else Kind
            refused = session.refusal(name, snapshot, kinds)
            if refused is not None:
                return Rejected(f"Envoy {session.envoy} refused it: {refused.text}")
            late.append(session.envoy)
        if absent:
            return NotYet(
                f"Envoy {some(absent)} of fleet {self.name!r} is not connected, and may "
                "be serving with what it had"
            )
        if late:
            return NotYet(f"Envoy {some(sorted({*late}))} has not acknowledged it yet")
        return None


def some(names: Sequence[str]) -> str:
    """Return the first names, and how many there are beside."""
    shown = ", ".join(names[:3])
    more = len(names) - 3
    return f"{shown} (and {more} more)" if more > 0 else shown


def _foreign(envoy: str, name: str) -> Foreign:
    """Return what to say of an Envoy with somebody else's state."""
    return Foreign(
        f"Envoy {envoy} has {name} from a driver with another state directory, so it is "
        "left as it is: give this driver that directory, or restart the Envoy if it is lost"
    )


@attrs.define(eq=False)
class Fleets:
    """All fleets.

    Attributes:
        now: the monotonic clock, in seconds.
        forget_after: when an Envoy without a stream is taken for gone.
    """

    now: Callable[[], float]
    forget_after: timedelta
    _fleets: dict[str, Fleet] = attrs.field(factory=dict, init=False)
    _unsaved: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def fleet(self, name: str) -> Fleet:
        """Return a fleet, which is kept for as long as it is needed."""
        return self._fleets.setdefault(name, Fleet(name))

    def peek(self, name: str) -> Fleet:
        """Return a fleet, or an empty one that nobody else sees."""
        return self._fleets.get(name) or Fleet(name)

    def __iter__(self) -> Iterator[Fleet]:
        return iter(tuple(self._fleets.values()))

    def tidy(self, fleet: Fleet) -> None:
        """Keep nothing of a fleet that has neither load balancers nor Envoys."""
        if not fleet.is_needed and self._fleets.get(fleet.name) is fleet:
            del self._fleets[fleet.name]

    def remember(self, known: Mapping[str, Sequence[str]]) -> None:
        """Expect these Envoys to come back."""
        now = self.now()
        for name, envoys in known.items():
            if envoys:
                self.fleet(name).left_at.update(dict.fromkeys(envoys, now))

    def refusal(self, node: Node) -> TurnedAway | None:
        """Return why an Envoy can have no stream more, and what to do; None: it can."""
        fleet = self.peek(node.fleet)
        idle = sum(not any(one.resources.values()) for one in self)
        if node.fleet not in self._fleets and idle >= MOST_FLEETS:
            return TurnedAway(
                TurnedAwayFor.MOST_FLEETS,
                f"{idle} fleets without a load balancer have Envoys: start Envoys with the "
                "node.cluster that LoadBalancers name as fleet",
            )
        envoys = {*fleet.connected(), *fleet.reports, *fleet.left_at}
        if node.envoy not in envoys and len(envoys) >= MOST_ENVOYS:
            return TurnedAway(
                TurnedAwayFor.MOST_ENVOYS,
                f"fleet {fleet.name!r} has {len(envoys)} Envoys, and more are not served: "
                "start others with another node.cluster, as a fleet of their own",
            )
        streams = [one for one in fleet.sessions if one.envoy == node.envoy]
        reports = fleet.reports.get(node.envoy, ())
        if max(len(streams), len(reports)) >= MOST_STREAMS:
            return TurnedAway(
                TurnedAwayFor.MOST_STREAMS,
                f"{MOST_STREAMS} streams of Envoy {node.envoy} are open: give each Envoy "
                "of the fleet a node.id of its own",
            )
        return None

    def expire(self) -> None:
        """Forget the Envoys that were away for too long, in all fleets."""
        for fleet in self:
            self.absent(fleet)

    def absent(self, fleet: Fleet) -> Sequence[str]:
        """Return the Envoys without a stream that may be serving; forget the others."""
        oldest = self.now() - self.forget_after.total_seconds()
        gone = [one for one, at in fleet.left_at.items() if at < oldest]
        for envoy in gone:
            del fleet.left_at[envoy]
        if gone:
            self._unsaved.set()
            fleet.heard()
            self.tidy(fleet)
        return sorted(fleet.left_at)

    def known(self) -> Mapping[str, Sequence[str]]:
        """Return all Envoys that are, or may be, there."""
        found = {one.name: sorted({*one.connected(), *one.left_at}) for one in self}
        return {name: envoys for name, envoys in found.items() if envoys}

    async def unsaved(self) -> None:
        """Wait until `known` may have changed."""
        await self._unsaved.wait()
        self._unsaved.clear()

    def enter(self, fleet: Fleet, session: Session) -> None:
        """Have a stream count."""
        fleet.sessions.add(session)
        fleet.left_at.pop(session.envoy, None)
        self._unsaved.set()
        fleet.heard()

    def leave(self, fleet: Fleet, session: Session) -> None:
        """Have a stream count no more.

        An Envoy that had nothing of ours, and was to have nothing, serves nothing.
        """
        fleet.sessions.discard(session)
        may_serve = session.has_any or any(fleet.resources.values())
        if may_serve and session.envoy not in fleet.connected():
            fleet.left_at[session.envoy] = self.now()
        self._unsaved.set()
        fleet.heard()
        self.tidy(fleet)

    def report(self, node: Node) -> Reporting:
        """Return where a stream of load reports is kept."""
        reporting = Reporting()
        self.fleet(node.fleet).reports.setdefault(node.envoy, []).append(reporting)
        return reporting

    def end_report(self, node: Node, reporting: Reporting) -> None:
        """Forget a stream of load reports."""
        fleet = self.fleet(node.fleet)
        fleet.reports[node.envoy].remove(reporting)
        if not fleet.reports[node.envoy]:
            del fleet.reports[node.envoy]
        self.tidy(fleet)
