"""Turns a phase into figures: how long, how often, how much, and how near to the floor.

`scenario` has phases measured, `report` prints what is made of them here.
"""

from collections.abc import Iterable, Mapping

import attrs

from tests.lab.bench import calls, ledger
from tests.lab.bench.calls import Spread
from tests.lab.bench.ground import OURS, Ground, Phase
from tests.lab.bench.ledger import Entry


MADE = "create pods"
READY = "patch pods/status"
DELETED = "delete pods"
STATUS = "patch backendrecords/status"
RELEASED = "patch backendrecords"

Names = Mapping[str, str]
"""Addresses by the names of pods."""


@attrs.define
class Outcome:
    """The figures of one phase; times in seconds, memory in bytes.

    Attributes:
        size: pods, or records, of the scenario.
        lifecycles: how many registrations, deregistrations or both it had.
        seconds: from the users' first request to our last write.
        floor: the same for the users' requests and a bare loop's writes.
        spreads: times from one event to another, by what they are.
        requests: of our programs to the API server, by program and kind.
        writes: how many of these were writes, elections left out.
        driver: operations on members by their outcomes, of batches each item.
        asked: calls of the driver about members; a batch is one.
        cpu: by program.
        resident: by program, at the end.
        peak: by program.
        lag: worst delay of an event loop, by program.
        machine: CPU seconds of all that ran on the machine.
    """

    size: int
    name: str
    seconds: float
    lifecycles: int = 0
    floor: float | None = None
    spreads: dict[str, Spread] = attrs.Factory(dict)
    requests: dict[str, dict[str, int]] = attrs.Factory(dict)
    writes: int = 0
    driver: dict[str, int] = attrs.Factory(dict)
    asked: int = 0
    cpu: dict[str, float] = attrs.Factory(dict)
    resident: dict[str, int] = attrs.Factory(dict)
    peak: dict[str, int] = attrs.Factory(dict)
    lag: dict[str, float] = attrs.Factory(dict)
    machine: float = 0.0

    @property
    def ratio(self) -> float | None:
        """Say how many times the floor it took."""
        return self.seconds / self.floor if self.floor else None

    @property
    def our_cpu(self) -> float:
        """Return the CPU seconds of both our programs."""
        return sum(self.cpu.get(name, 0.0) for name in OURS)

    @property
    def others_cpu(self) -> float:
        """Return the CPU seconds of whoever has nothing to do with it."""
        return self.machine - sum(self.cpu.values())


def outcome(ground: Ground, phase: Phase, name: str, size: int) -> Outcome:
    """Sum a phase up; its times go from begin to end of the phase."""
    ours = {name: ground.users[name] for name in OURS}
    by_user = {n: [e for e in phase.entries if e.user == u] for n, u in ours.items()}
    return Outcome(
        size=size,
        name=name,
        seconds=phase.ended - phase.began,
        requests={n: ledger.counted(entries) for n, entries in by_user.items()},
        writes=sum(
            1
            for entries in by_user.values()
            for e in entries
            if e.is_write and e.resource != "leases"
        ),
        driver=calls.counted(phase.calls),
        asked=phase.asked,
        cpu={n: used.cpu for n, used in phase.usage.items()},
        resident={n: used.resident for n, used in phase.usage.items()},
        peak={n: used.peak for n, used in phase.usage.items()},
        lag=phase.lag,
        machine=phase.machine,
    )


def _answered(entries: Iterable[Entry], what: str) -> dict[str, float]:
    """Say when requests of a kind were last answered well, by name of the object."""
    return {e.name: e.answered for e in entries if e.what == what and e.code < 300}


def _received(entries: Iterable[Entry], what: str) -> dict[str, float]:
    """Say when requests of a kind came in, by name of the object."""
    return {e.name: e.received for e in entries if e.what == what and e.code < 300}


def _by_pod(records: Mapping[str, float]) -> dict[str, float]:
    """Name records by their pods: `group-pod-port-hash`."""
    return {name.rsplit("-", 2)[0].partition("-")[2]: t for name, t in records.items()}


def _at(names: Names, moments: Mapping[str, float]) -> dict[str, float]:
    """Name moments by addresses instead of pods."""
    return {names[name]: t for name, t in moments.items() if name in names}


def time_registration(found: Outcome, phase: Phase, names: Names) -> None:
    """Say how long registering took, in all and for one pod."""
    begun = _received(phase.entries, MADE)
    ready = _at(names, _answered(phase.entries, READY))
    written = _at(names, _by_pod(_answered(phase.entries, STATUS)))
    called = calls.first_began(phase.calls, "ensureBackend")
    found.seconds = max(written.values()) - min(begun.values())
    _keep(found, "ready to first call", calls.between(ready, called))
    _keep(found, "ready to Registered", calls.between(ready, written))


def time_deregistration(found: Outcome, phase: Phase, names: Names) -> None:
    """Say how long deregistering took, in all and for one pod."""
    deleted = _received(phase.entries, DELETED)
    at = _at(names, deleted)
    called = calls.first_began(phase.calls, "drainBackend", "deregisterBackend")
    released = _at(names, _by_pod(_answered(phase.entries, RELEASED)))
    marked = _at(names, _by_pod(_answered(phase.entries, "delete backendrecords")))
    found.seconds = max(released.values()) - min(deleted.values())
    _keep(found, "all deletions by users", calls.spread([_length(deleted)]))
    _keep(found, "deletion to record deleted", calls.between(at, marked))
    _keep(found, "deletion to first call", calls.between(at, called))
    _keep(found, "deletion to released", calls.between(at, released))


def _length(moments: Mapping[str, float]) -> float:
    """Return the time from the first moment to the last."""
    return max(moments.values()) - min(moments.values())


def _keep(found: Outcome, name: str, spread: Spread | None) -> None:
    """Keep a spread, if there was anything."""
    if spread is not None:
        found.spreads[name] = spread


def floor_seconds(entries: Iterable[Entry], first: str) -> float:
    """Say how long users and the bare loop took, from the users' first request on."""
    known = list(entries)
    begun = min(e.received for e in known if e.what == first)
    return max(e.answered for e in known) - begun
