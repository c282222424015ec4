"""The code with one guard taken out: the sweep must notice each.

A mutant is an edit of one function's source, made for the length of a run and only in
the process that makes it. An edit that no longer fits fails loudly. `guards` has the
list, `mutants` the hunt.
"""

import __future__

import inspect
import textwrap

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
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
        whole: Any = vars(self.owner)[self.name]
        function: Any = whole.fget if isinstance(whole, property) else whole
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(self.old) != 1:
            raise LookupError(f"{self.name}: {self.old!r} is not there once")
        scope = inspect.unwrap(function).__globals__
        made: dict[str, Any] = {}
        code = compile(
            source.replace(self.old, self.new),
            inspect.getsourcefile(function) or self.name,
            "exec",
            flags=__future__.annotations.compiler_flag,
            dont_inherit=True,
        )
        exec(code, scope, made)  # noqa: S102 - the point of it
        with _put(self.owner, self.name, made[self.name]):
            yield


@attrs.frozen
class Value:
    """A change of one constant."""

    owner: Any
    name: str
    new: Any

    @contextmanager
    def made(self) -> Iterator[None]:
        """Have the change made for a block."""
        with _put(self.owner, self.name, self.new):
            yield


@contextmanager
def _put(owner: Any, name: str, new: Any) -> Iterator[None]:
    """Put something in the place of something, also where stages are listed."""
    old = vars(owner)[name]
    stages = getattr(owner, "STAGES", ()) if isinstance(owner, ModuleType) else ()
    setattr(owner, name, new)
    if old in stages:
        owner.STAGES = tuple(new if stage is old else stage for stage in stages)
    try:
        yield
    finally:
        setattr(owner, name, old)
        if old in stages:
            owner.STAGES = stages


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
