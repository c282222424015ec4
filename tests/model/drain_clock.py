"""S4: a drain ends in time, however often the deregistrar ends; and in full.

One record, a drain of so many ticks, so much time in which no deregistrar runs, and a
crash at any moment. Three clocks are compared; the built one is written at the first call
that has to wait.
"""

from __future__ import annotations

from typing import NamedTuple


TIMEOUT = 4
DOWNTIME = 3
CRASHES = (0, 1, 2, 3, 6)


class Drain(NamedTuple):
    """A moment of a drain.

    Attributes:
        age: ticks since the deletion.
        known: ticks since this incarnation began to drain, -1 if it has not.
        written: the age at which the drain was first written down, -1 if it was not.
        crashes: how many are left.
        downtime: how much is left.
        runs: whether a deregistrar runs.
    """

    age: int
    known: int
    written: int
    crashes: int
    downtime: int
    runs: bool


class Outcome(NamedTuple):
    """How drains end under a clock.

    Attributes:
        latest: the greatest age at which one is over.
        shortest: the fewest ticks that were offered to open connections.
        states: how many there are.
    """

    latest: int
    shortest: int
    states: int


CLOCKS = ("memory", "deletionTimestamp", "status.drain")
"""Remembered by the process alone; the record's deletion; written at the first wait."""


def is_over(clock: str, now: Drain) -> bool:
    """Tell whether a deregistrar takes the drain for over."""
    if not now.runs or now.known < 0:
        return False
    elapsed = {
        "memory": now.known,
        "deletionTimestamp": now.age,
        "status.drain": now.age - now.written,
    }
    return elapsed[clock] >= TIMEOUT


def steps(now: Drain) -> list[Drain]:
    """Say what may come next."""
    if not now.runs:
        back = [now._replace(runs=True)]
        if now.downtime:
            back.append(now._replace(age=now.age + 1, downtime=now.downtime - 1))
        return back
    if now.known < 0:
        written = now.age if now.written < 0 else now.written
        following = [now._replace(known=0, written=written)]
    else:
        following = [now._replace(age=now.age + 1, known=now.known + 1)]
    if now.crashes:
        following.append(now._replace(known=-1, crashes=now.crashes - 1, runs=False))
    return following


def outcome(clock: str, crashes: int) -> Outcome:
    """Search all moments of all drains."""
    first = Drain(0, -1, -1, crashes, DOWNTIME, runs=True)
    seen, work = {first}, [first]
    latest, shortest = 0, TIMEOUT
    while work:
        now = work.pop()
        if is_over(clock, now):
            latest = max(latest, now.age)
            shortest = min(shortest, now.age - now.written)
            continue
        for following in steps(now):
            if following not in seen:
                seen.add(following)
                work.append(following)
    return Outcome(latest, shortest, len(seen))


def show() -> int:
    """Print the three clocks; answers how many did not come out as they should."""
    wrong = 0
    for clock in CLOCKS:
        found = [outcome(clock, crashes) for crashes in CRASHES]
        bounded = all(one.latest <= TIMEOUT + DOWNTIME for one in found)
        full = all(one.shortest == TIMEOUT for one in found)
        print(
            f"S4  {clock:18} over by age {', '.join(str(o.latest) for o in found)} with "
            f"{', '.join(map(str, CRASHES))} crashes; offered at least "
            f"{min(o.shortest for o in found)} of {TIMEOUT} ticks"
        )
        wrong += (bounded and full) != (clock == "status.drain")
    return wrong
