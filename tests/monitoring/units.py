"""Numbers as Grafana spells them in its units, and times of day."""

import bisect

from datetime import UTC, datetime
from typing import Final


_SIZES: Final[dict[str, tuple[tuple[float, str], ...]]] = {
    "s": ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1, "s"), (60, "min"), (3600, "h")),
    "bytes": ((1, "B"), (2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB")),
    "ops": ((1, "ops/s"), (1e3, "K ops/s")),
    "short": ((1, ""), (1e3, "K"), (1e6, "Mil")),
}
"""By Grafana's names of units: how much is one of what."""


def spelled(value: float, unit: str) -> str:
    """Spell a number with three digits in the largest size that it has one of."""
    sizes = _SIZES[unit]
    place = bisect.bisect_right([size for size, _ in sizes], abs(value) * 1.0001)
    if not value:
        place = next(n for n, (size, _) in enumerate(sizes, 1) if size == 1)
    size, name = sizes[max(place - 1, 0)]
    return f"{value / size:.3g} {name}".rstrip()


def clock(at: float) -> str:
    """Spell the time of day of a moment of Unix time, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
