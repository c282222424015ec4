"""docs/troubleshoot.md: its tables are made of the reasons."""

import re

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from lbcf.core.model.operations import Operation
from lbcf.core.reasons import EventReason, Explained, Reason
from lbcf.executor.object_events import NOUNS


PAGE = Path("docs/troubleshoot.md")
WORDS = ("Succ", "Running", "Failed", "Invalid")
_HEAD = "| reason | on | means | do |\n|---|---|---|---|\n"
_ROWS = re.compile(r"\A(\|.*\n)*")
_OF_RECORDS = frozenset(
    {
        Operation.GENERATE_BACKEND_ADDR,
        Operation.ENSURE_BACKEND,
        Operation.DEREGISTER_BACKEND,
    }
)


def with_tables(page: str) -> str:
    """Put each table in its place of a page.

    Raises:
        ValueError: another table stands below a heading than belongs there.
    """
    before, *rest = page.split(_HEAD)
    for (section, rows), text in zip(_tables(), rest, strict=True):
        heading = before.rpartition("\n## ")[2].partition("\n")[0]
        if heading != section:
            raise ValueError(f"the table of {section!r} has no place of its own")
        before += _HEAD + "".join(rows) + _ROWS.sub("", text)
    return before


def _tables() -> Iterator[tuple[str, list[str]]]:
    """Write the rows of each table, with the section that it stands in."""
    for kind in (Reason, EventReason):
        for section, found in groupby(kind, lambda one: one.where.section):
            yield section, [_row(one) for one in found]
    yield "Events", [_call_row(operation) for operation in NOUNS]


def _row(one: Explained) -> str:
    return f"| `{one}` | {one.where.on} | {one.means} | {one.do} |\n"


def _call_row(operation: Operation) -> str:
    names = ", ".join(f"`{word}{NOUNS[operation][0]}`" for word in WORDS)
    on = "record" if operation in _OF_RECORDS else "load balancer"
    ends = "succeeded, goes on, failed, or was answered with what cannot be read"
    return f"| {names} | {on} | {operation} {ends} | as its condition says |\n"
