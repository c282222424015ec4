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


def test_every_flag_is_explained() -> None:
    """No flag is known only to those who read the code."""
    parser = argparse.ArgumentParser(add_help=False)
    add_flags(parser)
    flags = [flag for action in parser._actions for flag in action.option_strings]  # noqa: SLF001

    assert [] == [flag for flag in flags if flag not in PAGE]
