"""The lines of a page, such as docs/quickstart.md, to be run as they stand."""

import re

from pathlib import Path

import attrs


PAGE = Path("docs/quickstart.md")
TUTORIAL = Path("docs/tutorial.md")
ON_NODES = "node"
_HEADING = re.compile(r"#+ (?P<text>.+)")
_PROMPT = re.compile(r"(?P<where>node)?\$ (?P<command>.+)")


@attrs.frozen
class Line:
    """A command of the page.

    Attributes:
        heading: under which it stands.
        where: empty for the operator's machine, or `ON_NODES`.
        command: for bash.
    """

    heading: str
    where: str
    command: str


def lines(page: str) -> list[Line]:
    """Return all commands, in their order; one that goes on after a backslash is one."""
    found, heading, inside = [], "", False
    for text in page.replace("\\\n", "").splitlines():
        if text.startswith("```"):
            inside = text == "```console"
        elif not inside and (named := _HEADING.fullmatch(text)):
            heading = named["text"]
        elif inside and (shown := _PROMPT.fullmatch(text)):
            found.append(Line(heading, shown["where"] or "", shown["command"]))
    return found
