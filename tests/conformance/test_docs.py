"""The page on the kit: all rules and all flags are on it."""

import argparse

from pathlib import Path

import pytest

from lbcf.conformance.bench import Rule
from lbcf.conformance.flags import add_flags
from lbcf.conformance.kit import CATALOGUE


PAGE = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text("utf-8")


@pytest.mark.parametrize("rule", CATALOGUE, ids=lambda rule: rule.name)
def test_every_rule_is_explained(rule: Rule) -> None:
    """Its id and its sentence are in a row of the table."""
    assert f"| `{rule.name}` | {rule.sentence} |" in PAGE


@pytest.mark.parametrize("source", sorted({rule.source for rule in CATALOGUE}))
def test_a_rule_s_source_is_a_section(source: str) -> None:
    """Who follows it finds what the rule is taken from."""
    page, _, anchor = source.partition("#")
    text = (Path(__file__).parents[2] / page).read_text("utf-8")
    headings = {
        line.lstrip("# ").lower().replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    assert anchor in headings


def test_every_flag_is_explained() -> None:
    """No flag is known only to those who read the code."""
    parser = argparse.ArgumentParser(add_help=False)
    add_flags(parser)
    flags = [flag for action in parser._actions for flag in action.option_strings]  # noqa: SLF001

    assert [] == [flag for flag in flags if flag not in PAGE]
