"""The driver protocol: bytes to messages and back, with the quirks of its history.

lbcf.drivers renders requests and parses answers, lbcf.sdk does the reverse. Drivers
written for tkestack's LBCF rely on Go's decoder, so it is followed where it is lenient:
field names in any letter case, the last of several spellings counts, `null` is the same
as missing, unknown fields are skipped.
"""

import contextlib
import functools
import ipaddress
import math
import re

from collections.abc import Mapping
from typing import TypeVar, cast

import msgspec

from lbcf.core.model.operations import SINGLE, Operation
from lbcf.wire import driver_answers as answers
from lbcf.wire import driver_requests as requests
from lbcf.wire.driver_answers import LONGEST_DELAY, Answer, Message
from lbcf.wire.driver_requests import Request
from lbcf.wire.errors import Malformed
from lbcf.wire.plain import is_plain, plain


__all__ = [
    "ANSWERS",
    "LARGEST_MAP",
    "LONGEST_DELAY",
    "LONGEST_MESSAGE",
    "MOST_KEYS",
    "REQUESTS",
    "Answer",
    "Malformed",
    "Operation",
    "Request",
    "named_results",
    "parse_answer",
    "parse_request",
    "render_answer",
    "render_request",
]

LONGEST_MESSAGE = 256
"""Characters of a driver's `msg` that are kept."""

LARGEST_MAP = 16_384
"""Characters of all keys and values of an `injectedInfo` or `lbInfo`, as the kinds have it
for what people write. Each record carries both; every process holds all records."""

_LONGEST_READ = 16 * LONGEST_MESSAGE
"""Characters of a `msg` that are looked at for those that are kept."""

MOST_KEYS = 256
"""Keys of such a map: the API server refuses to store more."""

REQUESTS: Mapping[Operation, type[Request[Answer]]] = {
    Operation.HEALTHZ: requests.HealthzRequest,
    Operation.VALIDATE_LOAD_BALANCER: requests.ValidateLoadBalancerRequest,
    Operation.CREATE_LOAD_BALANCER: requests.CreateLoadBalancerRequest,
    Operation.ENSURE_LOAD_BALANCER: requests.EnsureLoadBalancerRequest,
    Operation.DELETE_LOAD_BALANCER: requests.DeleteLoadBalancerRequest,
    Operation.VALIDATE_BACKEND: requests.ValidateBackendRequest,
    Operation.GENERATE_BACKEND_ADDR: requests.GenerateBackendAddrRequest,
    Operation.ENSURE_BACKEND: requests.EnsureBackendRequest,
    Operation.DEREGISTER_BACKEND: requests.DeregisterBackendRequest,
    Operation.JUDGE_POD_DEREGISTER: requests.JudgePodDeregisterRequest,
    Operation.LIST_BACKENDS: requests.ListBackendsRequest,
    Operation.DRAIN_BACKEND: requests.DrainBackendRequest,
    Operation.ENSURE_BACKENDS: requests.EnsureBackendsRequest,
    Operation.DEREGISTER_BACKENDS: requests.DeregisterBackendsRequest,
    Operation.DRAIN_BACKENDS: requests.DrainBackendsRequest,
}

ANSWERS: Mapping[Operation, type[Answer]] = {
    Operation.HEALTHZ: answers.HealthzAnswer,
    Operation.VALIDATE_LOAD_BALANCER: answers.ValidationAnswer,
    Operation.CREATE_LOAD_BALANCER: answers.CreateLoadBalancerAnswer,
    Operation.ENSURE_LOAD_BALANCER: answers.EnsureLoadBalancerAnswer,
    Operation.DELETE_LOAD_BALANCER: answers.RetriedAnswer,
    Operation.VALIDATE_BACKEND: answers.ValidationAnswer,
    Operation.GENERATE_BACKEND_ADDR: answers.GenerateBackendAddrAnswer,
    Operation.ENSURE_BACKEND: answers.BackendAnswer,
    Operation.DEREGISTER_BACKEND: answers.BackendAnswer,
    Operation.JUDGE_POD_DEREGISTER: answers.JudgePodDeregisterAnswer,
    Operation.LIST_BACKENDS: answers.ListBackendsAnswer,
    Operation.DRAIN_BACKEND: answers.DrainBackendAnswer,
    Operation.ENSURE_BACKENDS: answers.BackendsAnswer,
    Operation.DEREGISTER_BACKENDS: answers.BackendsAnswer,
    Operation.DRAIN_BACKENDS: answers.DrainBackendsAnswer,
}

