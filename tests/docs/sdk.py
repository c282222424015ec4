"""docs/sdk.md: what an author of a driver imports, made of the docstrings of `lbcf.sdk`.

`python -m tests.docs.sdk` writes the page; a test compares.
"""

import enum
import inspect
import types
import typing

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

import attrs
import msgspec

from lbcf import sdk
from lbcf.conformance import docstrings


PAGE: Final = Path("docs/sdk.md")
WIDTH: Final = 100
"""Columns of a signature; a longer one has a line for each parameter."""

SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Running a driver": ("run", "serve", "CredentialFiles", "Service"),
    "The driver": ("Driver", "Batch"),
    "What methods return": (
        *("Succ", "Running", "Ingress", "IngressPort"),
        *("ListBackendsAnswer", "ListedBackend", "Outcome"),
    ),
    "What methods raise": (
        *("Refusal", "Fail", "Permanent", "RetryAfter", "RetrySingly", "NotThere"),
    ),
    "What methods are asked": (
        *("Request", "RetriedRequest", "CreateLoadBalancerRequest"),
        *("EnsureLoadBalancerRequest", "DeleteLoadBalancerRequest", "BackendRequest"),
        *("EnsureBackendRequest", "DrainBackendRequest", "Drain"),
        *("DeregisterBackendRequest", "GenerateBackendAddrRequest", "PodBackend"),
        *("ServiceBackend", "NodeAddress", "NodeBackend", "PortSelector"),
        *("ListBackendsRequest", "ValidateLoadBalancerRequest"),
        *("ValidateBackendRequest", "JudgePodDeregisterRequest", "WholeObject"),
    ),
    "Words": (
        *("MemberKey", "BackendState", "BackendType", "ValidationOperation"),
        *("Status", "Operation"),
    ),
    "Time": ("Clock", "SystemClock"),
    "Answers as they travel": ("Answer", "BackendAnswer"),
}
"""Each public name, in the section that it stands in."""

ALIASES: Final = {
    "Outcome": (
        "Succ | Running | Refusal | NotThere",
        "What became of an item of a batch: what a method for one returns, or raises.",
    ),
    "WholeObject": (
        "dict[str, object]",
        "A Pod, Service or Node as the API server gave it.",
    ),
}
"""Names of types, which can have no docstring: what they stand for, and why."""

SHARED: Final = {
    "active_connections": "connections that are left on the member",
    "address": "as the node's status has it",
    "attributes": "`spec.attributes` of the LoadBalancer",
    "backend_addr": "the member's address, `IP:port` unless generateBackendAddr gave another",
    "backend_type": "what the group selects",
    "backends": "the members",
    "deadline": "when deregisterBackend follows, whatever is left; aware",
    "drain": "when it began and when it ends; None: the caller does not say",
    "drained": "whether nothing is left on it, by the driver's own word",
    "injected_info": "what the driver answered last in its `injected_info`",
    "lb_attributes": "`spec.attributes` of the LoadBalancer",
    "lb_info": "the load balancer's identity, as createLoadBalancer answered it",
    "lb_spec": "`spec.lbSpec` of the LoadBalancer",
    "node": "the node whose port it is",
    "node_addresses": "addresses of that node",
    "node_backend": "where it is a node",
    "node_name": "the node whose port it is",
    "not_ready_pods": "the pods, whole",
    "old_attributes": "what the attributes were; None on CREATE",
    "old_parameters": "what the parameters were; None on CREATE",
    "operation": "whether the object is new",
    "parameters": "`spec.parameters` of the group",
    "pod": "the pod whose port it is",
    "pod_backend": "where it is a pod",
    "port": "the port, 1 to 65535",
    "port_number": "`port` by its old name",
    "protocol": "TCP or UDP",
    "service": "the Service whose node port it is",
    "service_backend": "where it is a node port of a Service",
    "started_at": "when the drain began; aware",
    "state": "how the load balancer treats it",
    "type": "such as InternalIP",
}
"""What fields mean that mean the same wherever they stand, and whose class does not say."""

_WRAPPERS: Final = {typing.Annotated, typing.ClassVar}
_ALTERNATIVES: Final = {typing.Union, types.UnionType, typing.Literal}

