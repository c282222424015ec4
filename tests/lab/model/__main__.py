"""`python -m tests.lab.model`: every built variant holds, every weaker one is refuted.

Takes names of variants, or the beginnings of names; without any it runs all of them, safety
and liveness, then the drain's clock, the gates, load balancers made again, lock keys, batches and SPIN.
Runs under pypy3 by choice: CPython takes about ten times as long.
"""

from __future__ import annotations

import argparse
import sys

from pathlib import Path

from tests.lab.model import (
    anew,
    batches,
    drain_clock,
    gate,
    gated_rollout,
    lasting,
    liveness,
    lock_keys,
    page,
    spin,
)
from tests.lab.model.built import BUILT
from tests.lab.model.search import Found, Search
from tests.lab.model.variants import Variant
from tests.lab.model.weaker import WEAKER


APART = {
    "drain": (drain_clock.show,),
    "gate": (gate.show, gated_rollout.show),
    "anew": (anew.show,),
    "keys": (lock_keys.show,),
    "batches": (batches.show,),
    "spin": (spin.show,),
}
"""Models of their own, by the name on the command line."""


def is_as_expected(variant: Variant, found: Found) -> bool:
    """Tell whether a search came out as the variant says."""
    if variant.breaks:
        return found.broken.startswith(variant.breaks)
    return found.complete and not found.broken


def show(variant: Variant, found: Found, *, traces: bool) -> None:
    """Print what was found."""
    if found.broken:
        verdict = "refuted" if variant.breaks else "BROKEN"
    else:
        verdict = "holds" if found.complete else "NOT SEARCHED TO THE END"
    alive = ", goal reachable" if variant.alive and verdict == "holds" else ""
    print(
        f"{variant.name} {verdict + alive:23} {found.states:>9,} states "
        f"{found.transitions:>11,} steps {found.seconds:6.1f} s  {variant.rule}"
    )
    if found.broken:
        print(f"      {found.broken}, after {len(found.trace)} steps")
        for number, line in enumerate(found.trace if traces else (), 1):
            print(f"      {number:>3} {line}")
    sys.stdout.flush()


def searched(
    variant: Variant, entries: dict[str, str], lasts: dict[str, str], *, traces: bool
) -> int:
    """Search a variant, tell what was found, and note its entries of the page.

    Returns:
        How many verdicts are not those expected: of safety, and of liveness.
    """
    wrong = 0
    search = Search(variant.rules, alive=variant.alive)
    found = search.run()
    if variant not in lasting.WEAKER:
        wrong += not is_as_expected(variant, found)
        show(variant, found, traces=traces or not is_as_expected(variant, found))
        entries[variant.name] = page.entry(variant, found)
    if variant in BUILT + lasting.WEAKER + lasting.STUCK:
        ended = liveness.check(search, found, variant.rules)
        expected = lasting.is_as_expected(variant, ended)
        lasting.show(variant, ended, traces=traces or not expected)
        wrong += not expected
        lasts[variant.name] = lasting.entry(variant, ended)
    return wrong


def main(argv: list[str] | None = None) -> int:
    """Run what is asked for; answers the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.model", description=__doc__
    )
    parser.add_argument(
        "names", nargs="*", help="such as b01, w, drain, gate, anew, keys, batches"
    )
    parser.add_argument("--traces", action="store_true", help="print each trace")
    parser.add_argument("--page", metavar="FILE", help="write it all as a page, too")
    chosen = parser.parse_args(argv)
    names = tuple(chosen.names)
    wrong = 0
    entries: dict[str, str] = {}
    lasts: dict[str, str] = {}
    for variant in BUILT + WEAKER + lasting.WEAKER:
        if not names or variant.name.startswith(names):
            traces = chosen.traces or bool(names)
            wrong += searched(variant, entries, lasts, traces=traces)
    for name, shows in APART.items():
        if not names or name.startswith(names):
            wrong += sum(show_all() for show_all in shows)
    print("all as expected" if not wrong else f"{wrong} NOT AS EXPECTED")
    if chosen.page:
        write(Path(chosen.page), entries, lasts)
    return bool(wrong)


def write(file: Path, entries: dict[str, str], lasts: dict[str, str]) -> None:
    """Write the page, whole if all was searched, else its entries alone."""
    built = "".join(entries[v.name] for v in BUILT if v.name in entries)
    weaker = "".join(entries[v.name] for v in WEAKER if v.name in entries)
    ends = "".join(lasts.values())
    if len(entries) == len(BUILT + WEAKER):
        built = page.HEAD + built
        weaker = page.WEAKER_HEAD + weaker
        ends = lasting.page(lasts) + page.tail()
    file.write_text(built + weaker + ends)


if __name__ == "__main__":
    sys.exit(main())
