"""Places in objects and in schemas: `spec.pods.ports[].port`.

`[]` is the first item of a list, `{}` the first value of a map; in a schema they are
`items` and `additionalProperties`.
"""

import copy
import re

from collections.abc import Iterator
from typing import Any

from tests.manifests.documents import Document


Step = str
GONE: Any = object()
"""Put in place of a value: the field is taken out."""

_STEP = re.compile(r"\[\]|\{\}|[^.\[{]+")


def steps(path: str) -> list[Step]:
    """The steps of a path."""
    return _STEP.findall(path)


def joined(path: str, step: Step) -> str:
    """A path with one more step."""
    return f"{path}{step}" if step in {"[]", "{}"} or not path else f"{path}.{step}"


def _key(found: Any, step: Step) -> Any:
    """The index or key that a step means in a value."""
    if step == "[]":
        return 0
    return next(iter(found)) if step == "{}" else step


def has(document: Document, path: str) -> bool:
    """Whether an object has a value at a place."""
    found: Any = document
    try:
        for step in steps(path):
            found = found[_key(found, step)]
    except (KeyError, IndexError, StopIteration):
        return False
    return True


def changed(document: Document, path: str, value: Any) -> Document:
    """A copy of an object with another value at a place, or without one (GONE)."""
    made = copy.deepcopy(document)
    found: Any = made
    *front, last = steps(path)
    for step in front:
        found = (
            found.setdefault(step, {})
            if step[0] not in "[{"
            else found[_key(found, step)]
        )
    if value is GONE:
        del found[_key(found, last)]
    else:
        found[_key(found, last)] = value
    return made


def value_at(document: Document, path: str) -> Any:
    """The value at a place."""
    found: Any = document
    for step in steps(path):
        found = found[_key(found, step)]
    return found


def shown(path: str, document: Document) -> str:
    """The path as the API server's messages show it: `spec.pods.ports[0].port`."""
    text = ""
    found: Any = document
    for step in steps(path):
        key = _key(found, step)
        found = found[key]
        text = f"{text}[0]" if step == "[]" else joined(text, str(key))
    return text


def nodes(schema: Document, path: str = "") -> Iterator[tuple[str, Document]]:
    """Every node of a schema with its path, the root first."""
    yield path, schema
    for name, node in schema.get("properties", {}).items():
        yield from nodes(node, joined(path, name))
    if "items" in schema:
        yield from nodes(schema["items"], joined(path, "[]"))
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], joined(path, "{}"))
