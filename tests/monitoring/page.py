"""docs/metrics.md: its table is made of the registries."""

from collections.abc import Iterable
from pathlib import Path

from tests.monitoring.registries import Family


PAGE = Path("docs/metrics.md")
BEGIN = "<!-- made by `python -m tests.monitoring`: begin -->"
END = "<!-- made by `python -m tests.monitoring`: end -->"
_HEAD = "| metric | type | labels | of | meaning |\n|---|---|---|---|---|"


def table(families: Iterable[Family]) -> str:
    """Write the table."""
    return "\n".join([_HEAD, *map(_row, families)])


def _row(family: Family) -> str:
    """Write one row."""
    labels = ", ".join(f"`{label}`" for label in family.labels)
    cells = [
        f"`{family.name}`",
        family.kind,
        labels,
        ", ".join(sorted(family.processes)),
        family.text.replace("|", "\\|"),
    ]
    return f"| {' | '.join(cells)} |"


def with_table(page: str, families: Iterable[Family]) -> str:
    """Put the table in its place of a page."""
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{table(families)}\n{END}{tail}"
