"""Liveness: what is built ends in what is desired, and what lacks a rule need not.

A weaker one lacks a rule without which a run may wait, or go round, for ever; all faults
are over by then, and everybody goes on who can.
"""

from __future__ import annotations

import sys

from tests.lab.model.built import BUILT
from tests.lab.model.liveness import Ended
from tests.lab.model.variants import Variant, address, record
from tests.lab.model.weaker import WEAKER as UNSAFE


_CALM = {"crashes": False, "silences": False}

WEAKER = (
    Variant(
        "l01",
        "a registrar that was refused waits for the record to change (lost wake-up)",
        record(crashes=False, deregistrars=0, comes_again=False),
        "L",
    ),
    Variant(
        "l02",
        "a deregistrar that was refused waits for the record to change",
        record(crashes=False, end_comes_again=False),
        "L",
    ),
    Variant(
        "l03",
        "how long a record has been deleted is counted anew at each look",
        record(crashes=False, deletion_ages=False),
        "L",
    ),
    Variant(
        "l04",
        "how long a lock's holder has been gone is counted anew at each look",
        address(lock_ages=False, **_CALM),
        "L",
    ),
    Variant(
        "l05",
        "a lock is free only when a deregistrar says so",
        address(silences=False, frees=True, lock_ends=False),
        "L",
    ),
    Variant(
        "l06",
        "records of a pod that is deleted stay as long as its preStop waits for them",
        record(gates=True, removes=False, **_CALM),
        "L",
    ),
    Variant(
        "l07",
        "two leaders go on side by side after a reset (livelock)",
        record(resets=True, registrars=2, deregistrars=0, leads=False, **_CALM),
        "L",
    ),
    Variant(
        "l08",
        "a drain has no deadline",
        record(drains=True, drains_end=False, **_CALM),
        "L",
    ),
    Variant(
        "l09",
        "a record whose backend is gone is marked as often as one likes",
        record(told_gone=True, marks_once=False, **_CALM),
        "L",
    ),
    Variant(
        "l10",
        "who has two records to look after need not come to both (starvation)",
        address(takes_turns=False, **_CALM),
        "L",
    ),
    Variant(
        "l11",
        "a deregistrar that was told Running, or refused, waits for the record to change",
        record(running=True, end_comes_again=False, **_CALM),
        "L",
    ),
    Variant(
        "l12",
        "a registrar refused while the driver's bounds are edited waits for a change",
        record(edits=True, deregistrars=0, life=2, comes_again=False, **_CALM),
        "L",
    ),
    Variant(
        "l13",
        "who has three records to look after need not come to each",
        address(records=3, takes_turns=False, **_CALM),
        "L",
    ),
    Variant(
        "l14",
        "two leaders go on side by side after a reset, while the spec changes",
        record(
            resets=True,
            updates=True,
            registrars=2,
            deregistrars=0,
            leads=False,
            wait=2,
            skew=0,
            **_CALM,
        ),
        "L",
    ),
    Variant(
        "l15",
        "a deregistrar that may set a lock free and was refused waits for a change",
        address(frees=True, end_comes_again=False, **_CALM),
        "L",
    ),
    Variant(
        "l16",
        "records of a deleted pod stay, which an older view registers again",
        record(gates=True, records=2, namesake=True, removes=False, **_CALM),
        "L",
    ),
)
STUCK = tuple(v for v in UNSAFE if v.breaks == "G")
"""Those from which no way leads to the goal have no fair way, either."""


def is_as_expected(variant: Variant, ended: Ended) -> bool:
    """Tell whether a search came out as the variant says."""
    return ended.complete and bool(variant.breaks) == (ended.cycle is not None)


def verdict(ended: Ended) -> str:
    """Say in a word what was found."""
    if not ended.complete:
        return "NOT SEARCHED TO THE END"
    return "holds" if ended.cycle is None else "refuted"


def told(ended: Ended) -> list[str]:
    """Tell a bad end in words."""
    if ended.cycle is None:
        return []
    way = [f"{number:>3} {line}" for number, line in enumerate(ended.way, 1)]
    ends = ended.cycle or ["nothing happens any more"]
    return [*way, *(f"  * {line}" for line in ends)]


def show(variant: Variant, ended: Ended, *, traces: bool) -> None:
    """Print what was found."""
    print(
        f"{variant.name} {'L ' + verdict(ended):23} {ended.states:>9,} states "
        f"{ended.steps:>11,} steps {ended.seconds:6.1f} s  {variant.rule}"
    )
    for line in told(ended) if traces else ():
        print(f"      {line}")
    sys.stdout.flush()


# --- the page -----------------------------------------------------------------------


HEAD = f"""
## Liveness (L)

Once faults end, what is desired comes about and stays, in every fair run (<>[] desired): whoever can go on
all the time does (weak fairness of processes, network, driver and time), and a process that has several records to
look after comes to each. The last fault may have been in any state of the searches above. After it nothing
crashes, nobody asks for anything else, and refusals, pauses, late watches, Running and drains come to an end; of several
incarnations of a process one is left (a Lease). *States* are those after the last fault. Searched so are all {len(BUILT)}
worlds above.

| | world | states | steps | |
|---|---|---|---|---|
"""

WEAKER_HEAD = """
Each of these rules taken away leaves a fair run that ends badly: the way there, and after it (`*`) what goes on for
ever.
"""


def entry(variant: Variant, ended: Ended) -> str:
    """Return what the page has of a variant."""
    if not variant.breaks:
        figures = f"{ended.states:,} | {ended.steps:,} | {verdict(ended)}"
        return f"| {variant.name} | {variant.rule} | {figures} |\n"
    way = "".join(f"{line}\n" for line in told(ended))
    return f"\n### {variant.name}, for ever: {variant.rule}\n\n```text\n{way}```\n"


def page(entries: dict[str, str]) -> str:
    """Return the section of the page, of all variants."""
    built = "".join(entries[v.name] for v in BUILT)
    weaker = "".join(entries[v.name] for v in WEAKER + STUCK)
    return f"{HEAD}{built}{WEAKER_HEAD}{weaker}"
