"""Lengths of time and moments as kubectl writes them: short, the two largest units."""

from datetime import datetime, timedelta


_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_PARTS = 2


def span(length: timedelta) -> str:
    """Write a length of time, such as `7s`, `2m5s` or `3d4h`; what is negative is 0s."""
    left = max(int(length.total_seconds()), 0)
    parts: list[str] = []
    for unit, seconds in _UNITS:
        count, left = divmod(left, seconds)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return "".join(parts[:_PARTS]) or "0s"


def since(moment: datetime | None, now: datetime) -> str:
    """Say for how long something has been so, empty where nobody knows."""
    return "" if moment is None else span(now - moment)


def when(moment: datetime, now: datetime) -> str:
    """Say in how long something is to happen, or how long ago it should have."""
    if moment >= now:
        return f"in {span(moment - now)}"
    return f"{span(now - moment)} ago"
