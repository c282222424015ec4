"""What goes wrong in a run, sampled from a seed.

The kinds of faults come from a deck that is shuffled by the seed and dealt again and
again: a small sample has many kinds in it, and the same seed is the same sample.
"""

# ruff: noqa: S311 - a sample that can be drawn again is the point

import random

from collections.abc import Iterator
from enum import StrEnum

import attrs

from lbcf.runtime.failpoints import Mode
from tests.lab.faults.troubles import Trouble


ROLES = ("controller", "deregistrar")
EFFECTS = {"controller": 28, "deregistrar": 18}
"""About how many effects a scenario has, by role (measured); failpoints lie there."""
SCRIPT = 3.5
"""Seconds of the script, about, within which faults begin."""
LEASE = 15.0


class Kind(StrEnum):
    """How a run goes wrong."""

    FAILPOINT = "failpoint"
    KILL = "kill"
    TWINS = "twins"
    """Two replicas that both think they lead, one of them paused for some seconds."""
    PAUSED_LEADER = "paused-leader"
    """The leader is stopped for longer than its Lease, and wakes up beside another."""
    TROUBLE = "trouble"
    """Something between a process and the API server."""


@attrs.frozen
class Plan:
    """One run.

    Attributes:
        number: of the run.
        role: whose fault it is.
        at: seconds from the begin of the script to the fault.
        seconds: how long it lasts, where it does.
        times: how often it happens, where that is a number.
        failpoint: in the spelling of its variable.
        by_record: whether the driver tells members apart by their records.
        latency: seconds that the driver takes to answer.
        late: the part of the driver's effects that come after its answer.
    """

    number: int
    kind: Kind
    role: str
    at: float
    seconds: float
    times: int
    by_record: bool
    latency: float
    late: float = 0.0
    failpoint: str = ""
    trouble: Trouble | None = None

    def __str__(self) -> str:
        """Name it, for people and for a repetition."""
        what = self.failpoint or self.trouble or self.kind
        keyed = "record" if self.by_record else "address"
        return (
            f"#{self.number} {self.kind} {what} of the {self.role} at {self.at:.2f} s "
            f"for {self.seconds:.1f} s or {self.times} times, driver by {keyed}, "
            f"{self.latency:.2f} s per call, {self.late:.0%} late"
        )


DECK: tuple[tuple[Kind, Trouble | None], ...] = (
    *((Kind.FAILPOINT, None) for _ in range(11)),
    *((Kind.KILL, None) for _ in range(2)),
    *((Kind.TWINS, None) for _ in range(2)),
    (Kind.PAUSED_LEADER, None),
    *((Kind.TROUBLE, trouble) for trouble in Trouble),
)


def plans(seed: int, count: int) -> Iterator[Plan]:
    """Sample so many runs; more of them begin with the same ones."""
    chance = random.Random(seed)
    deck: list[tuple[Kind, Trouble | None]] = []
    for number in range(count):
        if not deck:
            deck = list(DECK)
            chance.shuffle(deck)
        kind, trouble = deck.pop()
        yield _plan(number, kind, trouble, random.Random(f"{seed}/{number}"))


def _plan(
    number: int, kind: Kind, trouble: Trouble | None, chance: random.Random
) -> Plan:
    """Sample one run of a kind."""
    role = chance.choice(ROLES)
    plan = Plan(
        number=number,
        kind=kind,
        role=role,
        at=chance.uniform(0.0, SCRIPT),
        seconds=chance.uniform(0.5, 3.0),
        times=chance.randint(1, 4),
        by_record=chance.random() < 0.7,
        latency=chance.choice((0.0, 0.0, 0.1, 0.3)),
        late=chance.choice((0.0, 0.0, 0.3)),
        trouble=trouble,
    )
    if kind is Kind.FAILPOINT:
        return attrs.evolve(plan, failpoint=_failpoint(role, chance))
    if kind is Kind.PAUSED_LEADER:
        return attrs.evolve(plan, seconds=LEASE + chance.uniform(2.0, 5.0))
    return plan


def _failpoint(role: str, chance: random.Random) -> str:
    """Sample a failpoint."""
    effect = chance.randint(1, EFFECTS[role])
    mode = chance.choice(tuple(Mode))
    hang = f":{chance.uniform(0.5, 8.0):.1f}" if mode is Mode.HANG_BEFORE else ""
    return f"{effect}:{mode}{hang}"
