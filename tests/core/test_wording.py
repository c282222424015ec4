"""The words that messages have in common."""

import pytest

from lbcf.core.wording import some_of


@pytest.mark.parametrize(
    ("subjects", "text"),
    [
        pytest.param("", "", id="none"),
        pytest.param("a", "a", id="one"),
        pytest.param("abc", "a, b, c", id="as many as are listed"),
        pytest.param("abcd", "a, b, c and 1 more", id="one more"),
        pytest.param("cabed", "c, a, b and 2 more", id="in their order"),
    ],
)
def test_the_first_few_are_listed_and_the_others_counted(
    subjects: str, text: str
) -> None:
    """Three, where nothing else is asked for."""
    assert text == some_of(subjects)


def test_sentences_are_parted_as_is_asked_for() -> None:
    """They have commas of their own."""
    sentences = ["a is old, and slow", "b is new", "c is gone"]

    told = some_of(sentences, most=2, separator="; ", last="; and ")

    assert "a is old, and slow; b is new; and 1 more" == told