_HEAD: Final = """\
# The SDK, name by name

Made of the docstrings of `lbcf.sdk` by `python -m tests.docs.sdk`; do not edit. How they go together is in
[writing-a-driver.md](writing-a-driver.md), what the operations promise in [protocol.md](protocol.md), under the
names in camelCase; what words such as *member* and *record* mean in [glossary.md](glossary.md). All of it is imported by
`from lbcf import sdk`. Values are frozen, moments are aware `datetime`s, durations `timedelta`s.
"""


def rendered() -> str:
    """Write the whole page."""
    parts = [_HEAD]
    for section, names in SECTIONS.items():
        parts.append(f"\n## {section}\n")
        parts += ["\n" + "\n".join(_entry(name)) + "\n" for name in names]
    return "".join(parts)


def shown_type(kind: object) -> str:
    """Write a type as an author would, without modules and without bounds."""
    for name in ALIASES:
        if kind == getattr(sdk, name):
            return name
    if isinstance(kind, list):
        return f"[{', '.join(map(shown_type, kind))}]"
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in _WRAPPERS:
        return shown_type(arguments[0])
    if origin in _ALTERNATIVES:
        return " | ".join(map(shown_type, arguments))
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(shown_type, arguments))}]"
    if kind in {None, types.NoneType}:
        return "None"
    return kind.__name__ if isinstance(kind, type) else repr(kind)


def field_types(kind: type) -> Mapping[str, tuple[object, object]]:
    """Return the type and the default of each field of a value; NODEFAULT: none."""
    if issubclass(kind, msgspec.Struct):
        return {
            one.name: (one.type, _struct_default(one))
            for one in msgspec.structs.fields(kind)
        }
    if attrs.has(kind):
        return {
            one.name: (
                one.type,
                msgspec.NODEFAULT if one.default is attrs.NOTHING else one.default,
            )
            for one in attrs.fields(kind)
        }
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        name: (hint, inspect.getattr_static(kind, name, msgspec.NODEFAULT))
        for name, hint in hints.items()
        if not name.startswith("_")
    }


def meaning(kind: type, field: str) -> str:
    """Return what a field means: its class' word, or what it means everywhere.

    Raises:
        KeyError: nobody says.
    """
    said = docstrings.fields(kind)
    sentence = said[field] if field in said else SHARED[field]
    return sentence if ". " in sentence else sentence.rstrip(".")


