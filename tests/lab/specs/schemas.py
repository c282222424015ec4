"""Draws values for the fields of our kinds, from their schemas in `manifests/crds`.

Words that only mean something together (names of objects, labels, parameters) are drawn
from short lists as well: what refers to nothing reaches no deeper than the first check.
What a rule in CEL forbids is drawn all the same, and is the API server's to refuse.
"""

import base64

from collections.abc import Mapping
from typing import Any, Final

import attrs

from hypothesis import strategies as st

from tests.manifests.documents import schemas
from tests.manifests.paths import nodes, steps


KINDS: Final = (
    "LoadBalancerDriver",
    "LoadBalancer",
    "BackendGroup",
    "Bind",
    "LoadBalancerClass",
)
NS, NUMBER = "@ns@", "@n@"
"""Stand for the namespace and its number, which are known when a chain is played."""
DEAD: Final = "http://127.0.0.1:9"
_NAMES = ("front", "back", "own", f"lbcf-{NS}", "gone", "")
_DRIVERS = ("mem", "addr", f"lbcf-{NS}", "gone", "lbcf-gone")
_PODS = ("p1", "p2", "p4", "p9")
_WISHES = ("weight", "zone", "refuse")
_WEIGHTS = ("1", "2", "", "x" * 300)
_PORTS = (80, 8080, 0, 65535)
_DRAINS = (0, 1, 30, 86400)
# By the last name of a field's path.
HINTS: Final[Mapping[str, tuple[Any, ...]]] = {
    "lbName": _NAMES,
    "lbDriver": _DRIVERS,
    "driver": _DRIVERS,
    "driverName": _DRIVERS,
    "byName": _PODS,
    "except": _PODS,
    "key": ("app", "tier", "example.com/none"),
    "values": ("web", "api", "a", "b"),
    "port": _PORTS,
    "portNumber": _PORTS,
    "timeout": ("2s", "2000ms", "10s", "0.1m", "0s", "61s"),
    "minPeriod": ("30s", "60s", "1m", "1h", "29s"),
    "lateEffectSeconds": (0, 1, 2),
    "timeoutSeconds": _DRAINS,
    "maxConcurrentCalls": (1, 2, 32),
    "url": (DEAD, "https://127.0.0.1:9"),
    "static": ("192.0.2.7:80", "192.0.2.8:80", "[2001:db8::7]:80", "web.example.com:80"),
    "addresses": (f"198.18.{NUMBER}.0/29", f"198.18.{NUMBER}.8/30", f"fd00:{NUMBER}::/120"),
    "ip": ("198.51.100.7", "2001:db8::7", "no address"),
    "address": (f"198.18.{NUMBER}.1",),
    "addressPool": (NS, "gone"),
    "scope": (NS, "*", "elsewhere"),
}  # fmt: skip
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "selector": ("app", "tier"),
    "nodeSelector": ("specs",),
    "parameters": _WISHES,
    "attributes": _WISHES,
    "lbSpec": ("name", "address"),
    "spec": ("name", "address"),
}
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "selector": ("web", "api", "a", "b", ""),
    "nodeSelector": ("yes", "no"),
    "lbSpec": ("one", "{port}", "{nonsense}"),
    "spec": ("one", "two"),
    "parameters": (*_WEIGHTS, "{service}"),
}


@attrs.frozen
class Field:
    """A field of a kind.

    Attributes:
        path: names from the object's root; `[]` an item of a list, `{}` a value of a map.
        schema: of it.
    """

    path: tuple[str, ...]
    schema: Mapping[str, Any]


def fields(kind: str) -> list[Field]:
    """Every writable field of a kind, at any depth."""
    spec = schemas()[kind]["properties"]["spec"]
    found = [Field(tuple(steps(path)), node) for path, node in nodes(spec, "spec")]
    return [field for field in found if len(field.path) > 1]


def name_of(path: tuple[str, ...]) -> str:
    """The last name in a path."""
    return next(step for step in reversed(path) if step not in {"[]", "{}"})


def values(field: Field) -> st.SearchStrategy[Any]:
    """Draw a value; now and then nothing, or one that the schema forbids."""
    drawn = _of_schema(field.path, field.schema)
    return st.integers(0, 9).flatmap(lambda n: drawn if n else st.none())


def _of_schema(
    path: tuple[str, ...], schema: Mapping[str, Any]
) -> st.SearchStrategy[Any]:
    hints = HINTS.get(name_of(path), ()) if path[-1] != "{}" else ()
    plain = _by_type(path, schema)
    if not hints or schema["type"] in {"array", "object"}:
        return plain
    # Seven of eight: a chain of strangers' names would be about one reason alone.
    hinted = st.sampled_from(hints)
    return st.integers(0, 7).flatmap(lambda n: hinted if n else plain)


def _by_type(
    path: tuple[str, ...], schema: Mapping[str, Any]
) -> st.SearchStrategy[Any]:
    match schema["type"]:
        case "object":
            return _objects(path, schema)
        case "array":
            items = _of_schema((*path, "[]"), schema["items"])
            return st.lists(items, max_size=3)
        case "boolean":
            return st.booleans()
        case "integer":
            return _integers(schema)
        case _:
            return _strings(schema)


def _objects(
    path: tuple[str, ...], schema: Mapping[str, Any]
) -> st.SearchStrategy[Any]:
    if "properties" not in schema:
        name = name_of(path)
        keys = st.sampled_from(_KEYS.get(name, ("app", "example.com/any")))
        some = st.sampled_from(_VALUES.get(name, _WEIGHTS))
        return st.dictionaries(keys, some, max_size=2)
    drawn = {
        name: _of_schema((*path, name), node)
        for name, node in schema["properties"].items()
    }
    required = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: drawn[name] for name in drawn if name in required},
        optional={name: drawn[name] for name in drawn if name not in required},
    )


def _integers(schema: Mapping[str, Any]) -> st.SearchStrategy[int]:
    low, high = schema.get("minimum", 0), schema.get("maximum", 2**31 - 1)
    edges = st.sampled_from((low, low + 1, high, low - 1, high + 1))
    return st.one_of(edges, st.integers(low, high))


def _strings(schema: Mapping[str, Any]) -> st.SearchStrategy[str]:
    if "enum" in schema:
        return st.sampled_from((*schema["enum"], *schema["enum"], "Nonsense"))
    longest = min(schema.get("maxLength", 24), 24)
    if schema.get("format") == "byte":
        return st.binary(max_size=longest).map(lambda b: base64.b64encode(b).decode())
    if "pattern" in schema:
        drawn = st.from_regex(schema["pattern"].replace("$", r"\Z"))
        return drawn.filter(lambda text: len(text) <= longest)
    return st.text("ab-/.0 é{}", max_size=longest)
