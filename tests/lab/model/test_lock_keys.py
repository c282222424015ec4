"""K1 and K2: locks under keys that change keep an address one record's, as it is told."""

from pathlib import Path

import pytest

from tests.lab.model.breadth import section
from tests.lab.model.lock_keys import (
    HEAD,
    LARGE,
    VARIANTS,
    Rules,
    is_as_expected,
    search,
)


PAGE = Path(__file__).parents[3] / "docs" / "counterexamples.md"
QUICK = [one for one in VARIANTS if one.name not in LARGE]


@pytest.mark.parametrize("rules", QUICK, ids=lambda one: f"{one.name} {one.text}")
def test_it_comes_out_as_told(rules: Rules) -> None:
    """What is built holds, what is weaker breaks as told, and the page has both."""
    found = search(rules)

    assert is_as_expected(rules, found), found
    assert section(rules.name, rules.text, found) in PAGE.read_text()


def test_each_rule_has_a_variant_without_it() -> None:
    """Every rule is taken away by some variant that is refuted."""
    rules = [name for name, on in vars(VARIANTS[0]).items() if on is True]
    weaker = [one for one in VARIANTS if one.breaks]

    assert [] == [name for name in rules if all(getattr(one, name) for one in weaker)]


def test_the_page_says_what_is_promised() -> None:
    """And has what only `make model` searches."""
    page = PAGE.read_text()

    assert HEAD in page
    assert all(f"### {one.name}: {one.text}\n" in page for one in VARIANTS)