def _struct_default(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _entry(name: str) -> Iterator[str]:
    """Write what there is to know of one name."""
    thing = getattr(sdk, name)
    yield f"### {name}"
    yield ""
    if name in ALIASES:
        stands_for, text = ALIASES[name]
        yield from _code([f"{name} = {stands_for}"])
        yield text
    elif isinstance(thing, type) and issubclass(thing, enum.Enum):
        yield _prose(thing)
        yield ""
        yield from (f"- `{one.name}`: `{one.value}`" for one in thing)
    elif isinstance(thing, type):
        yield from _class(thing)
    else:
        yield from _function(thing, name)


def _class(kind: type) -> Iterator[str]:
    """Write a class: how it is made, its fields, its methods."""
    is_value = attrs.has(kind) or issubclass(kind, msgspec.Struct)
    is_made = not getattr(kind, "_is_protocol", False)
    if not is_value and is_made and "__init__" in vars(kind):
        yield from _code(_signature(kind, kind.__name__))
    yield _prose(kind)
    yield from _list("Arguments", docstrings.entries(kind, "Args"))
    if base := _public_base(kind):
        link = f"[{base.__name__}](#{base.__name__.lower()})"
        yield ""
        yield f"Its base is {link}, whose fields it has, too."
    own = own_fields(kind)
    if own:
        yield ""
        yield from _fields(kind, own)
    if kind is sdk.SystemClock:
        yield ""
        yield "It has the methods of [Clock](#clock)."
    if is_value or issubclass(kind, Exception) or kind is sdk.SystemClock:
        return
    for name, method in vars(kind).items():
        if not name.startswith("_") and isinstance(
            method, types.FunctionType | property
        ):
            yield ""
            yield f"#### {kind.__name__}.{name}"
            yield ""
            yield from _member(name, method)


def own_fields(kind: type) -> list[str]:
    """Return the fields of a class that no public base type has told of."""
    if issubclass(kind, Exception):
        return list(docstrings.entries(kind, "Attributes"))
    base = _public_base(kind)
    told = field_types(base) if base else {}
    return [field for field in field_types(kind) if field not in told]


def _public_base(kind: type) -> type | None:
    """Return the nearest base type that has fields and a place on the page."""
    found: list[type] = [
        base
        for base in kind.__mro__[1:]
        if getattr(sdk, base.__name__, None) is base and base is not sdk.Request
    ]
    return found[0] if found else None


def _fields(kind: type, names: Iterable[str]) -> Iterator[str]:
    if issubclass(kind, Exception):
        yield from (f"- `{one}`: {meaning(kind, one)}" for one in names)
        return
    yield "| field | type | unless said | means |"
    yield "|---|---|---|---|"
    for name in names:
        shown, default = field_types(kind)[name]
        unsaid = "" if default is msgspec.NODEFAULT else f"`{_value(default)}`"
        cell = shown_type(shown).replace("|", "\\|")
        yield f"| `{name}` | `{cell}` | {unsaid} | {meaning(kind, name)} |"


def _member(name: str, method: types.FunctionType | property) -> Iterator[str]:
    """Write a method, or what is read like a field."""
    if isinstance(method, property):
        hints = typing.get_type_hints(method.fget)
        yield from _code([f"{name}: {shown_type(hints['return'])}"])
        yield _prose(method)
        return
    yield from _function(method, name)
    if getattr(method, "__isabstractmethod__", False):
        yield ""
        yield "Each driver has this method."


def _function(function: Callable[..., object], name: str) -> Iterator[str]:
    yield from _code(_signature(function, name))
    yield _prose(function)
    yield from _list("Arguments", docstrings.entries(function, "Args"))
    yield from _list("Raises", docstrings.entries(function, "Raises"))


def _signature(function: Callable[..., object], name: str) -> list[str]:
    """Write a signature, over several lines where one is too short."""
    found = inspect.signature(function)
    begin = "async def " if inspect.iscoroutinefunction(function) else ""
    begin = begin or ("" if isinstance(function, type) else "def ")
    parameters = list(_parameters(found))
    result = found.return_annotation
    end = "" if isinstance(function, type) else f" -> {shown_type(result)}"
    line = f"{begin}{name}({', '.join(parameters)}){end}"
    if len(line) <= WIDTH:
        return [line]
    rows = [f"    {one}," for one in parameters]
    return [f"{begin}{name}(", *rows, f"){end}"]


def _parameters(found: inspect.Signature) -> Iterator[str]:
    named = False
    for one in found.parameters.values():
        if one.name == "self":
            continue
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not named:
            named = True
            yield "*"
        unsaid = one.default is inspect.Parameter.empty
        default = "" if unsaid else f" = {_value(one.default)}"
        yield f"{one.name}: {shown_type(one.annotation)}{default}"


def _value(value: object) -> str:
    """Write a default as an author would."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, types.MappingProxyType):
        return repr(dict(value))
    if isinstance(value, timedelta):
        return f"timedelta(seconds={value.total_seconds():g})"
    if isinstance(value, sdk.Batch):
        given = (
            f"{name}={_value(getattr(value, name))}"
            for name, (_, default) in field_types(sdk.Batch).items()
            if getattr(value, name) != default
        )
        return f"Batch({', '.join(given)})"
    return repr(value)


def _list(head: str, found: Mapping[str, str]) -> Iterator[str]:
    if found:
        yield ""
        yield f"{head}:"
        yield ""
        yield from (f"- `{name}`: {sentence}" for name, sentence in found.items())


def _prose(described: object) -> str:
    """Return a docstring's text, a line for each paragraph."""
    paragraphs = docstrings.text_of(described).split("\n\n")
    return "\n\n".join(" ".join(one.split()) for one in paragraphs)


def _code(lines: Iterable[str]) -> Iterator[str]:
    yield from ("```python", *lines, "```", "")


if __name__ == "__main__":
    PAGE.write_text(rendered())
