"""docs/troubleshoot.md has what the code can write, and nothing else."""

import ast
import re

from collections import Counter
from pathlib import Path

import pytest

from lbcf.core.lifecycle import turn
from tests.monitoring.reasons import Search, Source, of_calls, sources


PAGE = Path("docs/troubleshoot.md")
HEAD = "| reason | on | means | do |"
_QUOTED = re.compile(r"`(\w+)`")


def entries() -> list[tuple[str, list[str]]]:
    """Each reason of the page's tables, with the other cells of its row."""
    found = []
    for table in PAGE.read_text().split(HEAD)[1:]:
        for line in table.strip().splitlines()[1:]:
            if not line.startswith("|"):
                break
            first, *rest = (cell.strip() for cell in line.strip("|").split("|"))
            found += [(reason, rest) for reason in _QUOTED.findall(first)]
    return found


def test_every_reason_has_an_entry_and_every_entry_a_reason() -> None:
    """Those of conditions, Events, held removals, undecided groups and deletions."""
    written = Search(sources()).run().reasons.keys() | of_calls()

    assert written == {reason for reason, _ in entries()}


def test_no_reason_escapes_the_search() -> None:
    """What is put into a `reason` comes from a constant, wherever that is."""
    assert [] == Search(sources()).run().unexplained


def test_entries_are_whole_and_alone() -> None:
    """Each says where it is seen, what it means and what to do, in one place."""
    found = entries()

    assert [] == [r for r, n in Counter(r for r, _ in found).items() if n > 1]
    assert [] == [r for r, cells in found if len(cells) != 3 or not all(cells)]


@pytest.mark.parametrize(
    ("line", "reasons"),
    [
        ('Absent(Reason.DRIVER_REFUSED, "")', {"DriverRefused"}),
        ('Absent(reason="Literal", message="")', {"Literal"}),
        (
            "reason = Reason.DRIVER_RUNNING if 1 else Reason.DRIVER_REFUSED",
            {"DriverRunning", "DriverRefused"},
        ),
        ("Absent(unheard_of(), '')", None),
        ("Absent(f'Driver{1}', '')", None),
    ],
    ids=["constant", "keyword", "either", "from nowhere", "put together"],
)
def test_reason_is_found_where_it_is_put(line: str, reasons: set[str] | None) -> None:
    """What the tests above rest on; None: the search says that it cannot tell."""
    own = next(source for source in sources() if source.module is turn)
    tree = ast.parse(f"class Absent:\n    reason: str\n{line}")
    found = Search([Source(own.name, tree, turn)]).run()

    assert (reasons or set()) == found.reasons.keys()
    assert (reasons is None) is bool(found.unexplained)
