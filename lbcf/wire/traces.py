"""The W3C trace context: the header by which logs on both sides are put together.

`lbcf.drivers.pool` sends one with each call, `lbcf.sdk.server` reads it (Trace Context
level 1, section 3.2: version 00, ids in lower-case hexadecimal, none of them all zero).
"""

import re

from collections.abc import Mapping

import attrs


HEADER = "traceparent"

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_FORBIDDEN_VERSION = "ff"


@attrs.frozen
class Trace:
    """Where in a trace something happens.

    Attributes:
        trace_id: 32 hexadecimal digits, the same on both sides of a call.
        span_id: 16 of them, for the caller's part.
        sampled: whether the caller's part may be kept somewhere.
    """

    trace_id: str
    span_id: str
    sampled: bool = False

    def headers(self) -> Mapping[str, str]:
        """Return the header (Trace Context level 1, section 3.2.2.5: the last bit)."""
        return {HEADER: f"00-{self.trace_id}-{self.span_id}-{self.sampled:02x}"}


def new_trace(uuid: str) -> Trace:
    """Make a trace of one call, hence of one span, from the text of a random UUID.

    Its version and its variant keep both ids from being all zero (RFC 9562, 5.4).
    """
    digits = uuid.replace("-", "")
    return Trace(digits, digits[16:])


def parse_trace(text: str | None) -> Trace | None:
    """Read the header; None where it is missing or says nothing valid."""
    found = _FORM.fullmatch(text or "")
    if found is None:
        return None
    version, trace_id, span_id, _, more = found.groups()
    if version == _FORBIDDEN_VERSION or (version == "00" and more):
        return None
    if not (trace_id.strip("0") and span_id.strip("0")):
        return None
    return Trace(trace_id, span_id)