_PARTS: Mapping[str, type[Message]] = {
    "podBackend": requests.PodBackend,
    "serviceBackend": requests.ServiceBackend,
    "nodeBackend": requests.NodeBackend,
    "port": requests.PortSelector,
    "nodeAddresses": requests.NodeAddress,
    "drain": requests.Drain,
    "backends": answers.ListedBackend,
    "ingress": answers.Ingress,
    "ports": answers.IngressPort,
}
"""Fields that hold messages of their own (or a list of them), where they are not int."""

_ITEMS: Mapping[type[Message], type[Message]] = {
    requests.EnsureBackendsRequest: requests.EnsureBackendRequest,
    requests.DeregisterBackendsRequest: requests.DeregisterBackendRequest,
    requests.DrainBackendsRequest: requests.DrainBackendRequest,
    answers.BackendsAnswer: answers.BackendResult,
    answers.DrainBackendsAnswer: answers.DrainResult,
}
"""What batches are made of, in their one list."""

_STRING_MAPS = frozenset(
    {
        "attributes",
        "injectedInfo",
        "lbAttributes",
        "lbInfo",
        "lbSpec",
        "oldAttributes",
        "oldParameters",
        "parameters",
    }
)
"""Fields whose keys are the user's; Go reads a null in them as an empty string."""

_OLD_SPELLINGS = {
    # LBCF's code has the first, its document the second.
    "oldParameters": "OldParameters",
    "minRetryDelayInSeconds": "minRetryDelayinSeconds",
}
_DELAY = "minRetryDelayInSeconds"
_KEPT = "doNotDeregister"

_Fields = dict[str, object]
_M = TypeVar("_M", bound=Message)
_A = TypeVar("_A", bound=Answer)


def render_request(request: Request[Answer]) -> bytes:
    """Write a request as JSON, doubled fields in both of their spellings."""
    return _render(request)


def parse_request(operation: Operation, body: bytes) -> Request[Answer]:
    """Read a request of this operation; an empty body is the same as `{}`.

    Raises:
        Malformed: not JSON, a field of the wrong type, or a field that must be there.
    """
    return _parse(REQUESTS[operation], body or b"{}")


def render_answer(answer: Answer) -> bytes:
    """Write an answer as JSON, doubled fields in both of their spellings."""
    return _render(answer)


def parse_answer(operation: Operation, body: bytes) -> Answer:
    """Read the answer to this operation; cut its message and its delay to size.

    Raises:
        Malformed: not JSON, a field of the wrong type, an unknown status, a field that
            must be there, or more than can be kept.
    """
    if operation in SINGLE:
        return _parse_results(ANSWERS[operation], body)
    return _checked(_parse(ANSWERS[operation], body))


def named_results(operation: Operation, body: bytes) -> list[object]:
    """Return the recordID of each result of a batch, with those that `parse_answer` drops.

    Raises:
        Malformed: it is no list of results at all.
    """
    listed = _read_results(ANSWERS[operation], body)
    return [_field(one, "recordid") for one in listed if isinstance(one, dict)]


