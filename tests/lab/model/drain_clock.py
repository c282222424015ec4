"""S4: a drain ends in time, however often the deregistrar ends; and in full.

One record, a drain of so many ticks, so much time in which no deregistrar runs or in
which its driver cannot be reached, and a crash at any moment. Four clocks are compared;
the built one is written at the first call that may have been heard and has to wait.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.lab.model import decisions


TIMEOUT = 4
DOWNTIME = 3
DEAFNESS = 2
CRASHES = (0, 1, 2, 3, 6)
BOUND = TIMEOUT + DOWNTIME + DEAFNESS


class Drain(NamedTuple):
    """A moment of a drain.

    Attributes:
        age: ticks since the deletion.
        known: ticks since this incarnation first tried, -1 if it has not.
        tried: the age at which a drain was first tried, -1 if it was not.
        heard: the age at which the driver first heard of it, -1 if it did not.
        crashes: how many are left.
        downtime: how many ticks without a deregistrar are left.
        deafness: how many ticks without the driver are left.
        runs: whether a deregistrar runs.
    """

    age: int
    known: int
    tried: int
    heard: int
    crashes: int
    downtime: int
    deafness: int
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


BUILT = "status.drain"
CLOCKS = ("memory", "deletionTimestamp", "first try", BUILT)
"""Remembered by the process alone; the record's deletion; written at the first try,
heard or not; written at the first call that may have been heard."""


def is_over(clock: str, now: Drain) -> bool:
    """Tell whether a deregistrar takes the drain for over."""
    if not now.runs or now.known < 0:
        return False
    if clock == BUILT:
        left = decisions.drain_left(now.age, now.heard, TIMEOUT)
        return now.heard >= 0 and left <= 0
    elapsed = {
        "memory": now.known,
        "deletionTimestamp": now.age,
        "first try": now.age - now.tried,
    }
    return elapsed[clock] >= TIMEOUT


def steps(now: Drain) -> list[Drain]:
    """Say what may come next."""
    if not now.runs:
        back = [now._replace(runs=True)]
        if now.downtime:
            back.append(now._replace(age=now.age + 1, downtime=now.downtime - 1))
        return back
    following = _tries(now) if now.known < 0 or now.heard < 0 else [_later(now)]
    if now.known >= 0 and now.crashes:
        following.append(now._replace(known=-1, crashes=now.crashes - 1, runs=False))
    return following


def _tries(now: Drain) -> list[Drain]:
    """Let a call reach the driver, or not."""
    tried = now.age if now.tried < 0 else now.tried
    known = max(now.known, 0)
    heard = now.age if now.heard < 0 else now.heard
    following = [now._replace(known=known, tried=tried, heard=heard)]
    if now.deafness:
        missed = now._replace(known=known, tried=tried, deafness=now.deafness - 1)
        following.append(_later(missed))
    return following


def _later(now: Drain) -> Drain:
    """Let a tick pass while a deregistrar runs."""
    return now._replace(age=now.age + 1, known=now.known + 1)


def outcome(clock: str, crashes: int) -> Outcome:
    """Search all moments of all drains."""
    first = Drain(0, -1, -1, -1, crashes, DOWNTIME, DEAFNESS, runs=True)
    seen, work = {first}, [first]
    latest, shortest = 0, TIMEOUT
    while work:
        now = work.pop()
        if is_over(clock, now):
            latest = max(latest, now.age)
            offered = now.age - now.heard if now.heard >= 0 else 0
            shortest = min(shortest, offered)
            continue
        for following in steps(now):
            if following not in seen:
                seen.add(following)
                work.append(following)
    return Outcome(latest, shortest, len(seen))


def lines() -> list[str]:
    """Say how each clock comes out."""
    return [
        _line(clock, [outcome(clock, crashes) for crashes in CRASHES])
        for clock in CLOCKS
    ]


def _line(clock: str, found: list[Outcome]) -> str:
    """Say how one clock comes out."""
    return (
        f"{clock:18} over by age {', '.join(str(o.latest) for o in found)} with "
        f"{', '.join(map(str, CRASHES))} crashes; offered at least "
        f"{min(o.shortest for o in found)} of {TIMEOUT} ticks"
    )


def show() -> int:
    """Print the clocks; answers how many did not come out as they should."""
    for line in lines():
        print(f"S4  {line}")
    return sum(is_sound(clock) != (clock == BUILT) for clock in CLOCKS)


def is_sound(clock: str) -> bool:
    """Tell whether drains under a clock are bounded, and offered whole."""
    found = [outcome(clock, crashes) for crashes in CRASHES]
    return all(o.latest <= BOUND and o.shortest == TIMEOUT for o in found)
