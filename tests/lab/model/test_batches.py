"""A call in a batch is what a call alone is; each rule of batches is needed for that."""

from pathlib import Path

import pytest

from tests.lab.model import batches
from tests.lab.model.batches import VARIANTS, Rules, search


PAGE = Path(__file__).parents[3] / "docs" / "counterexamples.md"


@pytest.mark.parametrize("rules", VARIANTS, ids=lambda one: f"{one.name} {one.text}")
def test_it_comes_out_as_told(rules: Rules) -> None:
    """What is built holds; a rule that is taken away breaks the promise that it keeps."""
    assert rules.breaks == search(rules).broken.partition(":")[0]


def test_each_rule_has_a_variant_without_it() -> None:
    """Every rule is taken away by some variant."""
    built, *weaker = VARIANTS
    rules = [name for name, on in vars(built).items() if on is True]

    assert [] == [name for name in rules if all(getattr(one, name) for one in weaker)]


def test_the_page_has_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    """`make model` writes it."""
    assert batches.page() in PAGE.read_text()
    assert 0 == batches.show()
    assert len(VARIANTS) == len(capsys.readouterr().out.splitlines())
