"""Which of some changes the unit cannot make, where it refuses all and names none.

`transactions` tries what is said here. It is taken that one of them is the cause: the half
that another one clears is not tried by itself, but kept for the end, where all of these are
made together. Is there a second cause, that is refused, and searched in its turn.
"""

from collections.abc import Sequence
from typing import Generic, Self, TypeVar

import attrs


_T = TypeVar("_T")


@attrs.frozen
class Halving(Generic[_T]):
    """What is known of changes that were refused together.

    Attributes:
        suspects: one of them is the cause.
        cleared: the others that are not made yet.
    """

    suspects: Sequence[_T]
    cleared: Sequence[_T] = ()

    @property
    def half(self) -> Sequence[_T]:
        """What to try next; empty: there is one suspect."""
        return self.suspects[: len(self.suspects) // 2]

    @property
    def unmade(self) -> Sequence[_T]:
        """All that are not made."""
        return [*self.suspects, *self.cleared]

    def made(self, number: int) -> Self:
        """Return what is known once so many, from the first suspect on, were made."""
        return attrs.evolve(self, suspects=self.suspects[number:])

    def refused(self, number: int) -> Self:
        """Return what is known once so many, from the first suspect on, were refused."""
        tried, others = self.suspects[:number], self.suspects[number:]
        return attrs.evolve(self, suspects=tried, cleared=[*self.cleared, *others])
