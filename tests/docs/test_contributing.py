"""CONTRIBUTING tells what each package of tests is for."""

import re

from collections import Counter
from pathlib import Path


PAGE = Path("CONTRIBUTING.md")
ROOTS = (Path("tests"), Path("tests/lab"))
OF_PROGRAMS = {"tests/lab"}
"""Told folder by folder."""

_PACKAGE = re.compile(r"`(tests/[\w/]+)`")


def named() -> list[str]:
    """Each package in the first column of a table."""
    rows = re.findall(r"^\| (`tests/[^|]*)\|", PAGE.read_text(), re.MULTILINE)
    return [package for row in rows for package in _PACKAGE.findall(row)]


def packages() -> set[str]:
    """The folders of tests, and those of programs that people run."""
    folders = (one for root in ROOTS for one in root.iterdir() if one.is_dir())
    return {str(one) for one in folders if any(one.glob("*.py"))} - OF_PROGRAMS


def test_each_package_has_its_place() -> None:
    """Once, and none that is not there."""
    assert [] == [one for one, times in Counter(named()).items() if times > 1]
    assert packages() == set(named())
