"""ensurePolicy in JSON and back."""

import msgspec

from lbcf.core.model.values import EnsurePolicy, Repeat
from lbcf.wire.durations import parse_duration, render_duration
from lbcf.wire.errors import Malformed


_ONCE = EnsurePolicy()


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
