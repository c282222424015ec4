"""Draws the stages of the lives of records and load balancers from the tables that the core asks.

`python -m tests.docs.stages` writes them into docs/lifecycle.md, between their marks.
"""

import itertools
import re

from collections.abc import Callable, Sequence
from pathlib import Path

from lbcf.core.lifecycle import deregistration, load_balancer, registration


PAGE = Path(__file__).parents[2] / "docs" / "lifecycle.md"
TABLES: dict[str, Sequence[Callable[..., object]]] = {
    "registration": registration.STAGES,
    "deregistration": deregistration.STAGES,
    "load balancer": load_balancer.LIVING,
    "end of a load balancer": load_balancer.ENDING,
}


def drawn(name: str) -> str:
    """Draw one table as a Mermaid flowchart, between its marks."""
    stages = TABLES[name]
    lines = [
        f"<!-- drawn: {name} -->",
        "```mermaid",
        "flowchart TD",
        '  read(["quorum read, or own write"])',
        *(_node(stage) for stage in stages),
        '  finish(["end of the turn"])',
        *_edges([_key(stage) for stage in stages]),
        "```",
        "<!-- end -->",
    ]
    return "\n".join(lines)


def _key(stage: Callable[..., object]) -> str:
    """Return a stage's name as the diagram has it."""
    return stage.__name__.strip("_")


def _node(stage: Callable[..., object]) -> str:
    """Return a stage's box: what it is called, and what it is for."""
    told = (stage.__doc__ or "").splitlines()[0].replace('"', "'")
    return f'  {_key(stage)}["<b>{_key(stage).replace("_", " ")}</b><br/>{told}"]'


def _edges(keys: Sequence[str]) -> list[str]:
    """Return the arrows: nothing to do here leads to the next, a step back to the top."""
    down = [f"  {a} -- else --> {b}" for a, b in itertools.pairwise(keys)]
    back = [f"  {key} -. its step .-> learn" for key in keys]
    ends = ['  learn(["perform, learn"])', "  learn --> read"]
    return [
        f"  read --> {keys[0]}",
        *down,
        f"  {keys[-1]} -- else --> finish",
        *back,
        *ends,
    ]


def write() -> None:
    """Put what is drawn into the page."""
    text = PAGE.read_text()
    for name in TABLES:
        pattern = rf"<!-- drawn: {name} -->.*?<!-- end -->"
        before, after = re.split(pattern, text, maxsplit=1, flags=re.DOTALL)
        text = before + drawn(name) + after
    PAGE.write_text(text)


if __name__ == "__main__":
    write()
