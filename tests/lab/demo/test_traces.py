"""What a demo did to one record is allowed; with one step elsewhere it is refused there."""

import json

from pathlib import Path

import pytest

from tests.lab.traced.corruptions import CORRUPTIONS, Corruption, see_refused
from tests.lab.traced.judge import judge


TAPE = Path(__file__).with_name("tape.json")
"""Of `make demo`: a record whose controller, and the deregistrar during its drain, were killed."""


def test_life_of_a_demo_is_followed() -> None:
    """Every step is one that the model allows."""
    verdict = judge(json.loads(TAPE.read_text()))

    assert None is verdict.refusal
    assert 13 == verdict.steps


@pytest.mark.parametrize(
    ("corrupted", "why"), CORRUPTIONS, ids=[c.__name__ for c, _ in CORRUPTIONS]
)
def test_corrupted_life_is_refused(corrupted: Corruption, why: str) -> None:
    """The refusal names the step that was put elsewhere."""
    see_refused(json.loads(TAPE.read_text()), corrupted, why)