def _checked(answer: _A) -> _A:
    """Cut an answer's message to size.

    Raises:
        Malformed: it has more than can be kept, or what must not be shown.
    """
    if isinstance(answer, answers.BackendAnswer):
        _check_size("injectedInfo", answer.injected_info or {})
    elif isinstance(answer, answers.EnsureLoadBalancerAnswer):
        _check_load_balancer(answer)
    elif isinstance(answer, answers.GenerateBackendAddrAnswer):
        _check_plain("backendAddr", answer.backend_addr)
    elif isinstance(answer, answers.ListBackendsAnswer):
        _check_plain("epoch", answer.epoch)
        # Those that belong to no record are named in a condition.
        said = "".join(m.backend_addr + m.record_id for m in answer.backends)
        _check_plain("backends", said)
    # A megabyte of it need not be looked through.
    msg = plain(answer.msg[:_LONGEST_READ])[:LONGEST_MESSAGE]
    return msgspec.structs.replace(answer, msg=msg)


def _check_load_balancer(answer: answers.EnsureLoadBalancerAnswer) -> None:
    """Refuse an identity that cannot be kept, and addresses that are none.

    Raises:
        Malformed: as said.
    """
    if isinstance(answer, answers.CreateLoadBalancerAnswer):
        _check_size("lbInfo", answer.lb_info)
    for one in answer.ingress or ():
        if bool(one.ip) == bool(one.hostname):
            raise Malformed("each ingress must have one of ip and hostname")
        if one.ip and not _is_ip(one.ip):
            raise Malformed("ingress: an ip is neither IPv4 nor IPv6")
        if one.hostname and not _is_hostname(one.hostname):
            raise Malformed("ingress: a hostname is no DNS name in small letters")


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _is_hostname(text: str) -> bool:
    """Return whether a Service's status can hold it (RFC 1123 subdomain)."""
    labels = text.split(".")
    return len(text) <= answers.LONGEST_HOSTNAME and all(map(_LABEL.fullmatch, labels))


