"""What a schema demands of single values, and how to break each demand.

`limits` finds every enumeration, range, length, pattern, type and required field of a
kind; `broken` makes an object that breaks one. Rules in CEL need an author's mind: they
are in `breaches`.
"""

from collections.abc import Iterator
from typing import Any

import attrs

from tests.manifests.documents import Document, samples, schemas
from tests.manifests.paths import GONE, changed, has, joined, nodes, shown, value_at


WORDS = {
    "enum": "Unsupported value",
    "minimum": "should be greater than or equal to",
    "maximum": "should be less than or equal to",
    "minLength": "should be at least",
    "maxLength": "may not be more than",
    "pattern": "should match",
    "minItems": "should have at least",
    "maxItems": "must have at most",
    "minProperties": "should have at least",
    "maxProperties": "must have at most",
    "type": "must be of type",
    "format": "must be of type",
    "required": "Required value",
    "x-kubernetes-list-type": "Duplicate value",
}
"""Keywords of a schema, and what the API server says when one is broken."""

_OTHER_TYPE = {"string": 7, "integer": "x", "boolean": "x", "object": "x", "array": "x"}
# Every number has a narrower range than its format, and atomic lists may repeat.
_DEMAND_NOTHING = ("int32", "int64", "atomic")
_SERVER_SIDE = ("apiVersion", "kind", "metadata")


@attrs.frozen
class Limit:
    """One demand of a schema.

    Attributes:
        place: the path of the value it is about.
        bound: the keyword's value; the field's name for `required`.
    """

    kind: str
    place: str
    keyword: str
    bound: Any

    def __str__(self) -> str:
        """The test's name."""
        field = f" {self.bound}" if self.keyword == "required" else ""
        return f"{self.kind} {self.place or 'object'} {self.keyword}{field}"


def limits(kind: str) -> Iterator[Limit]:
    """Every demand of a kind's schema on single values."""
    for place, node in nodes(schemas()[kind]):
        if place.split(".")[0] in _SERVER_SIDE:
            continue
        for keyword, bound in node.items():
            if keyword == "required":
                yield from (Limit(kind, place, keyword, name) for name in bound)
            elif keyword in WORDS and place and bound not in _DEMAND_NOTHING:
                yield Limit(kind, place, keyword, bound)


def sample_for(kind: str, place: str) -> Document:
    """A sample that has a value at a place.

    Raises:
        LookupError: there is none; the samples must be completed.
    """
    for name, sample in samples().items():
        if name.split()[0] == kind and has(sample, place):
            return sample
    raise LookupError(f"samples.yaml: no {kind} has {place}")


def broken(limit: Limit, sample: Document) -> Document:
    """The sample with one value that the limit forbids."""
    if limit.keyword == "required":
        return changed(sample, joined(limit.place, limit.bound), GONE)
    old = value_at(sample, limit.place)
    return changed(sample, limit.place, _bad_value(limit, old))


def _bad_value(limit: Limit, old: Any) -> Any:
    """A value that breaks a limit and, as far as may be, nothing else."""
    bound = limit.bound
    match limit.keyword:
        case "minimum" | "maximum":
            return bound - 1 if limit.keyword == "minimum" else bound + 1
        case "minLength" | "maxLength":
            return "1" * (bound - 1 if limit.keyword == "minLength" else bound + 1)
        case "minItems" | "maxItems" | "x-kubernetes-list-type":
            return _bad_list(limit, old)
        case "minProperties":
            return {}
        case "maxProperties":
            return {f"k{number}": "1" for number in range(bound + 1)}
        case "type":
            return _OTHER_TYPE[bound]
        case _:
            return "no way!"


def _bad_list(limit: Limit, old: list[Any]) -> list[Any]:
    """A list that is too short, too long, or holds something twice."""
    match limit.keyword:
        case "minItems":
            return old[: limit.bound - 1]
        case "maxItems":
            return old[:1] * (int(limit.bound) + 1)
        case _:
            return old[:1] * 2


def expected(limit: Limit, sample: Document) -> tuple[str, str]:
    """The field that the message must name, and the words that tell the rule."""
    field = shown(limit.place, sample)
    if limit.keyword == "required":
        return joined(field, limit.bound), WORDS["required"]
    if limit.keyword == "x-kubernetes-list-type":
        return f"{field}[1]", WORDS[limit.keyword]
    return field, WORDS[limit.keyword]
