"""S9 to S13, L3, L4: the built gates hold, and each weaker way to keep one breaks."""

from pathlib import Path

import pytest

from tests.lab.model import gate, gated_rollout
from tests.lab.model.gate import BUILT, WAYS, outcome
from tests.lab.model.gated_rollout import LARGE, VARIANTS, WORLDS


PAGE = Path(__file__).parents[3] / "docs" / "counterexamples.md"


def test_built_gate_opens_late_enough_and_always() -> None:
    """Whatever crashes, is lost or is undone: it opens once registered, and stays open."""
    assert outcome(WAYS[BUILT]).broken == ()


@pytest.mark.parametrize(
    ("way", "broken"),
    [
        ("eligible by Ready", gate.STUCK),
        ("opened by the record", gate.EARLY),
        ("closed again", gate.SHUT),
        ("opened by events alone", gate.STUCK),
        ("kept shut unselected", gate.STUCK),
        ("opened by the cache", gate.EARLY),
    ],
)
def test_weaker_gate_breaks(way: str, broken: str) -> None:
    """Each rule that is left out is missed."""
    assert broken in outcome(WAYS[way]).broken


def test_the_comparison_comes_out_as_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The table says all of them, and none is a surprise."""
    assert 0 == gate.show()
    lines = [line for line in capsys.readouterr().out.splitlines() if "*" not in line]
    assert len(WAYS) == len(lines)


@pytest.mark.parametrize("name", sorted(WORLDS.keys() - LARGE))
def test_built_gates_hold_beside_other_controllers(name: str) -> None:
    """Undo, evictions under a budget, an autoscaler, crashes; the page has the figures."""
    found = gated_rollout.outcome(gated_rollout.BUILT, WORLDS[name])
    row = gated_rollout.row(name, WORLDS[name], found._replace(seconds=0.0))

    assert found.broken == {}
    assert row.partition("| 0.0 |")[0] in PAGE.read_text()


@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - LARGE))
def test_weaker_gates_break_beside_other_controllers(name: str) -> None:
    """Each breaks what is told of it, no more, and the page has the ways there."""
    variant = VARIANTS[name]
    found = gated_rollout.outcome(variant.ways, variant.world)

    assert variant.breaks == found.broken.keys()
    assert gated_rollout.section(name, variant, found) in PAGE.read_text()


def test_each_rule_of_gates_has_a_variant_without_it() -> None:
    """Every rule is changed by some variant, alone."""
    built = gated_rollout.BUILT
    changed = [
        [
            name
            for name in built._fields
            if getattr(one.ways, name) != getattr(built, name)
        ]
        for one in VARIANTS.values()
        if one.ways != built
    ]

    assert {(name,) for name in built._fields} == {*map(tuple, changed)}
