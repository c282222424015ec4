"""S9, S10, L3: the built gate holds, and each weaker way to keep one breaks."""

import pytest

from tests.lab.model import gate
from tests.lab.model.gate import BUILT, WAYS, outcome


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
