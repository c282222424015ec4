"""Pages that name tests name tests that there are."""

import ast
import re

from pathlib import Path

import pytest


SECURITY = Path("docs/security.md")
FAULTS = Path("docs/driver-faults.md")
NAMING = (SECURITY, FAULTS, Path("docs/promises.md"))
HELD = "| what holds | held by |"
FAULT = "| what goes wrong | what is said meanwhile | in the end | held by |"
_NAMED = re.compile(r"`(tests/[\w/]+\.py)?(?:::(\w+))?`")


def named_in(text: str) -> list[tuple[str, str]]:
    """Each file that a text names, with a test of it, or none; `::test` means the last."""
    found, file = [], ""
    for path, test in _NAMED.findall(text):
        file = path or file
        if path or test:
            found.append((file, test))
    return found


def names_in(path: Path) -> set[str]:
    """The names of the tests in a file, those of its classes included."""
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {n.name for n in ast.walk(tree) if isinstance(n, kinds)}


@pytest.mark.parametrize("page", NAMING, ids=str)
def test_named_tests_exist(page: Path) -> None:
    """A test that is renamed takes its line of the page along."""
    named = named_in(page.read_text())
    files = {file for file, _ in named if not Path(file).is_file()}
    lost = [
        f"{file}::{test}"
        for file, test in named
        if test and file not in files and test not in names_in(Path(file))
    ]

    assert named
    assert set() == files
    assert [] == lost


@pytest.mark.parametrize(
    ("page", "head", "tables"), [(SECURITY, HELD, 5), (FAULTS, FAULT, 5)], ids=str
)
def test_every_line_is_held_by_a_test(page: Path, head: str, tables: int) -> None:
    """What only stands there is not in a table with that head."""
    unheld = []
    for table in page.read_text().split(head)[1:]:
        for line in table.strip().splitlines()[1:]:
            if not line.startswith("|"):
                break
            if not named_in(line):
                unheld.append(line)

    assert tables == page.read_text().count(head)
    assert [] == unheld
