"""Every reason that the code can write, found in the code itself.

A reason goes through fields, parameters and variables called `reason`. What is put into
one of them is followed to a constant: by its own name, over functions that return it, or
from a table that is looped over. What can be followed no further is told, so that none
escapes.
"""

import ast
import importlib

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

import attrs

from lbcf.executor import call_events


PACKAGES = ("core", "controller", "deregistrar", "executor", "drivers")
FOREIGN = {
    "lbcf.drivers.handshakes",  # a reason there is a word of the TLS library
    "lbcf.executor.call_events",  # see `of_calls`
}
NAME = "reason"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Owner = tuple[str, str]
"""A module, and a name in it."""


@attrs.define
class Found:
    """What the search has come to.

    Attributes:
        reasons: with the place where each is written first.
        unexplained: places whose reason could not be followed.
    """

    reasons: dict[str, str] = attrs.Factory(dict)
    unexplained: list[str] = attrs.Factory(list)


@attrs.frozen
class Source:
    """One module, as text and as it runs."""

    name: str
    tree: ast.Module
    module: ModuleType

    def place(self, node: ast.AST) -> str:
        """Say where something stands."""
        return f"{self.name}:{getattr(node, 'lineno', 0)}"

    def owner_of(self, called: ast.expr) -> Owner:
        """Say where what is called is defined, as far as its name tells."""
        match called:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return self.name, name
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                found = getattr(getattr(self.module, module, None), name, None)
            case ast.Name(id=name):
                found = getattr(self.module, name, None)
            case _:
                found = None
        module = getattr(found, "__module__", "")
        return module, getattr(found, "__name__", "")

    def value_of(self, node: ast.expr) -> object:
        """The constant that an expression names, None if it is none."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return getattr(self.module, name, None)
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                return getattr(getattr(self.module, owner, None), name, None)
            case _:
                return None


@cache
def sources() -> list[Source]:
    """The modules that write reasons."""
    found = []
    for package in PACKAGES:
        for path in sorted(Path("lbcf", package).rglob("*.py")):
            name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
            if name in FOREIGN:
                continue
            tree = ast.parse(path.read_text())
            found.append(Source(name, tree, importlib.import_module(name)))
    return found


Scope = ast.AST
"""The function, or module, in which a name means something."""


class Search:
    """Looks through all modules."""

    def __init__(self, modules: list[Source]) -> None:
        self._modules = modules
        self._found = Found()
        self._carriers = dict(_carriers(modules))
        self._functions = {
            (source.name, node.name): (source, node)
            for source in modules
            for node in ast.walk(source.tree)
            if isinstance(node, FUNCTIONS)
        }
        self._followed: set[tuple[str, str, int | None]] = set()

    def run(self) -> Found:
        """Find all that is put into a `reason`."""
        for source in self._modules:
            for scope, node in _scoped(source.tree):
                for value in self._passed(source, node):
                    self._follow(source, scope, value)
                for value, place in _assigned(node, NAME):
                    self._follow(source, scope, value, place)
        return self._found

    def _passed(self, source: Source, node: ast.AST) -> Iterator[ast.expr]:
        """Say what a call passes as a reason."""
        if not isinstance(node, ast.Call):
            return
        yield from (word.value for word in node.keywords if word.arg == NAME)
        place = self._carriers.get(source.owner_of(node.func))
        if place is not None and place < len(node.args):
            yield node.args[place]

    def _follow(
        self, source: Source, scope: Scope, value: ast.expr, place: int | None = None
    ) -> None:
        """Take a value, or a place of a tuple, to the constants that it may be."""
        match value:
            case ast.Name(id="reason") | ast.Attribute(attr="reason"):
                pass  # it was put there somewhere else
            case ast.IfExp(body=one, orelse=other):
                self._follow(source, scope, one, place)
                self._follow(source, scope, other, place)
            case ast.BoolOp(values=values):
                for one in values:
                    self._follow(source, scope, one, place)
            case ast.Tuple(elts=values) if place is not None:
                self._follow(source, scope, values[place])
            case ast.Call():
                self._into(source, value, place)
            case ast.Name(id=name) if name.islower():
                self._back(source, scope, value, place)
            case _:
                self._take(source, value, place)

    def _into(self, source: Source, call: ast.Call, place: int | None) -> None:
        """Follow what a function returns."""
        owner = source.owner_of(call.func)
        if owner not in self._functions:
            self._found.unexplained.append(source.place(call))
        elif (*owner, place) not in self._followed:
            self._followed.add((*owner, place))
            home, function = self._functions[owner]
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and _says_something(node.value):
                    self._follow(home, function, node.value, place)

    def _back(
        self, source: Source, scope: Scope, name: ast.Name, place: int | None
    ) -> None:
        """Follow a variable to what is assigned to it in its function."""
        found = [pair for node in ast.walk(scope) for pair in _assigned(node, name.id)]
        if not found:
            self._found.unexplained.append(source.place(name))
        for value, inner in found:
            self._follow(source, scope, value, place if inner is None else inner)

    def _take(self, source: Source, value: ast.expr, place: int | None) -> None:
        """Take a constant, or those at a place of a table's rows."""
        found = source.value_of(value)
        table = value.value if isinstance(value, ast.Subscript) else None
        rows = None if table is None else source.value_of(table)
        if isinstance(found, str):
            self._found.reasons.setdefault(found, source.place(value))
        elif isinstance(rows, Mapping) and place is not None:
            for row in rows.values():
                self._found.reasons.setdefault(row[place], source.place(value))
        else:
            self._found.unexplained.append(source.place(value))


