"""What has happened in a `TinyApi`, in order: what lists and watches are made of.

The store writes a `Change` for each version; a list is the sum of all changes up to a
version, a watch the changes after one.
"""

import functools
import re

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Final, cast

import attrs
import msgspec

from tests.kube.tiny_rules import Json, Place, metadata_of


Matches = Callable[[Json], bool]

TOO_OLD: Final = (
    msgspec.json.encode(
        {
            "type": "ERROR",
            "object": {"kind": "Status", "code": HTTPStatus.GONE, "reason": "Expired"},
        }
    )
    + b"\n"
)
"""The line that tells a watcher that its version is forgotten."""


@attrs.frozen(eq=False)
class Change:
    """One version of the whole store.

    Attributes:
        version: resourceVersion.
        place: of the object.
        before: None: it was created.
        after: None: it went.
    """

    version: int
    place: Place
    before: Json | None
    after: Json | None

    @functools.cached_property
    def raw(self) -> bytes:
        """Return the object as a watch shows it: as it is, or was in the end."""
        whole = self.after if self.after is not None else self.before
        return msgspec.json.encode(whole)


class History:
    """All changes, the oldest first.

    Attributes:
        version: the newest.
        forgotten: watches from before this version are refused.
    """

    def __init__(self) -> None:
        self.version = 0
        self.forgotten = 0
        self.changes: list[Change] = []

    def add(self, change: Change) -> None:
        """Note a change."""
        self.changes.append(change)
        self.version = change.version

    def objects_at(self, version: int) -> Iterator[tuple[Place, Json]]:
        """Return all objects as they were at a version."""
        found: dict[str, tuple[Place, Json]] = {}
        for change in self.changes:
            if change.version > version:
                break
            if change.after is None:
                found.pop(change.place.path, None)
            else:
                found[change.place.path] = (change.place, change.after)
        return iter(found.values())


class Watch:
    """One watcher's place in the history."""

    def __init__(
        self, history: History, place: Place, query: Mapping[str, str]
    ) -> None:
        self._history = history
        self._place = place
        self._matches = matcher(query)
        self._next = 0
        since = int(query.get("resourceVersion") or 0)
        self.is_too_old = since < history.forgotten
        for number, change in enumerate(history.changes):
            if change.version <= since:
                self._next = number + 1

    def take(self, upto: int) -> bytes:
        """Return the lines of what happened up to a version, each once."""
        lines: list[bytes] = []
        changes = self._history.changes
        while self._next < len(changes) and changes[self._next].version <= upto:
            change = changes[self._next]
            self._next += 1
            if change.place.kind == self._place.kind and self._place.namespace in (
                "",
                change.place.namespace,
            ):
                lines.extend(self._told(change))
        return b"".join(lines)

    def _told(self, change: Change) -> Iterator[bytes]:
        """Tell a change as seen through the selection."""
        was = change.before is not None and self._matches(change.before)
        now = change.after is not None and self._matches(change.after)
        if was or now:
            kind = "DELETED" if not now else "MODIFIED" if was else "ADDED"
            yield b'{"type":"%s","object":%s}\n' % (kind.encode(), change.raw)


def bookmark(version: int) -> bytes:
    """Return the line that tells how far a watcher has come."""
    metadata = {"resourceVersion": str(version)}
    event = {"type": "BOOKMARK", "object": {"metadata": metadata}}
    return msgspec.json.encode(event) + b"\n"


def matcher(query: Mapping[str, str]) -> Matches:
    """Read the selectors; only `=`, `!=`, `in` and `notin` are known."""
    tests = [
        *_terms(query.get("fieldSelector", ""), _field),
        *_terms(query.get("labelSelector", ""), _label),
    ]
    if not tests:
        return lambda _whole: True
    return lambda whole: all(test(whole) for test in tests)


_TERM = re.compile(r"[^,(]+(?:\([^)]*\))?")
_AMONG = re.compile(r"(\S+) (in|notin) \(([^)]*)\)")


def _terms(selector: str, look: Callable[[Json, str], object]) -> Iterator[Matches]:
    """Read one selector."""
    for term in _TERM.findall(selector):
        if among := _AMONG.fullmatch(term):
            path, operator, listed = among.groups()
            values = listed.split(",")
            yield functools.partial(_test, look, path, values, operator == "in")
            continue
        path, operator, value = term.partition("!=")
        if not operator:
            path, _, value = term.partition("=")
        yield functools.partial(_test, look, path, [value], not operator)


def _test(
    look: Callable[[Json, str], object],
    path: str,
    values: list[str],
    wanted: bool,
    whole: Json,
) -> bool:
    """Test one term of a selector."""
    return (look(whole, path) in values) is wanted


def _field(whole: Json, path: str) -> object:
    """Return a field by its dotted path."""
    found: object = whole
    for name in path.split("."):
        found = cast("Json", found).get(name, "") if isinstance(found, dict) else ""
    return found


def _label(whole: Json, name: str) -> object:
    """Return a label."""
    return cast("Json", metadata_of(whole).get("labels") or {}).get(name)
