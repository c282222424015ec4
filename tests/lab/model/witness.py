"""What a trace has shown so far: versions, and what each actor knows of each record.

Each step of a trace is noted here; `follow` says by it whether the step is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.lab.model import decisions, drained
from tests.lab.model.drained import Drain
from tests.lab.model.facts import Event, Facts


NEVER = float("-inf")
"""Before all moments."""
MARGIN = 2.0
"""Seconds for which a permission may be kept before its call is sent: of one that is sent
at a moment, Δ counts from so much before it."""


@dataclass(frozen=True)
class Refusal:
    """The step that is none of the model's, and why."""

    event: Event
    why: str

    def __str__(self) -> str:
        e = self.event
        what = f"{e.step} {e.op}".strip()
        return f"step {e.number}: {e.actor} may not {what} {e.record}: {self.why}"


@dataclass
class Memory:
    """What an actor knows of a record.

    Attributes:
        seen: the version that a turn observed last.
        kept: the versions that own updates made, for later turns to begin with, and
            when; an update may come while a turn goes on.
        claims: generations for which nobody else can have an ensure out.
        out_until: until when an own ensure may take effect that had no definite answer; for
            ever, where it is not known what came of one.
        running_until: the same of one that was answered by Running.
        inherited_at: until when the one before may have sent an ensure; nobody knows which.
        doubted: since it last left no mark behind, an own ensure had no definite answer,
            or the one before it may have sent one, as no step had shown the record.
        unheard: nothing was heard of an own write that cleared the mark.
        has_lock: on the record's address.
        said: for how long calls for the record's end may take effect, as that lock says.
        covered: the same, as this one has announced.
        ensured: the version under which an ensure succeeded.
        final: a deregister succeeded that counts.
        unanswered: until when an own call for the record's end may take effect that had no
            definite answer.
        unknown: for how long such calls may of which it is not known what came, from when
            they were sent; 0: there was none.
        inherited: until when the one before may have sent such a call; nobody knows which.
        drain: what it knows of the record's drain; None: that it has not begun.
    """

    seen: Facts | None = None
    kept: list[tuple[float, Facts]] = field(default_factory=list)
    claims: set[int] = field(default_factory=set)
    out_until: float = NEVER
    running_until: float = NEVER
    inherited_at: float = NEVER
    doubted: bool = False
    unheard: bool = False
    has_lock: bool = False
    said: float = 0.0
    covered: float = 0.0
    ensured: int | None = None
    final: bool = False
    unanswered: float = NEVER
    unknown: float = 0.0
    inherited: float = NEVER
    drain: Drain | None = None

    @property
    def doubts(self) -> bool:
        """Tell whether an ensure was without an answer, and none succeeded since its time."""
        return max(self.out_until, self.inherited_at) > NEVER

    def ensured_until(self, settling: float) -> float:
        """Tell until when an ensure may take effect.

        Args:
            settling: for how long one of the one before may.
        """
        return max(self.out_until, self.inherited_at + settling)


@dataclass(frozen=True)
class Takeover:
    """A lock that was taken from another record.

    Attributes:
        before: how that one took it; says for how long calls for its end may take effect.
    """

    event: Event
    before: Event


