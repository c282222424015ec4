"""Puts the values' expressions into the objects, and makes templates of them.

`source` has the objects, `settings` the values, and `chart` writes the texts. An expression
goes in as a mark that YAML takes for a plain word, and takes the mark's place in the text.
"""

import copy
import json
import re

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import yaml

from manifests.helm.settings import PLACES, VALUES, Path, Place, Value, nested
from manifests.helm.source import Document, Piece, SourceError


NAMESPACE: Final = "lbcf-system"
KEPT: Final = {"CustomResourceDefinition", "LoadBalancerDriver"}
"""What Helm never deletes: with a kind go all its objects, whatever they hold, and a
driver may be needed. `kubectl lbcf uninstall` does it in the right order."""
KEEP: Final = ("helm.sh/resource-policy", "keep")
_BRACES: Final = '{{ "{{" }}'
_MARK: Final = re.compile(r"^(?P<indent> *(?:- )?)(?P<key>.*)MARK(?P<number>\d+)KRAM$")
_LINE_WIDTH: Final = 1 << 20


@attrs.frozen
class Chart:
    """What is made of the manifests.

    Attributes:
        templates: texts by the name of their file.
        values: the defaults.
    """

    templates: dict[str, str]
    values: dict[str, Any]


def make(
    pieces: Sequence[Piece],
    values: Sequence[Value] = VALUES,
    places: Sequence[Place] = PLACES,
) -> Chart:
    """Make templates and default values.

    Args:
        pieces: the objects.
        values: what can be set.
        places: where it goes.

    Raises:
        SourceError: a place that a value sets is in no object, or not the same in all.
    """
    defaults = {value.name: value.default for value in values if value.has_own_default}
    templates: dict[str, str] = {}
    for piece in pieces:
        text, found = _template(piece, places)
        for name, value in found:
            known = defaults.setdefault(name, value)
            if known != value:
                raise SourceError(
                    f"{name} is {known} in one object, {value} in another"
                )
        templates[piece.file] = templates.get(piece.file, "") + text
    if missing := {value.name for value in values} - defaults.keys():
        raise SourceError(f"no object says what {', '.join(sorted(missing))} may be")
    ordered = {value.name: defaults[value.name] for value in values}
    return Chart(templates, nested(ordered))


def _template(
    piece: Piece, places: Sequence[Place]
) -> tuple[str, list[tuple[str, Any]]]:
    """Make the template of one object; return it with the values found in it."""
    document = copy.deepcopy(piece.document)
    if document["kind"] in KEPT:
        document["metadata"].setdefault("annotations", {})[KEEP[0]] = KEEP[1]
    expressions: list[str] = []
    found: list[tuple[str, Any]] = []
    for place in places:
        if (place.kind, place.name) == piece.identity:
            value = _put(document, place, len(expressions))
            expressions.append(_expression(place, value))
            if place.value and not place.is_new:
                found.append((place.value, value))
    text = yaml.safe_dump(document, sort_keys=False, width=_LINE_WIDTH)
    text = text.replace("{{", _BRACES)  # alerts and legends have some of their own
    if document["kind"] != "CustomResourceDefinition":
        text = text.replace(NAMESPACE, "{{ .Values.namespace.name }}")
    body = "\n".join(_lines(text, expressions))
    if piece.condition:
        return f"{{{{- if {piece.condition} }}}}\n---\n{body}\n{{{{- end }}}}\n", found
    return f"---\n{body}\n", found


def _put(document: Document, place: Place, number: int) -> Any:
    """Put a mark into an object; return what was there.

    Raises:
        SourceError: the place is not there, or is there although it should be new.
    """
    *front, last = place.path
    try:
        inner = _at(document, tuple(front))
        value = None if place.is_new else inner[last]
    except (KeyError, IndexError):
        raise SourceError(f"{place.kind} {place.name} has no {place.path}") from None
    if place.is_new and last in inner:
        raise SourceError(f"{place.kind} {place.name} has {place.path} already")
    inner[last] = f"MARK{number}KRAM"
    return value


def _at(document: Document, path: Path) -> Any:
    """Return what is at a place."""
    inner: Any = document
    for step in path:
        inner = inner[step]
    return inner


def _expression(place: Place, value: Any) -> str:
    """Return what takes the mark's place; with a leading `?` if it may stay away."""
    if place.is_new:
        return f"?.Values.{place.value}"
    if not place.expression:
        return f"{{{{ toJson .Values.{place.value} }}}}"
    return place.expression.replace("@found", f"`{json.dumps(value)}`")


def _lines(text: str, expressions: Sequence[str]) -> Iterator[str]:
    """Replace marks by their expressions, line by line."""
    for line in text.rstrip("\n").split("\n"):
        found = _MARK.match(line)
        if found is None:
            yield line
            continue
        expression = expressions[int(found["number"])]
        start = f"{found['indent']}{found['key']}"
        if expression.startswith("?"):
            yield f"{{{{- with {expression[1:]} }}}}"
            yield f"{start}{{{{ toJson . }}}}"
            yield "{{- end }}"
        else:
            yield f"{start}{expression}"
