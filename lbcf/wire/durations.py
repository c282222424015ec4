"""Durations as Go writes them (`1m30s`, `500ms`), which LBCF's API uses."""

import re

from datetime import timedelta

from lbcf.wire.errors import Malformed


_MICROSECONDS = {
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
    "µs": 1,
    "ns": 0.001,
}
_PART = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(h|ms|us|µs|ns|m|s)")


def parse_duration(text: str) -> timedelta:
    """Read a duration (Go's time.ParseDuration, without signs).

    Raises:
        Malformed: it is not one.
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise Malformed(f"{text!r} is not a duration such as 10s or 1m30s")
    return timedelta(microseconds=sum(float(n) * _MICROSECONDS[u] for n, u in parts))


def render_duration(length: timedelta) -> str:
    """Write a duration in the largest unit, of s, ms and us, that loses nothing."""
    microseconds = length // timedelta(microseconds=1)
    for unit in ("s", "ms"):
        whole, rest = divmod(microseconds, _MICROSECONDS[unit])
        if not rest:
            return f"{whole:.0f}{unit}"
    return f"{microseconds}us"