def _scoped(tree: ast.Module) -> Iterator[tuple[Scope, ast.AST]]:
    """Go through a module, with the innermost function of each node."""
    waiting: list[tuple[Scope, ast.AST]] = [(tree, tree)]
    while waiting:
        scope, node = waiting.pop()
        yield scope, node
        inner = node if isinstance(node, FUNCTIONS) else scope
        waiting += [(inner, child) for child in ast.iter_child_nodes(node)]


def _says_something(value: ast.expr | None) -> TypeGuard[ast.expr]:
    """Whether a function returns anything but None here."""
    is_none = isinstance(value, ast.Constant) and value.value is None
    return value is not None and not is_none


def _carriers(modules: Iterable[Source]) -> Iterator[tuple[Owner, int]]:
    """Find who takes a reason, and as which argument."""
    for source in modules:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                fields = list(_fields_of(node))
            elif isinstance(node, FUNCTIONS):
                fields = [a.arg for a in node.args.args if a.arg != "self"]
            else:
                continue
            if NAME in fields:
                yield (source.name, node.name), fields.index(NAME)


def _fields_of(node: ast.ClassDef) -> Iterator[str]:
    """Say the fields of an attrs class, in order."""
    for one in node.body:
        match one:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind):
                if "ClassVar" not in ast.unparse(kind):
                    yield name
            case _:
                pass


def _assigned(node: ast.AST, name: str) -> Iterator[tuple[ast.expr, int | None]]:
    """Say what a statement puts into a variable, or a field, and from which place."""
    match node:
        case ast.Assign(targets=[target], value=ast.expr() as value):
            yield from _unpacked(target, value, name)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _unpacked(target, value, name)
        case ast.NamedExpr(target=target, value=value):
            yield from _unpacked(target, value, name)
        case ast.For(target=target, iter=ast.Tuple(elts=rows)):
            for row in rows:
                yield from _unpacked(target, row, name)
        case _:
            pass


def _unpacked(
    target: ast.expr, value: ast.expr, name: str
) -> Iterator[tuple[ast.expr, int | None]]:
    """Say what goes into one of the names that a value is assigned to."""
    match target:
        case ast.Name(id=found) if found == name:
            yield value, None
        case ast.Tuple(elts=names):
            for place, one in enumerate(names):
                if isinstance(one, ast.Name) and one.id == name:
                    yield value, place
        case _:
            pass


def of_calls() -> set[str]:
    """The reasons of the Events of `--record-events`, which are put together."""
    words = ("Succ", "Running", "Failed", "Invalid")
    nouns = (noun for noun, _ in call_events.NOUNS.values())
    return {word + noun for word, noun in product(words, nouns)}
