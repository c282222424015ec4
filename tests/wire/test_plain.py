"""Text of others: what is hidden in it goes, what is seen of it stays."""

import pytest

from hypothesis import given
from hypothesis import strategies as st

from lbcf.wire.plain import is_plain, plain


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("pool is full", "pool is full"),
        ("größer als 5 €, 中文", "größer als 5 €, 中文"),
        ("\x1b[2J\x1b[1;31mred", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;root@host\x07title", "title"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\sixel", "sixel"),
        ("\x1b(0line", "line"),
        ("\x1b", ""),
        ("a\r\nb\tc\u2028d\x85e", "a  b c d e"),
        ("evil\u202egnp.exe\u2066\u2069", "evilgnp.exe"),
        ("a\u200bb\ufeffc\u00add", "abcd"),
        ("\u0646\u200c\u0627", "\u0646\u200c\u0627"),
        ("\x00\x08\x7f", ""),
        ("\ud800", "\ufffd"),
    ],
)
def test_only_what_is_seen_stays(said: str, seen: str) -> None:
    """Sequences of terminals, control, bidirectional and invisible characters go."""
    assert seen == plain(said)


@given(st.text(st.characters(codec="utf-8")))
def test_plain_text_stays_as_it_is(text: str) -> None:
    """To clean twice is to clean once."""
    assert is_plain(plain(text))
    assert len(plain(text)) <= len(text)
