"""What a run may cost, and whether an address was ever two Services' at once. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

import attrs

from tests.lab.bench.verdict import Line


OF_RECORDS = "backendrecords"
OF_EVENTS = "events"

MOST_OF_ROLL = 4.1
"""Writes of a record's life in a roll, where one ends as another begins: as those of a group's
(docs/performance.md)."""

MOST_OF_RECORD = 4.6
"""The same over the whole run: a record whose load balancer is being made says so first."""

MOST_OF_SERVICE = 32.0
"""Writes of a Service's life to itself and to what is derived from it, and to its class; none of
records, no Events."""

MOST_OF_KILL = 40.0
"""Writes beside for each kill of the controller: of up to 32 that were under way nobody knows
whether they were made."""


@attrs.frozen
class Cost:
    """Writes of our processes, by what they are to.

    Attributes:
        records: BackendRecords.
        derived: Services, their LoadBalancers and BackendGroups, and their class.
        events: Events.
    """

    records: int
    derived: int
    events: int


def cost_of(writes: Mapping[str, int]) -> Cost:
    """Sum up writes that are counted by verb and resource, as `patch services/status`."""
    sums: Counter[str] = Counter()
    for name, count in writes.items():
        sums[name.split()[1].partition("/")[0]] += count
    records, events = sums.pop(OF_RECORDS, 0), sums.pop(OF_EVENTS, 0)
    return Cost(records, sums.total(), events)


def bounds(
    phases: Mapping[str, Mapping[str, int]], services: int, pods: int, kills: int
) -> list[Line]:
    """Return what a run cost, and what it may cost.

    Args:
        phases: writes of each phase, counted by verb and resource.
        services: how many there were.
        pods: how many there were of all Services at a time; a roll replaced all of them.
        kills: of the controller, as many in each phase.
    """
    cost = {name: cost_of(writes) for name, writes in phases.items()}
    records = sum(one.records for one in cost.values())
    derived = sum(one.derived for one in cost.values())
    again = kills * MOST_OF_KILL
    in_roll = again / len(phases)
    return [
        Line(
            "writes of a record's life in the roll",
            cost["rolled"].records / pods,
            MOST_OF_ROLL + in_roll / pods,
        ),
        Line(
            "writes of a record's life",
            records / (2 * pods),
            MOST_OF_RECORD + again / (2 * pods),
        ),
        Line(
            "writes of a Service's life, records and Events apart",
            derived / services,
            MOST_OF_SERVICE + again / services,
        ),
    ]


@attrs.define
class Held:
    """Who has which address, by what a watch tells in its order.

    Attributes:
        addresses: by name.
        twice: what was ever held by two at once.
        ever: all addresses that anybody ever had.
    """

    addresses: dict[str, str] = attrs.field(factory=dict)
    twice: list[str] = attrs.field(factory=list)
    ever: set[str] = attrs.field(factory=set)

    @property
    def seen(self) -> int:
        """How many addresses were ever given."""
        return len(self.ever)

    def take(self, line: str) -> None:
        """Take `ADDED NAME ADDRESS`, or the like; an address may be unsaid."""
        kind, name, *said = line.split()
        self.addresses.pop(name, None)
        if kind == "DELETED" or not said:
            return
        others = [one for one, has in self.addresses.items() if has == said[0]]
        self.twice += [f"{said[0]} of {one} and {name}" for one in others]
        self.addresses[name] = said[0]
        self.ever.add(said[0])


def taken(lines: Iterable[str]) -> Held:
    """Return what a whole watch tells."""
    held = Held()
    for line in lines:
        held.take(line)
    return held
