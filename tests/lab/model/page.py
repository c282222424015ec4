"""Writes docs/counterexamples.md: what `python -m tests.lab.model --page` has found.

Each section stands alone, so that a test can look for it in the page.
"""

from __future__ import annotations

from tests.lab.model import (
    anew,
    batches,
    drain_clock,
    gate,
    gated_rollout,
    lock_keys,
    spin,
)
from tests.lab.model.search import Found
from tests.lab.model.variants import Variant


HEAD = """\
# Why each rule is there

The [lifecycle of a record](lifecycle.md) is a protocol between processes that crash, pause,
run twice and read stale caches, and a load balancer that executes calls late. This page is
written by `make model` from searches of all states; nobody edits it.

A1, A2 are registrars (in the controller), B1, B2 deregistrars, R1 to R3 records; C1 is the shard
of a load balancer that all namespaces share, where other shards have the records. A *mark* is
`status.ensuring`; a call that *counts* is one whose success lets the record go. Time passes
in ticks; a call without a definite answer may be executed for one more tick, or for two where
a variant says so.

| promise | means |
|---|---|
| S1 | a record that is gone has left nothing at the load balancer |
| S2 | a live, Registered record's member is never out, or drained, by another record's call |
| S3 | nothing is registered again after the deregistration that counted |
| S4 | a drain is bounded and offered whole, whatever crashes |
| S5 | a record goes only after its own deregistration, if it was ever registered |
| S6 | a pod whose preStop waits is told to end only when none of its records has a member in |
| G | from every state there is a way to the state where all is as it should be |
| L | once faults end, every fair run comes there, and stays: [liveness](#liveness-l) |
| Q | a run without faults leaves no mark that costs waiting |
| S9, S10, L3 | of the readiness gate: see [there](#the-readiness-gate-s9-s10-l3) |
| S9 to S13, L4 | of both gates, beside what else makes and ends pods: see [there](#gates-beside-rollouts-budgets-and-autoscalers-s9-to-s13-l4) |

## What is built, and holds

"goal reachable" says that G was searched, too. Every search came to its end.

| | world | states | steps | |
|---|---|---|---|---|
"""

WEAKER_HEAD = """
## Each rule taken away

The shortest way in which the promise is broken, in the smallest world that shows it.
"""

DRAIN_HEAD = f"""
## The drain's clock (S4)

A drain of {drain_clock.TIMEOUT} ticks, up to {drain_clock.DOWNTIME} ticks without a deregistrar, up to {drain_clock.DEAFNESS} without its driver. Bounded means:
over by age {drain_clock.BOUND}, however many crashes. Only the clock of `status.drain`, written at the first call
that may have been heard, is bounded and offers the whole drain.

```text
"""

GATE_HEAD = """\
```

## The readiness gate (S9, S10, L3)

A new pod and the old one that it takes the place of in a rollout, a controller that may crash twice, a load
balancer that may lose its members, a group that the controller may hear of later than of the pod, and that may
stop to select it. S9: the old pod goes after the new one was registered, unless nobody wants it to be. S10: an open gate stays open. L3: in
every fair run each gate opens (`*`: what goes on for ever else). Only the built way has all of them ([readiness.md](readiness.md)).

```text
"""

SPIN_HEAD = """
## The same by SPIN

`tests/lab/model/lifecycle.pml` is written apart and shares no code with the search. `-DLASTING` is liveness:
`<>[] desired` under SPIN's own weak fairness of processes (`pan -a -f`), all else is safety.

| switches | | states |
|---|---|---|
"""


def row(variant: Variant, found: Found) -> str:
    """Return a built variant's line of the table."""
    if found.broken or not found.complete:
        return (
            f"| {variant.name} | {variant.rule} | | | **{found.broken or 'cut'}** |\n"
        )
    alive = "holds, goal reachable" if variant.alive else "holds"
    return (
        f"| {variant.name} | {variant.rule} | {found.states:,} | {found.transitions:,} "
        f"| {alive} |\n"
    )


def section(variant: Variant, found: Found) -> str:
    """Return a weaker variant's section: the rule, the promise, the way."""
    way = "".join(f"{number:>3} {line}\n" for number, line in enumerate(found.trace, 1))
    broken = found.broken or "NOT REFUTED"
    return f"\n### {variant.name}: {variant.rule}\n\n{broken}.\n\n```text\n{way}```\n"


def entry(variant: Variant, found: Found) -> str:
    """Return what the page has of a variant."""
    return (section if variant.breaks else row)(variant, found)


def tail() -> str:
    """Return what follows the variants: the drain's clock, the gates and SPIN."""
    drains = "".join(f"{line}\n" for line in drain_clock.lines())
    rows = "".join(_spin_row(switches) for switches in spin.BUILT + spin.WEAKER)
    gates = "".join(f"{line}\n" for line in gate.lines())
    apart = f"{DRAIN_HEAD}{drains}{GATE_HEAD}{gates}```\n{gated_rollout.page()}"
    keys = f"{anew.page()}{lock_keys.page()}"
    return f"{apart}{keys}{batches.page()}{SPIN_HEAD}{rows}"


def _spin_row(switches: tuple[str, ...]) -> str:
    """Return SPIN's verdict on one form of the protocol."""
    verdict = spin.check(switches)
    holds = verdict.complete and not verdict.errors
    text = "holds" if holds else "refuted" if verdict.errors else "**cut**"
    return f"| `{' '.join(switches)}` | {text} | {verdict.states:,} |\n"
