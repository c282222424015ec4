"""Makes one value of many that are equal, so that a cache of thousands holds it once.

Pods of one template have the same labels, records of one load balancer the same identity
and parameters. The decoders of this package pass what they keep through here.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final


_REMEMBERED: Final = 1024
"""Values of each sort; those beyond it are simply not shared."""

NOTHING: Final[Mapping[str, str]] = {}
"""The empty map; nobody writes into what was decoded."""


def shared_map(found: dict[str, str] | None) -> Mapping[str, str]:
    """Return an equal map, the same one for equal maps."""
    return _map(tuple(found.items())) if found else NOTHING


def shared_texts(found: Iterable[str] | None) -> tuple[str, ...]:
    """Return the texts, the same tuple for equal ones."""
    return _texts(tuple(found)) if found else ()


@lru_cache(_REMEMBERED)
def _map(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Keep the first of equal maps."""
    return dict(items)


@lru_cache(_REMEMBERED)
def _texts(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Keep the first of equal tuples."""
    return texts
