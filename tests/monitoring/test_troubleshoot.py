"""docs/troubleshoot.md has what the code can write, and nothing else."""

import re

from itertools import product
from pathlib import Path

from lbcf.core.reasons import CallEvent, EventReason, Reason
from lbcf.executor.object_events import NOUNS
from tests.monitoring.troubleshoot import PAGE, WORDS, with_tables


def test_tables_are_made_of_the_reasons() -> None:
    """Of all of them; written by `python -m tests.monitoring`."""
    page = PAGE.read_text()

    assert page == with_tables(page), "python -m tests.monitoring writes the page anew"


def test_every_reason_is_written_by_some_code() -> None:
    """The types see to it that no code writes another one."""
    code = " ".join(path.read_text() for path in Path("lbcf").rglob("*.py"))
    used = set(re.findall(r"\b(?:Event)?Reason\.([A-Z_]+)\b", code))

    assert used == {one.name for one in (*Reason, *EventReason)}, (
        "no code in lbcf/ gives a reason of lbcf/core/reasons.py, or names one it lacks"
    )


def test_answers_have_an_event_for_each_outcome() -> None:
    """The names that LBCF in Go gave them, put together from two words."""
    nouns = (noun for noun, _ in NOUNS.values())

    assert {word + noun for word, noun in product(WORDS, nouns)} == set(CallEvent)
