"""Mutants as the list writes them, and what differs between the list and those that live."""

import re

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import attrs


LIST = Path(__file__).with_name("living.txt")

_LITERAL = re.compile(r'"[^"]*"')


@attrs.frozen
class Mutant:
    """One change of a function, known by its text alone: lines move.

    Attributes:
        function: with module and class.
        before: the lines that it changes, without their indentation.
        after: what stands there instead.
    """

    function: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    def __str__(self) -> str:
        """Write it as in the list."""
        return "\n".join(
            (self.function, *_lines("-", self.before), *_lines("+", self.after))
        )

    @property
    def is_wording(self) -> bool:
        """Whether it changes only words for people: literals that have a space in them."""
        return _without_words(self.before) == _without_words(self.after)


@attrs.frozen
class Difference:
    """What differs between the list and the mutants that live.

    Attributes:
        unlisted: live and are not listed.
        stale: are listed and do not live, or are not there any more.
    """

    unlisted: Sequence[Mutant]
    stale: Sequence[Mutant]


def mutant_of(name: str, diff: str) -> Mutant:
    """Read one as mutmut tells of it: its name, and the diff of its function."""
    function = re.sub(r"\.x[_ǁ]", ".", name.partition("__mutmut_")[0])
    changes = diff.splitlines()[2:]
    return Mutant(
        function.replace("ǁ", "."), _stripped("-", changes), _stripped("+", changes)
    )


def read_list(text: str) -> list[Mutant]:
    """Read the list: reasons after `#`, and below each its mutants as they are written.

    Raises:
        ValueError: if a mutant stands before the first reason.
    """
    blocks = [block for block in text.split("\n\n") if block.strip()]
    if not blocks or not blocks[0].startswith("#"):
        raise ValueError("a list of mutants begins with the reason of the first ones")
    return [_read(block) for block in blocks if not block.startswith("#")]


def compare(lives: Iterable[Mutant], listed: Iterable[Mutant]) -> Difference:
    """Compare those that live with the list; wording needs no entry, twins need two."""
    lives, listed = Counter(lives), Counter(listed)
    new = (lives - listed).elements()
    return Difference(
        [mutant for mutant in new if not mutant.is_wording],
        list((listed - lives).elements()),
    )


def _read(block: str) -> Mutant:
    function, *changes = block.strip().splitlines()
    return Mutant(function, _stripped("-", changes), _stripped("+", changes))


def _stripped(mark: str, changes: Sequence[str]) -> tuple[str, ...]:
    return tuple(one[1:].strip() for one in changes if one.startswith(mark))


def _lines(mark: str, lines: Sequence[str]) -> Iterator[str]:
    return (f"{mark} {line}" for line in lines)


def _without_words(lines: Sequence[str]) -> list[str]:
    return [
        _LITERAL.sub(lambda found: '" "' if " " in found[0] else found[0], line)
        for line in lines
    ]
