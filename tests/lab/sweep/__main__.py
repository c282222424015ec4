"""The sweep's command line: everything, one case, or the mutants.

python -m tests.lab.sweep                       all single faults, and a part of the pairs
python -m tests.lab.sweep --pairs 1             all pairs as well: half a day
python -m tests.lab.sweep --sample 0.02         a part of the single faults, by --seed
python -m tests.lab.sweep --share 2/5           the second fifth of the plays
python -m tests.lab.sweep --replay CASE         one run, step by step
python -m tests.lab.sweep --mutants             each guard taken out in turn
"""

import argparse
import os
import sys
import time

from functools import partial

from tests.lab.sweep.explore import (
    Case,
    Tally,
    bare_cases,
    chosen,
    firsts_of,
    sweep_pairs,
    sweep_singles,
)
from tests.lab.sweep.faults import read_plan
from tests.lab.sweep.mutants import MUTANTS, hunt
from tests.lab.sweep.pool import prepare, tally_all, tally_apart
from tests.lab.sweep.scenarios import SCENARIOS


_SHOWN = 20
_HASHES = "PYTHONHASHSEED"
_EVERY = 20


def main() -> int:
    """Run what the flags say; returns 1 where a rule was broken or a mutant lives."""
    _order_sets()
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.sweep",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--replay", metavar="SCENARIO/SETTING/STEP:MODE,...", help="one run")
    add("--mutants", action="store_true", help="take out each guard, find who notices")
    add("--only", action="append", metavar="NAME", help="this scenario or mutant")
    add("--sample", type=float, default=1.0, metavar="PART", help="of single faults")
    add("--pairs", type=float, default=0.04, metavar="PART", help="of pairs of faults")
    add("--seed", type=int, default=1, help="of the samples")
    add("--share", type=read_share, default=(1, 1), metavar="K/N", help="of the plays")
    add("--workers", type=int, default=2)
    flags = parser.parse_args()
    prepare()
    if flags.replay:
        return _replay(flags.replay)
    if flags.mutants:
        return _mutants(flags.only or [])
    return _sweep(flags)


def _order_sets() -> None:
    """Begin again where sets have another order each time: no case could be replayed."""
    if os.environ.get(_HASHES) != "0":
        arguments = [sys.executable, "-m", "tests.lab.sweep", *sys.argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, _HASHES: "0"})  # noqa: S606


def _replay(text: str) -> int:
    """Run one case and show its steps."""
    case = read_case(text)
    outcome, refusal = case.judge()
    for step in outcome.steps:
        mark = f"  <-- {step.mode}" if step.mode else ""
        print(f"{step.number:4} {step.at:9.3f} {step.who:15} {step.what}{mark}")
    wrong = outcome.breach or refusal
    print(wrong or "no rule was broken")
    return int(wrong is not None)


def read_case(text: str) -> Case:
    """Read a case as it is printed.

    Raises:
        SystemExit: there is no such case.
    """
    name, _, rest = text.partition("/")
    setting, _, plan = rest.partition("/")
    if name not in SCENARIOS or setting not in SCENARIOS[name].settings:
        names = ", ".join(sorted(SCENARIOS))
        sys.exit(f"{text}: scenarios are {names}; settings record, backend, driver")
    return Case(name, setting, tuple(sorted(read_plan(plan).items())))


def read_share(text: str) -> tuple[int, int]:
    """Read which share of how many.

    Raises:
        argparse.ArgumentTypeError: there is no such share.
    """
    number, _, shares = text.partition("/")
    if not (number.isdecimal() and shares.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text}: write 2/5 for the second fifth")
    if not 1 <= int(number) <= int(shares):
        raise argparse.ArgumentTypeError(
            f"{text}: there are {shares} shares, from 1 on"
        )
    return int(number), int(shares)


def share_of(cases: list[Case], number: int, shares: int) -> list[Case]:
    """Return one of equally many cases in a row; all shares together are all cases."""
    ends = [len(cases) * n // shares for n in (number - 1, number)]
    return cases[slice(*ends)]


def _sweep(flags: argparse.Namespace) -> int:
    """Run everything, or a sample of it."""
    began = time.monotonic()
    bare = [c for c in bare_cases() if not flags.only or c.scenario in flags.only]
    bare = share_of(bare, *flags.share)
    whole = Tally()
    sample = partial(chosen, seed=flags.seed)
    singles = partial(
        sweep_singles, sample=partial(sample, part=flags.sample), run=tally_apart
    )
    tell = partial(_tell, "singles", began, set())
    whole.add(tally_all(singles, bare, flags.workers, tell))
    if flags.pairs:
        short = [c for c in bare if SCENARIOS[c.scenario].is_short]
        firsts = [first for case in short for first in firsts_of(case)]
        pairs = partial(
            sweep_pairs, sample=partial(sample, part=flags.pairs), run=tally_apart
        )
        tell = partial(_tell, "pairs", began, set())
        whole.add(tally_all(pairs, firsts, flags.workers, tell))
    _report(whole, bare, time.monotonic() - began, flags)
    return int(bool(whole.breaches))


def _tell(what: str, began: float, told: set[str], done: int, tally: Tally) -> None:
    """Show that it goes on, and each breach when it is found."""
    for case in sorted(tally.breaches.keys() - told):
        print(f"BROKEN  {case}: {tally.breaches[case]}", file=sys.stderr, flush=True)
        told.add(case)
    if done % _EVERY == 0:
        seconds = time.monotonic() - began
        text = f"{what}: {done} done, {tally.runs} runs, {seconds:.0f} s"
        print(f"{text}, {len(tally.breaches)} violations", file=sys.stderr)


def _report(
    whole: Tally, bare: list[Case], seconds: float, flags: argparse.Namespace
) -> None:
    """Print what came of it."""
    for case, breach in sorted(whole.breaches.items())[:_SHOWN]:
        print(f"BROKEN  {breach}\n    python -m tests.lab.sweep --replay {case}")
    print(f"scenarios   {len({c.scenario for c in bare})} in {len(bare)} settings")
    print(f"faults      {sum(whole.modes.values())} of {len(whole.modes)} modes")
    print(f"runs        {whole.runs}")
    print(f"steps       {whole.steps}, the oracle looked {whole.looks} times")
    print(f"violations  {len(whole.breaches)}")
    parts = f"{flags.sample:g} of single faults, {flags.pairs:g} of pairs"
    print(f"seconds     {seconds:.0f}   (seed {flags.seed}, {parts})")


def _mutants(only: list[str]) -> int:
    """Take out each guard and show who notices."""
    alive = 0
    for name, mutant in MUTANTS.items():
        if only and name not in only:
            continue
        kill = hunt(mutant)
        alive += kill is None
        print(f"{'SURVIVES' if kill is None else 'killed  '} {name}: {mutant.loses}")
        if kill is not None:
            print(f"    after {kill.runs} runs by {kill.case}: {kill.breach}")
    print(f"{alive} of {len(only or MUTANTS)} mutants survive")
    return int(bool(alive))


if __name__ == "__main__":
    sys.exit(main())
