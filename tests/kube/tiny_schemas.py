"""The bounds of the shipped kinds, as the real API server holds objects to them.

Of each CustomResourceDefinition what is structural: types, lengths, numbers of items and of keys,
ranges, enums, required fields. Its CEL rules are the real server's alone (`tests/manifests`).
"""

import functools

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import yaml


Json = dict[str, object]
Check = Callable[[object], str | None]
"""Says where a value breaks its schema; None: nowhere."""

_TYPES: Mapping[str, type] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "object": dict,
    "string": str,
}
_RANGES = {"int32": 2**31, "int64": 2**63}
_KINDS = Path(__file__).parents[2] / "manifests" / "crds"


@functools.cache
def schema_of(plural: str) -> Json:
    """Return the schema of a kind, as its manifest has it; empty: it is none of ours."""
    path = _KINDS / f"{plural}.yaml"
    if not path.exists():
        return {}
    # The parser in C takes a tenth of the time; every process of a sweep reads them.
    (version,) = yaml.load(path.read_text(), yaml.CSafeLoader)["spec"]["versions"]
    return cast("Json", version["schema"]["openAPIV3Schema"]["properties"])


@functools.cache
def check_of(plural: str) -> Check:
    """Return what holds objects of a kind to its schema."""
    whole = {"type": "object", "properties": schema_of(plural)}
    return _check("", cast("Json", whole))


def _check(path: str, schema: Json) -> Check:
    """Put the checks of a schema together."""
    checks = [_type(path, schema), *_bounds(path, schema), *_parts(path, schema)]

    def check(value: object) -> str | None:
        for one in checks:
            if said := one(value):
                return said
        return None

    return check if checks[1:] else checks[0]


def _type(path: str, schema: Json) -> Check:
    """Compare the type, and whether a number has room."""
    kind = _TYPES.get(str(schema.get("type")), object)
    limit = _RANGES.get(str(schema.get("format")))
    enum = cast("Sequence[object] | None", schema.get("enum"))

    def check(value: object) -> str | None:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            return f"{path}: is no {schema.get('type')}"
        if limit and isinstance(value, int) and not -limit <= value < limit:
            return f"{path}: has no room in {schema['format']}"
        if enum is not None and value not in enum:
            return f"{path}: is none of {enum}"
        return None

    return check


def _bounds(path: str, schema: Json) -> list[Check]:
    """Compare lengths and numbers."""

    def sized(name: str, word: str) -> Check:
        limit = cast("int", schema[name])
        sign = -1 if name.startswith("min") else 1

        def check(value: object) -> str | None:
            size = value if word == "is" else len(cast("str", value))
            broken = sign * (cast("int", size) - limit) > 0
            return f"{path}: {word} {size}, {name} is {limit}" if broken else None

        return check

    names = {
        "maxLength": "has",
        "minLength": "has",
        "maxItems": "has",
        "minItems": "has",
        "maxProperties": "has",
        "minProperties": "has",
        "maximum": "is",
        "minimum": "is",
    }
    return [sized(name, word) for name, word in names.items() if name in schema]


def _parts(path: str, schema: Json) -> list[Check]:
    """Check what is inside of a value."""
    checks: list[Check] = []
    properties = cast("Mapping[str, Json]", schema.get("properties") or {})
    inside = {name: _check(f"{path}.{name}", one) for name, one in properties.items()}
    required = cast("Sequence[str]", schema.get("required") or ())
    if inside or required:
        checks.append(_fields(path, inside, required))
    nested = (schema.get(name) for name in ("items", "additionalProperties"))
    checks += (
        _members(_check(f"{path}[]", each)) for each in nested if isinstance(each, dict)
    )
    return checks


# Loops, not generators: a sweep checks an object at each of its writes.


def _fields(path: str, inside: Mapping[str, Check], required: Sequence[str]) -> Check:
    """Check the fields that are there, and that no required one is missing."""

    def check(value: object) -> str | None:
        held = cast("Json", value)
        for name in required:
            if name not in held:
                return f"{path}.{name}: is required"
        for name, one in inside.items():
            if name in held and (said := one(held[name])):
                return said
        return None

    return check


def _members(each: Check) -> Check:
    """Check the items of an array, or the values of an object."""

    def check(value: object) -> str | None:
        held = value.values() if isinstance(value, dict) else value
        for one in cast("list[object]", held):
            if said := each(one):
                return said
        return None

    return check