@dataclass
class Witness:
    """The model, as far as a trace has taken it.

    Attributes:
        keyed: drivers whose members are named after records.
        gone: when records may have ended at the earliest, whoever told of it first.
        locks: how each was taken by whoever holds it.
        covered: for how long calls for their ends may take effect, as was announced for
            records.
        drains: when each began and is to end, as it was first seen to be written.
        takeovers: locks taken from others, to be judged when all ends are known: who is
            paused tells of a release long after it was made.
        clean: records of whose end whoever let them go knows all calls that may be out:
            `unanswered` and `inherited`.
        heirs: of those that go by another one's name, how they began to.
    """

    keyed: frozenset[str]
    memories: dict[tuple[str, str], Memory] = field(default_factory=dict)
    versions: dict[tuple[str, int], Facts] = field(default_factory=dict)
    writes: list[tuple[Event, int, int]] = field(default_factory=list)
    drains: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    deleted: dict[str, float] = field(default_factory=dict)
    gone: dict[str, float] = field(default_factory=dict)
    locks: dict[str, Event] = field(default_factory=dict)
    covered: dict[str, float] = field(default_factory=dict)
    takeovers: list[Takeover] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    clean: dict[str, tuple[float, float]] = field(default_factory=dict)
    heirs: dict[str, Event] = field(default_factory=dict)

    def inherit(self, e: Event) -> str:
        """Let one go by another one's name, if nobody else does any more."""
        heirs = {heir for heir, how in self.heirs.items() if how.name == e.name}
        self.heirs[e.actor] = e
        works = ({e.name} | heirs) - self.ended
        return "who has that name may be at work" if works else ""

    def name_of(self, actor: str) -> str:
        """Return the name by which records know a deregistrar."""
        return self.heirs[actor].name if actor in self.heirs else actor

    def mark(self, actor: str, text: str) -> int:
        """Number a mark as the model does: 1 is one's own."""
        known = {
            "": decisions.NOBODY,
            "*": decisions.ANYBODY,
            "-": decisions.SIGNED_OFF,
            self._signs_as(actor): 1,
        }
        if text in known:
            return known[text]
        is_before = text.partition("/")[0] == self.name_of(actor)
        return 1 + decisions.BEFORE if is_before else 2

    def _signs_as(self, actor: str) -> str:
        """Return by which name a registrar signs."""
        return f"{self.name_of(actor)}/{actor}" if actor in self.heirs else actor

    def wanted(self, e: Event, memory: Memory, seen: Facts) -> int:
        """Say what the mark must be before an actor's next ensure."""
        now = self.mark(e.actor, seen.ensuring)
        settled = decisions.is_settled(seen.registered, now, seen.always)
        claims = seen.generation in memory.claims
        return decisions.mark_of(1, now, settled, claims, memory.unheard)

    def memory_of(self, actor: str, record: str) -> Memory:
        """Return what an actor knows of a record.

        Of one that was being deleted when it began, an heir knows no answer to the calls
        of the one before it; they were sent by then. If it knows what that one knew, it
        is so for the call alone that was out then.
        """
        if (actor, record) not in self.memories:
            self.memories[actor, record] = self._fresh(actor, record)
        return self.memories[actor, record]

    def _fresh(self, actor: str, record: str) -> Memory:
        """Return what an actor knows of a record before its first step."""
        how = self.heirs.get(actor)
        if how is None:
            return Memory()
        if how.recalls:
            return self._recalled(self.memory_of(how.recalls, record), how)
        doubts = self.deleted.get(record, float("inf")) < how.began
        sent_at = how.began - MARGIN
        last = self._last_version(record)
        return Memory(
            inherited=sent_at if doubts else NEVER,
            inherited_at=sent_at if last and self._is_unsettled(last) else NEVER,
            # Who created it may have been killed before the answer: it is not known
            # whether the heir found it when it began.
            doubted=last is None,
        )

    @staticmethod
    def _recalled(before: Memory, how: Event) -> Memory:
        """Return what an heir knows that knows what the one before it knew.

        Of a call that was out when that one ended, it knows that it was sent by then.
        """
        known = Memory(
            unanswered=before.unanswered,
            inherited=before.inherited,
            inherited_at=before.inherited_at,
        )
        sent_at = how.began - MARGIN
        if before.unknown:
            known.unanswered = max(known.unanswered, sent_at + before.unknown)
        out_until = max(before.out_until, before.running_until)
        if out_until < float("inf"):
            known.out_until = out_until
        else:
            known.inherited_at = sent_at
        return known

    def _last_version(self, record: str) -> Facts | None:
        """Return a record as it was last seen by anybody; None: nobody has."""
        known = [version for of, version in self.versions if of == record]
        return self.versions[record, max(known)] if known else None

    def _is_unsettled(self, last: Facts) -> bool:
        """Tell whether an ensure of a record may be out, by what is known of it."""
        mark = self.mark("", last.ensuring)
        return not decisions.is_settled(last.registered, mark, last.always)

    def learn_version(self, e: Event) -> str:
        """Note a version; what it says can never change, nor can its drain's clock.

        Whoever moves that may have got no answer to the write.
        """
        for shown in (e.based_on, e.now):
            if shown is None:
                continue
            known = self.versions.setdefault((e.record, shown.version), shown)
            if known != shown:
                return f"version {shown.version} was another before"
            clock = (shown.drain_started, shown.drain_deadline)
            if clock[1] is None:
                continue
            first = self.drains.setdefault(e.record, clock)
            if first != clock:
                return f"the drain's clock was {first}, and is written down once"
        return ""

    def observe(self, e: Event, memory: Memory) -> None:
        """Take in the record as the outcome shows it."""
        if e.outcome in ("conflicted", "gone", "covered"):
            memory.seen = None
        ended = e.outcome in ("gone", "released")
        if ended or (e.step == "release" and e.outcome == "unknown"):
            self.gone[e.record] = min(self.gone.get(e.record, e.began), e.began)
        if e.now is not None and e.step == "update":
            memory.kept.append((e.ended, e.now))
        elif e.now is not None:
            memory.seen = e.now
            memory.drain = drained.shown(memory.drain, e.now, e)
        changes = e.step in ("write", "update", "release") and e.of is not None
        if changes and e.now is not None and e.outcome == "observed":
            self.writes.append((e, e.of or 0, e.now.version))

    def lost_update(self) -> Refusal | None:
        """Find a write that overwrote a version it had not read."""
        for event, before, after in self.writes:
            for record, version in self.versions:
                if record == event.record and before < version < after:
                    why = f"version {version} lies between {before} and {after}"
                    return Refusal(event, f"not a compare-and-swap: {why}")
        return None

    def early_takeover(self) -> Refusal | None:
        """Find a lock that was taken while a call of its last holder might be out."""
        for takeover in self.takeovers:
            event, holder = takeover.event, takeover.before.record
            if holder not in self.gone:
                return Refusal(event, f"{holder} holds the lock, and exists")
            announced = self.covered.get(holder, 0.0)
            said = takeover.before.settling
            wait = max(event.driver.end_settling, said, announced)
            since = event.ended - self.gone[holder]
            waits = not self._is_clean(holder, event.ended, wait)
            if since < 0 or (since < wait and waits):
                return Refusal(event, f"{holder} ended {since:.3f} s ago, not {wait} s")
        return None

    def _is_clean(self, holder: str, now: float, wait: float) -> bool:
        """Tell whether all calls for an end are over, as whoever made it knows."""
        if holder not in self.clean:
            return False
        unanswered, inherited = self.clean[holder]
        return unanswered <= now and inherited + wait <= now


def basis(witness: Witness, e: Event, memory: Memory) -> Facts | str:
    """Return the version that permits a step, or why none does.

    That is what the turn observed last, or an own update that is newer: one that is older
    than what the turn has observed, or written, since may hide that it has signed off.
    With members named after their records, any that shows the deletion will do.
    """
    shown = e.based_on
    if shown is not None and shown.deleting and shown.driver in witness.keyed:
        return shown
    seen = memory.seen
    known = [facts for at, facts in memory.kept if at <= e.began]
    kept = known[-1] if known else None
    newest = seen
    if kept is not None and (seen is None or kept.version >= seen.version):
        newest = kept
    for facts in (seen, newest):
        if facts is not None and e.of == facts.version:
            return facts
    if newest is None:
        return "without having observed the record since it changed"
    return f"on version {e.of}, and has observed {newest.version} since"
