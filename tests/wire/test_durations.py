"""Durations: Go's spelling, read and written without loss."""

from datetime import timedelta

import pytest

from hypothesis import given
from hypothesis import strategies as st

from lbcf.wire.errors import Malformed
from lbcf.wire.fields import parse_duration, render_duration


LENGTHS = st.timedeltas(timedelta(0), timedelta(days=365))


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("10s", timedelta(seconds=10)),
        ("1m30s", timedelta(seconds=90)),
        ("1h0m0s", timedelta(hours=1)),
        ("1.5h", timedelta(minutes=90)),
        (".5s", timedelta(milliseconds=500)),
        ("500ms", timedelta(milliseconds=500)),
        ("2m", timedelta(minutes=2)),
        ("7us", timedelta(microseconds=7)),
        ("7µs", timedelta(microseconds=7)),
        ("1000ns", timedelta(microseconds=1)),
        ("0s", timedelta(0)),
    ],
)
def test_go_s_spelling_is_read(text: str, length: timedelta) -> None:
    """All units, fractions and sums of them, as time.ParseDuration has it."""
    assert length == parse_duration(text)


@pytest.mark.parametrize(
    "text", ["", "10", "s", "10 s", "-5s", "+5s", "10s!", "1d", "1m 30s", "1,5s", "0"]
)
def test_anything_else_is_malformed(text: str) -> None:
    """The message repeats what was there and shows what should be."""
    with pytest.raises(Malformed, match=r"is not a duration such as 10s or 1m30s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(seconds=90), "90s"),
        (timedelta(milliseconds=1500), "1500ms"),
        (timedelta(microseconds=1), "1us"),
        (timedelta(0), "0s"),
    ],
)
def test_largest_unit_that_loses_nothing_is_written(
    length: timedelta, text: str
) -> None:
    """Whole seconds are seconds."""
    assert text == render_duration(length)


@given(LENGTHS)
def test_what_is_written_is_read_again(length: timedelta) -> None:
    """Else a record would differ from its group for ever, and be updated for ever."""
    assert length == parse_duration(render_duration(length))
