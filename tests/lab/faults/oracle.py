"""Says which promise a run broke, and where in its history.

    S1  no address is registered before a record that names it exists
    S2  when a record is gone, its member is gone, and does not come back
    S3  the member of a record that lives is neither drained nor removed
    S4  a finalizer goes only after a deregistration that succeeded
    S5  in the end the members are those of the living records, as they should be

Each rule only uses what must have been so: a record exists no later than the moment at
which the API server's word of it passed by, a call acts between its begin and its end,
a write does between its request and its answer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from tests.lab.faults.history import Effect, History, Member, Sight


DEREGISTER = "deregisterBackend"
DRAIN = "drainBackend"
ENSURE = "ensureBackend"
DONE = frozenset({"Succ", "NotThere"})
"""How a call ends whose task is done: the SDK answers `Succ` where nothing is there."""


@attrs.frozen
class Violation:
    """A promise that was broken, and how."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


def judge(history: History) -> list[Violation]:
    """Name every violation of S1 to S4; S5 is judged where a run should be at rest."""
    return [violation for rule in _RULES for violation in rule(history)]


def _named(history: History) -> Mapping[tuple[str, str], float]:
    """Since when a record could be known to name an address."""
    since: dict[tuple[str, str], float] = {}
    for sight in history.sights:
        if sight.address:
            key = (sight.uid, sight.address)
            since[key] = min(sight.at, since.get(key, sight.at))
    return since


def _first(history: History, found: Callable[[Sight], bool]) -> Mapping[str, float]:
    """Since when a record could be known to be so."""
    since: dict[str, float] = {}
    for sight in history.sights:
        if found(sight):
            since[sight.uid] = min(sight.at, since.get(sight.uid, sight.at))
    return since


def _written_before_done(history: History) -> Iterator[Violation]:
    """S1."""
    named = _named(history)
    for call in history.calls:
        if call.operation != ENSURE:
            continue
        since = named.get((call.uid, call.address))
        if since is None or since > call.began:
            yield Violation(
                "S1",
                f"{call.address} was ensured at {call.began:.3f} for record {call.uid}, "
                f"which nobody saw naming it before {since or float('inf'):.3f}",
            )


def _no_leak(history: History) -> Iterator[Violation]:
    """S2: replay the members, and look at each from its record's release on."""
    released = {release.uid: release for release in history.releases}
    for present in _presences(history):
        release = released.get(present.uid)
        if release is not None and present.until > release.began:
            yield Violation(
                "S2",
                f"{present.address} was a member from {present.since:.3f} to "
                f"{present.until:.3f} for record {present.uid}, which was let go at "
                f"{release.began:.3f}",
            )


@attrs.frozen
class _Presence:
    """From when until when a member was there for a record."""

    uid: str
    address: str
    since: float
    until: float


def _presences(history: History) -> Iterator[_Presence]:
    """Replay the driver's changes."""
    present: dict[str, Effect] = {}
    for effect in history.effects:
        key = effect.by if history.by_record else effect.address
        if (last := present.pop(key, None)) is not None:
            yield _Presence(last.by, last.address, last.at, effect.at)
        if effect.ensured:
            present[key] = effect
    for last in present.values():
        yield _Presence(last.by, last.address, last.at, float("inf"))


def _no_wrong_removal(history: History) -> Iterator[Violation]:
    """S3."""
    deleting = _first(history, lambda sight: sight.deleting)
    for call in history.calls:
        known = deleting.get(call.uid, float("inf"))
        if call.operation in {DEREGISTER, DRAIN} and call.began < known:
            yield Violation(
                "S3",
                f"{call.operation} of {call.address} at {call.began:.3f} for record "
                f"{call.uid}, whose deletion nobody saw before {known:.3f}",
            )
    for effect in history.effects:
        theirs = effect.before not in {"", effect.by}
        known = deleting.get(effect.before, float("inf"))
        if not effect.ensured and theirs and effect.at < known:
            yield Violation(
                "S3",
                f"{effect.address} of the living record {effect.before} was removed at "
                f"{effect.at:.3f} by the end of record {effect.by}",
            )


def _released_when_out(history: History) -> Iterator[Violation]:
    """S4."""
    had_address = {uid for uid, _ in _named(history)}
    out: dict[str, float] = {}
    for call in history.calls:
        succeeded = call.operation == DEREGISTER and call.outcome in DONE
        if succeeded and call.ended is not None:
            out[call.uid] = min(call.ended, out.get(call.uid, call.ended))
    for release in history.releases:
        done = out.get(release.uid, float("inf"))
        if release.uid in had_address and done > release.began:
            yield Violation(
                "S4",
                f"record {release.uid} was let go at {release.began:.3f}, and "
                f"deregistered at {done:.3f} at the earliest",
            )


_RULES: Sequence[Callable[[History], Iterator[Violation]]] = (
    _written_before_done,
    _no_leak,
    _no_wrong_removal,
    _released_when_out,
)


def differences(
    members: Sequence[Member],
    records: Sequence[Sight],
    wanted: Mapping[str, Mapping[str, str]],
) -> list[Violation]:
    """Compare what is with what should be, once nothing is wrong any more.

    Args:
        members: of the load balancer.
        records: all that there are.
        wanted: parameters by address.
    """
    found: list[str] = []
    living = {record.uid: record for record in records if not record.deleting}
    found += [f"record {r.name} is not gone" for r in records if r.deleting]
    found += [f"record {r.name} is not Registered" for r in living.values()
              if not r.registered]  # fmt: skip
    found += [f"{m.address} is a member of nobody" for m in members
              if m.uid not in living]  # fmt: skip
    found += [f"{m.address} is still draining" for m in members if not m.active]
    addresses = sorted(member.address for member in members)
    if addresses != sorted(wanted):
        found.append(f"members are {addresses}, not {sorted(wanted)}")
    named = sorted(record.address for record in living.values())
    if named != sorted(wanted):
        found.append(f"records name {named}, not {sorted(wanted)}")
    for member in members:
        parameters = wanted.get(member.address, member.parameters)
        if member.parameters != parameters:
            found.append(
                f"{member.address} has {dict(member.parameters)}, not {dict(parameters)}"
            )
    return [Violation("S5", text) for text in found]
