"""What must be true in every state, and where every state must still be able to go.

S3 and S5 are broken by steps: `world` tells. S4, the drain's clock, is in `drain_clock`.
"""

from __future__ import annotations

from tests.lab.model import decisions, world
from tests.lab.model import layout as at
from tests.lab.model.rules import Rules
from tests.lab.model.world import State


def broken(s: State, rules: Rules) -> str:
    """Say which promise a state breaks, empty for none."""
    held = False
    for r in range(rules.records):
        d = at.record(r)
        phase, m = s[d + at.PHASE], world.member(rules, r)
        exists = phase in (at.LIVE, at.DELETING)
        held = held or (exists and bool(s[d + at.ADDRESS] or s[d + at.ENSURED]))
        if phase == at.LIVE and s[d + at.REGISTERED]:
            text = _wrongly_out(s, m, d)
            if text:
                return f"S2: R{r + 1} {text}"
        if rules.keyed and s[m + at.IS_IN] and not exists:
            return f"S1: a member of R{r + 1}, which is gone, is left"
        if rules.gates and s[at.POD] == at.TOLD and s[m + at.IS_IN]:
            return f"S6: the pod was told to end, and R{r + 1} has its member in"
    if not rules.keyed and s[at.MEMBERS + at.IS_IN] and not held:
        return "S1: a member is left that no record holds"
    return _uncalm(s, rules) if rules.calm else ""


def _wrongly_out(s: State, m: int, d: int) -> str:
    """Tell whether a live and Registered record's member was taken by others' calls."""
    if s[m + at.IS_IN]:
        drained = s[m + at.IS_DRAINED]
        return "is live and Registered, and its member is drained" if drained else ""
    lost = s[d + at.LOST]
    return "" if lost else "is live and Registered, and its member is out"


def _uncalm(s: State, rules: Rules) -> str:
    """Tell whether a run without faults has left a mark that costs waiting."""
    marks = (s[at.record(r) + at.MARK] for r in range(rules.records))
    waits = decisions.ANYBODY in marks
    return "Q: without any fault, a record has the mark of nobody-knows-whom" * waits


def is_goal(s: State, rules: Rules) -> bool:
    """Tell whether everything is as it should be."""
    if s[at.POD] != at.RUNS:
        phases = (s[at.record(r) + at.PHASE] for r in range(rules.records))
        gone = not any(phase in (at.LIVE, at.DELETING) for phase in phases)
        return gone and s[at.POD] == at.TOLD
    holders = [r for r in range(rules.records) if _is_served(s, rules, r)]
    for r in range(rules.records):
        phase = s[at.record(r) + at.PHASE]
        if phase == at.DELETING:
            return False
        # With members known by address, one of the live records has it.
        if phase == at.LIVE and r not in holders and (rules.keyed or not holders):
            return False
    return not s[at.EPOCH]


def is_desired(s: State, rules: Rules) -> bool:
    """Tell whether users have what they want: the goal, and R1 is not merely missing."""
    missing = s[at.POD] == at.RUNS and s[at.record(0) + at.PHASE] == at.ABSENT
    return not missing and is_goal(s, rules)


def _is_served(s: State, rules: Rules, r: int) -> bool:
    """Tell whether a record is registered, with its own parameters."""
    d, m = at.record(r), world.member(rules, r)
    if s[d + at.PHASE] != at.LIVE or not s[d + at.REGISTERED]:
        return False
    same = rules.records > 1 or s[m + at.HAS] == s[d + at.CHANGED]
    return bool(s[m + at.IS_IN]) and not s[m + at.IS_DRAINED] and same
