"""An index of a store: from what objects say to the objects that say it.

`Store` keeps it with every change, so that a look-up costs what it finds.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from lbcf.core.model.values import ObjectKey
from lbcf.kube.resource import HasMeta


T = TypeVar("T", bound=HasMeta)

Terms = Callable[[T], Iterable[Hashable]]
"""Says under which values an object is to be found; pure, always the same for it."""


class Index(Generic[T]):
    """Objects by the values that `terms` gives for them."""

    def __init__(self, terms: Terms[T]) -> None:
        self._terms = terms
        self._found: dict[Hashable, dict[ObjectKey, T]] = {}

    def add(self, value: T) -> None:
        """Put an object in."""
        for term in self._terms(value):
            self._found.setdefault(term, {})[value.meta.key] = value

    def discard(self, value: T) -> None:
        """Take an object out that was put in."""
        for term in set(self._terms(value)):
            found = self._found.get(term, {})
            found.pop(value.meta.key, None)
            if not found:
                self._found.pop(term, None)

    def find(self, term: Hashable) -> tuple[T, ...]:
        """Return the objects with that value."""
        return tuple(self._found.get(term, {}).values())
