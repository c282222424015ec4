"""The trace context: what is sent can be read, what is wrong is ignored."""

import pytest

from lbcf.runtime.clock import SystemClock
from lbcf.runtime.spans import TRACE_HEADER, Trace, new_trace, parse_trace


ONE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


def test_what_is_sent_is_understood() -> None:
    """A new trace survives its header."""
    trace = new_trace(SystemClock().new_id())

    assert trace == parse_trace(trace.headers()[TRACE_HEADER])


def test_what_is_kept_says_so() -> None:
    """In the last bit of the flags, which the other side may follow."""
    assert (
        f"00-{ONE}-{SPAN}-01" == Trace(ONE, SPAN, sampled=True).headers()[TRACE_HEADER]
    )
    assert f"00-{ONE}-{SPAN}-00" == Trace(ONE, SPAN).headers()[TRACE_HEADER]


@pytest.mark.parametrize(
    "text", [f"00-{ONE}-{SPAN}-01", f"cc-{ONE}-{SPAN}-00-what-comes-later"]
)
def test_headers_of_others(text: str) -> None:
    """Flags do not matter, and later versions may say more."""
    assert Trace(ONE, SPAN) == parse_trace(text)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        ONE,
        f"ff-{ONE}-{SPAN}-01",
        f"00-{ONE}-{SPAN}-01-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{ONE}-{'0' * 16}-01",
        f"00-{ONE.upper()}-{SPAN}-01",
        f"00-{ONE}-{SPAN}-01\n",
    ],
)
def test_headers_that_are_none(text: str | None) -> None:
    """They are as if they were missing."""
    assert parse_trace(text) is None
