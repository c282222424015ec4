"""Pages that lead people through the tree name files that there are."""

import re

from pathlib import Path

import pytest


ROOMS = "lbcf|webhooks|tests|manifests|docs|images|requirements"
PAGES = [
    Path("docs/changing.md"),
    Path("docs/architecture.md"),
    Path("CONTRIBUTING.md"),
]
_NAMED = re.compile(rf"`((?:{ROOMS})/[\w./-]*)`")
_PATTERN = re.compile(r"\bNAME\b")
"""Stands for a name that readers choose."""


def named_in(text: str) -> set[str]:
    """Each file and folder that a text names."""
    return {one for one in _NAMED.findall(text) if not _PATTERN.search(one)}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_named_files_exist(page: Path) -> None:
    """Who moves a file takes the walks along."""
    named = named_in(page.read_text())

    assert named
    assert [] == sorted(one for one in named if not Path(one).exists())


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_readers_find_the_walks(page: str) -> None:
    """Whoever wants to change something meets the page."""
    assert "changing.md" in Path(page).read_text()
