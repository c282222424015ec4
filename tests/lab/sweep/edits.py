"""The code with one guard taken out: the sweep must notice each.

A mutant is an edit of one function's source, made for the length of a run and only in
the process that makes it. An edit that no longer fits fails loudly. One that fits is made
in the function itself: whoever has imported it calls the edited one. `guards` has the list,
`mutants` the hunt.
"""

import __future__

import inspect
import textwrap

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

import attrs


@attrs.frozen
class Edit:
    """A change of one function.

    Attributes:
        owner: its class or module.
        name: of the function.
        old: a part of its source, there once.
        new: what stands there instead.
    """

    owner: Any
    name: str
    old: str
    new: str

    @contextmanager
    def made(self) -> Iterator[None]:
        """Have the change made for a block.

        Raises:
            LookupError: the source has no such part.
        """
        function = _function(vars(self.owner)[self.name])
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(self.old) != 1:
            raise LookupError(f"{self.name}: {self.old!r} is not there once")
        made: dict[str, Any] = {}
        code = compile(
            source.replace(self.old, self.new),
            inspect.getsourcefile(function) or self.name,
            "exec",
            flags=__future__.annotations.compiler_flag,
            dont_inherit=True,
        )
        exec(code, function.__globals__, made)  # noqa: S102 - the point of it
        whole = function.__code__
        function.__code__ = _function(made[self.name]).__code__
        try:
            yield
        finally:
            function.__code__ = whole


def _function(found: Any) -> FunctionType:
    """Return the function of a property, or below decorators."""
    found = found.fget if isinstance(found, property) else found
    function: object = inspect.unwrap(found)
    assert isinstance(function, FunctionType)
    return function


@attrs.frozen
class Value:
    """A change of one constant."""

    owner: Any
    name: str
    new: Any

    @contextmanager
    def made(self) -> Iterator[None]:
        """Have the change made for a block."""
        whole = vars(self.owner)[self.name]
        setattr(self.owner, self.name, self.new)
        try:
            yield
        finally:
            setattr(self.owner, self.name, whole)


@attrs.frozen
class Mutant:
    """One guard taken out.

    Attributes:
        loses: which guard.
        edits: how.
        where: scenarios in which it should be noticed, `name` or `name/setting`.
        modes: of faults by which it should be noticed; empty: any.
        pairs: single faults do not do.
    """

    loses: str
    edits: tuple[Edit | Value, ...]
    where: tuple[str, ...]
    modes: tuple[str, ...] = ()
    pairs: bool = False

    @contextmanager
    def made(self) -> Iterator[None]:
        """Take the guard out for a block."""
        with ExitStack() as stack:
            for edit in self.edits:
                stack.enter_context(edit.made())
            yield
