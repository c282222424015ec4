"""docs/concepts.md: its words, conditions and finalizers are those of the project."""

import re

from pathlib import Path

import pytest

from lbcf.core.model import names
from lbcf.core.model.values import DrainPolicy
from tests.docs.names import condition_types
from tests.docs.test_glossary import PAGE as GLOSSARY


PAGE = Path("docs/concepts.md")
LINKED_FROM = (Path("README.md"), Path("docs/quickstart.md"))
_LINK = re.compile(r"\[([^\]]+)\]\(([\w./-]*)(?:#([\w-]+))?\)")
_CONDITION = re.compile(r"\*\*([A-Z]\w+)\*\*, of ")


def anchors(page: Path) -> set[str]:
    """The names of a page's sections, as links have them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    kept = (re.sub(r"[^\w -]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


def words_of(anchor: str) -> str:
    """The table of the glossary below a section's heading, in small letters."""
    for section in GLOSSARY.read_text().split("\n## ")[1:]:
        heading, _, table = section.partition("\n")
        if heading.lower().replace(" ", "-") == anchor:
            return table.lower()
    return ""


def test_links_lead_somewhere() -> None:
    """To a page that there is, and to a section of it."""
    for _, page, anchor in _LINK.findall(PAGE.read_text()):
        target = PAGE.parent / page

        assert target.is_file()
        assert not anchor or anchor in anchors(target), f"{page}#{anchor}"


def test_words_are_in_the_section_that_they_link_to() -> None:
    """Each is a word of the glossary, in the singular."""
    links = _LINK.findall(PAGE.read_text())
    linked = [(word, anchor) for word, page, anchor in links if page == GLOSSARY.name]
    strangers = [
        word
        for word, anchor in linked
        if anchor and not _is_word(word.lower(), words_of(anchor))
    ]

    assert [] == strangers


def _is_word(word: str, table: str) -> bool:
    forms = {word, word.removesuffix("s"), word.removesuffix("ed"), f"drain {word}"}
    return any(f"**{form}**" in table for form in forms)


def test_conditions_are_there() -> None:
    """Those that say what is healthy."""
    told = set(_CONDITION.findall(PAGE.read_text()))

    assert 4 == len(told)
    assert told <= condition_types()


def test_finalizers_are_all_there() -> None:
    """What holds a deletion is in the last table."""
    ours = {value for name, value in vars(names).items() if "FINALIZER" in name}
    rows = PAGE.read_text().partition("| held by |")[2]

    assert ours == set(re.findall(r"`([\w.]+/[\w-]+)`", rows))


def test_time_of_a_drain_is_right() -> None:
    """Where nobody says how long one lasts."""
    seconds = DrainPolicy().timeout.total_seconds()

    assert f"({seconds:g} s unless `drain.timeoutSeconds`" in PAGE.read_text()


@pytest.mark.parametrize("page", LINKED_FROM, ids=str)
def test_readers_find_it(page: Path) -> None:
    """Whoever begins meets it."""
    assert PAGE.name in page.read_text()
