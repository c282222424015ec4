"""Fields that several kinds share, in JSON and back: durations, ports, selectors, conditions."""

import re

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from sys import intern

import msgspec

from lbcf.core.model.conditions import Condition
from lbcf.core.model.selectors import Operator, Requirement, Selector
from lbcf.core.model.values import (
    NO_DRAIN,
    DrainPolicy,
    EnsurePolicy,
    Ingress,
    NamedPort,
    Port,
    Protocol,
    Repeat,
)
from lbcf.core.reasons import read_reason
from lbcf.wire.errors import Malformed


_MICROSECONDS = {
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
    "µs": 1,
    "ns": 0.001,
}
_PART = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(h|ms|us|µs|ns|m|s)")


def parse_duration(text: str) -> timedelta:
    """Read a duration (Go's time.ParseDuration, without signs).

    Raises:
        Malformed: it is not one.
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise Malformed(f"{text!r} is not a duration such as 10s or 1m30s")
    return timedelta(microseconds=sum(float(n) * _MICROSECONDS[u] for n, u in parts))


def render_duration(length: timedelta) -> str:
    """Write a duration in the largest unit, of s, ms and us, that loses nothing."""
    microseconds = length // timedelta(microseconds=1)
    for unit in ("s", "ms"):
        whole, rest = divmod(microseconds, _MICROSECONDS[unit])
        if not rest:
            return f"{whole:.0f}{unit}"
    return f"{microseconds}us"


class WirePort(msgspec.Struct, rename="camel"):
    """A port of a group or a record, in either spelling; of pods also by its name."""

    port: int | None = None
    port_number: int | None = None
    name: str = ""
    protocol: str = Protocol.TCP.value


def parse_port(port: WirePort) -> Port:
    """Read a port.

    Raises:
        Malformed: it has no number, or another protocol than TCP and UDP.
    """
    number = port.port or port.port_number  # 0 is how Go writes an unset number
    if not number:
        raise Malformed("a port has neither port nor portNumber")
    return Port(number, _parse_protocol(port.protocol))


def parse_pod_port(port: WirePort) -> Port | NamedPort:
    """Read a port of pods, which may be named.

    Raises:
        Malformed: as `parse_port`.
    """
    if port.name and not (port.port or port.port_number):
        return NamedPort(intern(port.name), _parse_protocol(port.protocol))
    return parse_port(port)


def _parse_protocol(text: str) -> Protocol:
    try:
        return Protocol(text.upper())
    except ValueError as error:
        raise Malformed(f"protocol {text!r} is neither TCP nor UDP") from error


def render_port(port: Port) -> dict[str, object]:
    """Write a port of a record."""
    return {"port": port.number, "protocol": port.protocol.value}


class WireExpression(msgspec.Struct):
    """One of matchExpressions."""

    key: str
    operator: str
    values: list[str] | None = None


def parse_selector(
    labels: Mapping[str, str] | None, expressions: Iterable[WireExpression] | None
) -> Selector:
    """Read a selector.

    Raises:
        Malformed: an operator is unknown.
    """
    requirements = tuple(_parse_expression(e) for e in expressions or ())
    return Selector(labels or {}, requirements)


def _parse_expression(expression: WireExpression) -> Requirement:
    """Read one expression of a selector."""
    try:
        operator = Operator(expression.operator)
    except ValueError as error:
        raise Malformed(f"operator {expression.operator!r} is unknown") from error
    return Requirement(expression.key, operator, frozenset(expression.values or ()))


_ONCE = EnsurePolicy()


class WireIngress(msgspec.Struct, rename="camel"):
    """Where a load balancer is reached, in a status."""

    ip: str = ""
    hostname: str = ""
    ports: list[WirePort] | None = None
    ip_mode: str = ""


def parse_ingress(found: Iterable[WireIngress] | None) -> tuple[Ingress, ...]:
    """Read where a load balancer is reached."""
    return tuple(
        Ingress(
            one.ip, one.hostname, tuple(map(parse_port, one.ports or ())), one.ip_mode
        )
        for one in found or ()
    )


def render_ingress(ingress: Iterable[Ingress]) -> list[dict[str, object]]:
    """Write where a load balancer is reached; what is unsaid is left out."""
    return [
        {
            **({"ip": one.ip} if one.ip else {"hostname": one.hostname}),
            **({"ports": [render_port(p) for p in one.ports]} if one.ports else {}),
            **({"ipMode": one.ip_mode} if one.ip_mode else {}),
        }
        for one in ingress
    ]


class WireDrain(msgspec.Struct, rename="camel", frozen=True):
    """How long to drain."""

    enabled: bool = True
    timeout_seconds: int = 30


class WireEnsurePolicy(msgspec.Struct, rename="camel"):
    """When to ensure again."""

    policy: str = Repeat.IF_NOT_SUCC.value
    min_period: str | None = None


def parse_ensure_policy(found: WireEnsurePolicy | None) -> EnsurePolicy:
    """Read a policy; unsaid means once.

    Raises:
        Malformed: an unknown policy or period.
    """
    if found is None:
        return _ONCE
    try:
        repeat = Repeat(found.policy)
    except ValueError as error:
        raise Malformed(f"ensurePolicy {found.policy!r} is unknown") from error
    # Without Always the period means nothing: it must not make two policies differ.
    if repeat is not Repeat.ALWAYS or not found.min_period:
        return EnsurePolicy(repeat)
    return EnsurePolicy(repeat, parse_duration(found.min_period))


def render_ensure_policy(policy: EnsurePolicy) -> dict[str, object] | None:
    """Write a policy; None where it is the default."""
    if not policy.is_always:
        return None
    period = render_duration(policy.period)
    return {"policy": policy.repeat.value, "minPeriod": period}


@lru_cache(256)
def parse_drain(found: WireDrain) -> DrainPolicy:
    """Read a drain; records of one group share the value."""
    # Without a drain the time means nothing: it must not make two policies differ.
    if not found.enabled:
        return NO_DRAIN
    return DrainPolicy(timeout=timedelta(seconds=found.timeout_seconds))


def render_drain(drain: DrainPolicy) -> dict[str, object] | None:
    """Write a record's drain; None where there is none."""
    return render_drain_fields(drain) if drain.enabled else None


