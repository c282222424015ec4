"""ensurePolicy and drain in JSON and back, as groups, Binds and records have them."""

from datetime import timedelta
from functools import lru_cache

import msgspec

from lbcf.core.model.values import NO_DRAIN, DrainPolicy, EnsurePolicy, Repeat
from lbcf.wire.durations import parse_duration, render_duration
from lbcf.wire.errors import Malformed


_ONCE = EnsurePolicy()


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
    if not drain.enabled:
        return None
    return {"timeoutSeconds": int(drain.timeout.total_seconds())}
