"""docs/api.md names what users can write: each field, each word of an enumeration."""

import re

from collections.abc import Iterator
from pathlib import Path

import pytest

from lbcf.core.model.values import DeregisterPolicy
from tests.docs.names import condition_types
from tests.manifests.documents import Document, schemas


PAGE = Path("docs/api.md")
KINDS = (
    "LoadBalancerDriver",
    "LoadBalancerClass",
    "LoadBalancer",
    "BackendGroup",
    "Bind",
)
"""Records are written by the controller alone."""


def words_in(schema: Document) -> Iterator[str]:
    """The names of all fields below a place of a schema, and what they may say."""
    for name, below in schema.get("properties", {}).items():
        yield name
        yield from words_in(below)
    yield from map(str, schema.get("enum", ()))
    if "items" in schema:
        yield from words_in(schema["items"])


@pytest.mark.parametrize("kind", KINDS)
def test_fields_and_their_words_are_told(kind: str) -> None:
    """A new field, or a new policy, needs a place on the page."""
    told = set(re.findall(r"\w+", PAGE.read_text()))
    words = set(words_in(schemas()[kind]["properties"]["spec"]))

    assert words
    assert [] == sorted(words - told), f"they need a place in {PAGE}"


@pytest.mark.parametrize("name", ["api.md", "glossary.md", "status.md"])
def test_policies_are_listed_in_one_line(name: str) -> None:
    """Each page that lists the policies has all of them."""
    page = Path("docs") / name
    lines = [
        re.findall(r"\w+", line)
        for line in page.read_text().splitlines()
        if "deregisterPolicy" in line and DeregisterPolicy.IF_NOT_READY.value in line
    ]

    assert any(
        {one.value for one in DeregisterPolicy} <= set(line) for line in lines
    ), (
        f"{page}: the line about deregisterPolicy has to name {', '.join(DeregisterPolicy)}"
    )


def test_conditions_are_told() -> None:
    """In the first column of their table."""
    table = PAGE.read_text().partition("| condition |")[2].partition("\n\n")[0]
    cells = (row.split("|")[1] for row in table.splitlines()[2:])
    told = {word for cell in cells for word in re.findall(r"\w+", cell)}

    assert condition_types() == told, f"the table of conditions in {PAGE}"