def render_drain_fields(drain: DrainPolicy) -> dict[str, object]:
    """Write how members are drained, without whether they are."""
    return {"timeoutSeconds": int(drain.timeout.total_seconds())}


def replaced(before: object, after: object) -> object:
    """Return the merge patch that makes one value another, whatever its depth.

    A merge patch takes out of a map only what it says to be null.
    """
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return after
    changed = {key: replaced(before.get(key), value) for key, value in after.items()}
    return {**dict.fromkeys(before, None), **changed}


_STATUSES = {"True": True, "False": False}


class WireCondition(msgspec.Struct, rename="camel"):
    """One entry of status.conditions; LBCF in Go wrote some fields empty or not at all."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: datetime | None = None


def parse_conditions(found: Sequence[WireCondition] | None) -> tuple[Condition, ...]:
    """Read the conditions of an object."""
    return tuple(
        Condition(
            type=intern(c.type),
            status=_STATUSES.get(c.status),
            reason=read_reason(c.reason),
            message=c.message,
            observed_generation=c.observed_generation,
            since=c.last_transition_time,
        )
        for c in found or ()
    )


def render_conditions(conditions: Iterable[Condition]) -> list[dict[str, object]]:
    """Write the conditions of an object."""
    return [_render_condition(c) for c in conditions]


def _render_condition(condition: Condition) -> dict[str, object]:
    written: dict[str, object] = {
        "type": condition.type,
        "status": "Unknown" if condition.status is None else str(condition.status),
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": condition.observed_generation,
    }
    # One that somebody else wrote may have none: the API server refuses null.
    if condition.since is not None:
        written["lastTransitionTime"] = render_time(condition.since)
    return written


def render_time(moment: datetime) -> str:
    """Write a moment as metav1.Time: RFC 3339, UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def render_time_after(moment: datetime) -> str:
    """Write a moment that is waited for: the first whole second that is not before it."""
    return render_time(moment + timedelta(seconds=1, microseconds=-1))