def _is_ip(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    # A zone means something on one host alone.
    return not getattr(address, "scope_id", None)


def _parse_results(kind: type[Answer], body: bytes) -> Answer:
    """Read the answer to a batch, without the results that are not valid.

    Such a one says nothing of its own item, and must not silence those of all others. So
    it is with two results of one item.

    Raises:
        Malformed: it is no list of results at all.
    """
    found: dict[str, answers.BackendResult | None] = {}
    for one in _read_results(kind, body):
        result = _parse_result(_ITEMS[kind], one)
        if result is not None:
            known = result.record_id in found
            found[result.record_id] = None if known else result
    valid = [result for result in found.values() if result is not None]
    if kind is answers.DrainBackendsAnswer:
        return kind(results=cast("list[answers.DrainResult]", valid))
    return answers.BackendsAnswer(results=valid)


def _read_results(kind: type[Answer], body: bytes) -> list[object]:
    try:
        said = msgspec.json.decode(body)
    except _UNREADABLE as error:
        raise Malformed(f"not a valid {kind.__name__}: {_unquoted(error)}") from error
    listed = _field(said, "results")
    if not isinstance(listed, list):
        raise Malformed(f"not a valid {kind.__name__}: `results` must be a list")
    return listed


def _field(said: object, name: str) -> object:
    """Return a field whose name, in small letters, is this one; None: it is missing."""
    fields = said if isinstance(said, dict) else {}
    return {key.casefold(): value for key, value in fields.items()}.get(name)


def _parse_result(kind: type[Message], said: object) -> answers.BackendResult | None:
    try:
        result = msgspec.convert(_straightened(kind, said), kind)
        return _checked(cast("answers.BackendResult", result))
    except (*_UNREADABLE, Malformed):
        return None


def _check_plain(name: str, text: str) -> None:
    """Refuse what people would read differently than we do.

    Raises:
        Malformed: it has control, bidirectional or other hidden characters.
    """
    if not is_plain(text):
        raise Malformed(f"{name} must have no control or hidden characters")


def _check_size(name: str, kept: Mapping[str, str]) -> None:
    """Refuse a map that cannot be kept.

    Raises:
        Malformed: it has too many keys, or too many characters.
    """
    if len(kept) > MOST_KEYS:
        raise Malformed(f"{name} must have at most {MOST_KEYS} keys")
    if sum(len(key) + len(value) for key, value in kept.items()) > LARGEST_MAP:
        raise Malformed(
            f"{name} must have at most {LARGEST_MAP} characters, keys and values together"
        )


def _render(message: Message) -> bytes:
    """Write a message without the fields that are not said."""
    written = _spelled(msgspec.to_builtins(message))
    if type(message) in _ITEMS:
        name = "results" if isinstance(message, Answer) else "items"
        written[name] = [
            _spelled(item) for item in cast("list[_Fields]", written[name])
        ]
    return msgspec.json.encode(written)


def _spelled(fields: _Fields) -> _Fields:
    """Return what is said of fields, in all spellings."""
    written = {name: value for name, value in fields.items() if value is not None}
    for name, old in _OLD_SPELLINGS.items():
        if name in written:
            written[old] = written[name]
    return written


# What comes in is foreign: so are its encoding and its depth.
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _parse(kind: type[_M], body: bytes) -> _M:
    """Read a message of this kind as leniently as Go's decoder would.

    One that is spelled as we would spell it needs no leniency; to read a list of
    thousands of members takes a tenth of the time then.
    """
    with contextlib.suppress(*_UNREADABLE):
        return msgspec.json.decode(body, type=kind)
    try:
        return msgspec.convert(_straightened(kind, msgspec.json.decode(body)), kind)
    except _UNREADABLE as error:
        raise Malformed(f"not a valid {kind.__name__}: {_unquoted(error)}") from error


def _unquoted(error: Exception) -> str:
    """Return what is wrong and where, without quoting the answer.

    An answer may be a page that only we can reach; its text must not get out.
    """
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text = str(error)
    if not text.startswith("Invalid enum value"):
        return text
    return "unknown word" + text[text.rindex(" - at ") :]


def _straightened(kind: type[Message], value: object) -> object:
    """Return the same JSON with our field names, without nulls and foreign fields."""
    if not isinstance(value, dict):
        return value
    names = _names(kind)
    straight: dict[str, object] = {}
    for said, content in value.items():
        name = names.get(said.casefold())
        if name is not None and content is not None:
            part = _ITEMS.get(kind) if name == "items" else _PARTS.get(name)
            straight[name] = _straightened_field(name, content, part)
    return straight


@functools.cache
def _names(kind: type[Message]) -> Mapping[str, str]:
    fields = msgspec.structs.fields(kind)
    return {field.encode_name.casefold(): field.encode_name for field in fields}


def _straightened_field(
    name: str, content: object, part: type[Message] | None
) -> object:
    """Straighten what is inside a field; whole objects and unknown parts stay."""
    if name == _DELAY:
        return _seconds(content)
    if name == _KEPT and isinstance(content, list):
        return [_whole(item) for item in content]
    if name in _STRING_MAPS and isinstance(content, dict):
        return {key: "" if value is None else value for key, value in content.items()}
    if part is None:
        return content
    if isinstance(content, list):
        return [_straightened(part, item) for item in content]
    return _straightened(part, content)


def _whole(item: object) -> object:
    # LBCF's document shows whole objects as strings of JSON.
    return msgspec.json.decode(item) if isinstance(item, str) else item


def _seconds(content: object) -> int:
    """Read a delay: a number, or a number in a string, from 0 to `LONGEST_DELAY`.

    Raises:
        Malformed: anything else; LBCF's document calls it a string, its code an int.
    """
    if content == "":
        return 0
    try:
        number = float(content) if isinstance(content, str) else content
        if isinstance(number, int | float) and not isinstance(number, bool):
            return math.ceil(min(max(number, 0), LONGEST_DELAY))
    except ValueError:
        pass  # not a number, whether in words or as NaN
    raise Malformed(f"{_DELAY} must be a number of seconds")
