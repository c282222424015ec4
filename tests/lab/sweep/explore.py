"""Which faults at which steps: all single ones, and all pairs where plays are short.

A run without faults numbers the steps; each of them is then tried in each mode that fits
it. For a pair the run with the first fault alone numbers the steps of the second. Watches
of one kind are disturbed only where they told that process something in the time.
"""

import hashlib

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import attrs

from tests.lab.model.follow import follow
from tests.lab.model.witness import Refusal
from tests.lab.sweep.faults import ALL_MODES, MODES, Kind, spelled
from tests.lab.sweep.lines import WATCH_LAG
from tests.lab.sweep.process import DISTURBED
from tests.lab.sweep.run import Outcome, Scenario, play
from tests.lab.sweep.scenarios import SCENARIOS
from tests.lab.sweep.traces import taped
from tests.lab.sweep.world import Step


@attrs.frozen
class Case:
    """One run to be made: a scenario in a setting, with a plan."""

    scenario: str
    setting: str
    plan: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        """Write it as `--replay` takes it."""
        return f"{self.scenario}/{self.setting}/{spelled(dict(self.plan))}"

    def play(self) -> Outcome:
        """Make the run."""
        scenario = SCENARIOS[self.scenario]
        return play(scenario, scenario.settings[self.setting], dict(self.plan))

    def judge(self) -> tuple[Outcome, Refusal | None]:
        """Make the run, and return what the model does not allow of it, too."""
        with taped() as tape:
            outcome = self.play()
        return outcome, follow(tape.trace())

    def with_fault(self, step: Step, mode: str) -> "Case":
        """Add a fault."""
        return attrs.evolve(self, plan=(*self.plan, (step.number, mode)))


Sample = Callable[[Case], bool]
"""Says which cases are run."""


@attrs.define
class Tally:
    """What came of many runs.

    Attributes:
        breaches: by case, in the command line's spelling.
        modes: how often each mode was tried.
    """

    runs: int = 0
    steps: int = 0
    looks: int = 0
    breaches: dict[str, str] = attrs.Factory(dict)
    modes: dict[str, int] = attrs.Factory(dict)

    def count(self, case: Case, outcome: Outcome, refusal: Refusal | None) -> None:
        """Count a run in, and what the model does not allow of it."""
        self.runs += 1
        self.steps += len(outcome.steps)
        self.looks += outcome.looks
        for _, mode in case.plan:
            self.modes[mode] = self.modes.get(mode, 0) + 1
        if outcome.breach is not None:
            self.breaches[str(case)] = f"{outcome.breach}\n{outcome.ending}"
        elif refusal is not None:
            self.breaches[str(case)] = str(refusal)

    def add(self, other: "Tally") -> None:
        """Add another one."""
        self.runs += other.runs
        self.steps += other.steps
        self.looks += other.looks
        self.breaches.update(other.breaches)
        for mode, number in other.modes.items():
            self.modes[mode] = self.modes.get(mode, 0) + number


Runner = Callable[[Iterable[Case]], Tally]
"""Runs cases; `pool.tally_apart` does so in processes of their own."""


def bare_cases(scenarios: Iterable[Scenario] | None = None) -> list[Case]:
    """Return every scenario in every setting, without a fault."""
    chosen = SCENARIOS.values() if scenarios is None else scenarios
    return [Case(s.name, setting) for s in chosen for setting in s.settings]


def faults_after(
    outcome: Outcome, number: int, *, lifes: bool
) -> Iterator[tuple[Step, str]]:
    """Return each step after a number with each mode that fits it.

    Args:
        outcome: of a run that numbered the steps.
        number: 0 for all steps.
        lifes: only steps of a record's own life.
    """
    told = _told_by_watches(outcome)
    for step in outcome.steps[number : outcome.played]:
        if not lifes or is_of_a_life(step):
            for mode in MODES[step.kind]:
                if _can_matter(step, mode, told):
                    yield step, mode


def _told_by_watches(outcome: Outcome) -> Mapping[tuple[str, str], list[float]]:
    """Return when each process was told something, by process and kind."""
    told: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for news in outcome.news:
        told[news.who, news.plural].append(news.at)
    return told


def _can_matter(
    step: Step, mode: str, told: Mapping[tuple[str, str], list[float]]
) -> bool:
    """Tell whether a fault of one watch keeps something back: else the run is the same."""
    watch = ALL_MODES[mode].watch
    until = step.at + DISTURBED + WATCH_LAG
    moments = told.get((step.who, watch), ())
    return not watch or any(step.at <= moment <= until for moment in moments)


def is_of_a_life(step: Step) -> bool:
    """Tell whether a step is one of a record's own life, or of its lock."""
    if step.kind in {Kind.LIST, Kind.WATCH}:
        return False
    return (
        step.kind is Kind.CALL
        or "backendrecords/" in step.what
        or (step.kind is Kind.WRITE and "POST" in step.what)
        or "/leases/addr-" in step.what
        or "/leases/end-" in step.what
    )


def singles_of(case: Case, outcome: Outcome) -> list[Case]:
    """Return a bare case with each single fault."""
    return [
        case.with_fault(step, mode)
        for step, mode in faults_after(outcome, 0, lifes=False)
    ]


def with_each(name: str, setting: str, what: str, mode: str) -> list[Case]:
    """Give a play one fault, at each step in turn that is about something.

    Steps are chosen by their kind and text: their numbers move with every change.
    """
    bare = Case(name, setting)
    outcome = bare.play()
    return [
        bare.with_fault(step, mode)
        for step in outcome.steps[: outcome.played]
        if what in f"{step.kind.name} {step.what}"
    ]


def everything(_case: Case) -> bool:
    """Leave nothing out."""
    return True


def tally_of(cases: Iterable[Case]) -> Tally:
    """Run cases, one after the other."""
    tally = Tally()
    for case in cases:
        tally.count(case, *case.judge())
    return tally


def sweep_singles(
    case: Case, sample: Sample = everything, run: Runner = tally_of
) -> Tally:
    """Run a bare case, and all of its single faults, or a sample of them."""
    tally = Tally()
    outcome, refusal = case.judge()
    tally.count(case, outcome, refusal)
    tally.add(run(filter(sample, singles_of(case, outcome))))
    return tally


def firsts_of(case: Case) -> list[Case]:
    """Return the first faults of a bare case's pairs."""
    outcome = case.play()
    found = faults_after(outcome, 0, lifes=True)
    return [case.with_fault(step, mode) for step, mode in found]


def sweep_pairs(
    first: Case, sample: Sample = everything, run: Runner = tally_of
) -> Tally:
    """Run a case of one fault with each further one after it, or a sample of them."""
    outcome = first.play()
    number = first.plan[0][0]
    found = faults_after(outcome, number, lifes=True)
    return run(filter(sample, (first.with_fault(*fault) for fault in found)))


def chosen(case: Case, seed: int, part: float) -> bool:
    """Tell whether a case is in a sample of that size; the same for a seed, always."""
    text = hashlib.sha256(f"{seed}/{case}".encode()).digest()
    return int.from_bytes(text[:8]) < part * 2**64
