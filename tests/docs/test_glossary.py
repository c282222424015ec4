"""The glossary explains each word once, and says where in the code it lives."""

import re

from pathlib import Path

import pytest

from tests.docs.names import condition_types, exists


PAGE = Path("docs/glossary.md")
LINKED_FROM = ("README.md", "CONTRIBUTING.md", "docs/architecture.md")
_WORD = re.compile(r"^\| \*\*(.+?)\*\* \|(.*)$", re.MULTILINE)
_PLACE = re.compile(r"`(lbcf(?:\.\w+)+)`")


def explained() -> list[tuple[str, str]]:
    """Each word of the page, and the rest of its line."""
    return _WORD.findall(PAGE.read_text())


def test_each_word_is_explained_once() -> None:
    """A word with two lines has two meanings."""
    words = [word.lower() for word, _ in explained()]

    assert words
    assert sorted(set(words)) == sorted(words)


def test_each_word_lives_in_the_code() -> None:
    """Who renames a module or a class takes its line of the page along."""
    homeless = [word for word, rest in explained() if not _PLACE.search(rest)]
    lost = [
        f"{word}: {place}"
        for word, rest in explained()
        for place in _PLACE.findall(rest)
        if not exists(place)
    ]

    assert [] == homeless
    assert [] == lost


def test_each_condition_is_explained() -> None:
    """A new condition needs a line of its own."""
    missing = condition_types() - {word for word, _ in explained()}

    assert set() == missing, f"{PAGE} needs a line for each"


@pytest.mark.parametrize("page", LINKED_FROM)
def test_readers_find_it(page: str) -> None:
    """Whoever begins to read meets the glossary."""
    assert "glossary.md" in Path(page).read_text()
