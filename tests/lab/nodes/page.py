"""The table of events, for people: on the terminal and in docs/nodes.md."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.lab.nodes.events import Damage, Event


BEGIN = "<!-- made by `make nodes`: begin -->"
END = "<!-- made by `make nodes`: end -->"
_HEAD = (
    "| what happened | policy | records | driver calls | API writes | requests "
    "| failed | through the lost node |\n|---|---|---|---|---|---|---|---|"
)


def table(events: Sequence[Event], damage: Iterable[Damage]) -> str:
    """Write the table in Markdown."""
    rows = [_row(event, hurt) for event, hurt in zip(events, damage, strict=True)]
    return "\n".join([_HEAD, *rows])


def _row(event: Event, hurt: Damage) -> str:
    """Write one row."""
    went = [f"{node} out: `{reason}`" for node, reason in event.removed]
    came = [f"{node} in" for node in event.created]
    calls = [f"{name} {count}" for name, count in sorted(event.calls.items())]
    cells = [
        event.name,
        "Local" if event.local else "Cluster",
        "; ".join([*went, *came]) or "as they were",
        ", ".join(calls) or "**0**",
        str(event.writes.total()) if event.writes else "**0**",
        str(hurt.requests),
        f"**{len(hurt.failed)}**",
        str(hurt.excused) if event.lost else "",
    ]
    return f"| {' | '.join(cells)} |"


def put(path: Path, text: str) -> None:
    """Put a table into a page, between its marks.

    Raises:
        ValueError: the page has no such marks.
    """
    before, _, rest = path.read_text().partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{path} has no place for the table")
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
