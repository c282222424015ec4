"""Searches a small model, whose states are tuples, breadth first: traces are shortest ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar


S = TypeVar("S")


class Step(NamedTuple):
    """What may come next, in words, and the promise that it breaks."""

    text: str
    state: Any
    broken: str = ""


class Found(NamedTuple):
    """What a search has found.

    Attributes:
        states: how many there are.
        broken: the promise that is broken, in words; empty for none.
        trace: the shortest way there.
    """

    states: int
    broken: str = ""
    trace: tuple[str, ...] = ()


class Reached(Generic[S]):
    """All states that may come, or those up to the first broken promise.

    Args:
        start: the first one.
        steps: gives what may come next.

    Attributes:
        states: all of them, in order.
        found: what the search came to.
    """

    def __init__(self, start: S, steps: Callable[[S], Iterable[Step]]) -> None:
        self._before: dict[S, tuple[S, str] | None] = {start: None}
        self.states = [start]
        self.found = self._search(steps)

    def _search(self, steps: Callable[[S], Iterable[Step]]) -> Found:
        for s in self.states:
            for step in steps(s):
                if step.broken:
                    trace = (*self.way(s), step.text)
                    return Found(len(self.states), step.broken, trace)
                if step.state not in self._before:
                    self._before[step.state] = (s, step.text)
                    self.states.append(step.state)
        return Found(len(self.states))

    def way(self, s: S) -> tuple[str, ...]:
        """Tell the shortest way to a state."""
        words: list[str] = []
        came = self._before[s]
        while came is not None:
            words.append(came[1])
            came = self._before[came[0]]
        return tuple(reversed(words))


def section(name: str, text: str, found: Found) -> str:
    """Return what the page has of a variant."""
    if not found.broken:
        return f"\n### {name}: {text}\n\nHolds in all of {found.states:,} states.\n"
    way = "".join(f"{number:>3} {line}\n" for number, line in enumerate(found.trace, 1))
    return f"\n### {name}: {text}\n\n{found.broken}.\n\n```text\n{way}```\n"
