"""CONTRIBUTING tells what each package of tests is for, `make help` what each target does."""

import re

from collections import Counter
from pathlib import Path


PAGE = Path("CONTRIBUTING.md")
ROOTS = (Path("tests"), Path("tests/lab"))
OF_PROGRAMS = {"tests/lab"}
"""Told folder by folder."""

_PACKAGE = re.compile(r"`(tests/[\w/]+)`")

MAKEFILE = Path("Makefile")
_TARGET = re.compile(r"^\.PHONY: (\S+)$", re.MULTILINE)
_TOLD = re.compile(
    r"^(\S+):.* ## (?:at once|~?[0-9]+ (?:s|min|h)) \| .+\.$", re.MULTILINE
)


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


def test_each_target_says_what_it_does_and_how_long_it_takes() -> None:
    """For `make help`; a tilde stands before what is known roughly."""
    text = MAKEFILE.read_text()

    assert sorted(_TARGET.findall(text)) == sorted(_TOLD.findall(text))


def test_quick_tests_are_those_that_the_page_names() -> None:
    """`make test-core` runs the first two rows of the table."""
    found = re.search(r"^CORE := .*tests/,(.*)\)$", MAKEFILE.read_text(), re.MULTILINE)
    assert found is not None
    core = [f"tests/{name}" for name in found[1].split()]

    assert sorted(core) == sorted(named()[: len(core)])
