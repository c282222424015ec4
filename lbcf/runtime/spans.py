"""Spans, and the trace context that carries them over HTTP.

Set up once, at the start of a process, like `logs`; then any module may open a span, and
most of the time that does nothing. Spans are sent only where the environment names a
collector, by OpenTelemetry's own variables, and OpenTelemetry is installed: that is the
extra `traces`. `worker` opens one for each turn, `lbcf.drivers.pool` one for each call and
sends its W3C trace context as a header, which `lbcf.sdk.server` reads (Trace Context
level 1, section 3.2: version 00, ids in lower-case hexadecimal, none of them all zero).
"""

import contextlib
import re
import threading

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import attrs
import structlog

from lbcf import __version__


TRACE_HEADER = "traceparent"

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
        return {TRACE_HEADER: f"00-{self.trace_id}-{self.span_id}-{self.sampled:02x}"}


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


if TYPE_CHECKING:
    from opentelemetry import trace as otel
    from opentelemetry.sdk.trace import TracerProvider


PLACES: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Variables that name a collector, as the exporter reads them."""
NAME: Final = "OTEL_SERVICE_NAME"
"""The variable by which an operator calls the process otherwise."""
_PATIENCE: Final = 3.0
"""Seconds for what is not sent yet when the process ends; its Lease is released then."""

_log = structlog.get_logger(__name__)


@attrs.frozen
class Span:
    """A piece of work that somebody may be told of.

    Attributes:
        real: OpenTelemetry's; None where nobody collects.
    """

    real: "otel.Span | None" = None

    @property
    def trace(self) -> Trace | None:
        """Where in a trace this is, for the other side of a call."""
        if self.real is None:
            return None
        found = self.real.get_span_context()
        digits = f"{found.trace_id:032x}", f"{found.span_id:016x}"
        return Trace(*digits, sampled=found.trace_flags.sampled)

    def tell(self, name: str, value: str) -> None:
        """Set an attribute."""
        if self.real is not None:
            self.real.set_attribute(f"lbcf.{name}", value)

    def fail(self, why: str) -> None:
        """Set the status to an error."""
        if self.real is not None:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415 - of an extra

            self.real.set_status(StatusCode.ERROR, why)


@attrs.define
class _Sink:
    """Where the spans of this process go."""

    tracer: "otel.Tracer | None" = None


NOWHERE: Final = Span()
"""Told to nobody."""
_UNTRACED: Final = contextlib.nullcontext(NOWHERE)
_sink: Final = _Sink()


def open_span(
    name: str, *, leaves: bool = False, links: Sequence[Span] = (), **told: str
) -> AbstractContextManager[Span]:
    """Open a span for a block, within the one that is open in this task.

    Args:
        name: what is done; one of few.
        leaves: it is a call of another process.
        links: spans that it is done for, of as many traces: it begins one of its own then.
        told: more of it.
    """
    if _sink.tracer is None:
        return _UNTRACED
    return _traced(_sink.tracer, name, leaves, links, told)


@contextlib.contextmanager
def _traced(
    tracer: "otel.Tracer",
    name: str,
    leaves: bool,
    links: Sequence[Span],
    told: Mapping[str, str],
) -> Iterator[Span]:
    from opentelemetry.context import Context  # noqa: PLC0415 - of an extra
    from opentelemetry.trace import Link, SpanKind  # noqa: PLC0415

    kind = SpanKind.CLIENT if leaves else SpanKind.INTERNAL
    attributes = {f"lbcf.{key}": value for key, value in told.items()}
    with tracer.start_as_current_span(
        name,
        context=Context() if links else None,
        kind=kind,
        attributes=attributes,
        links=[Link(one.real.get_span_context()) for one in links if one.real],
    ) as it:
        yield Span(it)


@contextlib.contextmanager
def export_spans(service: str, environment: Mapping[str, str]) -> Iterator[None]:
    """Send the spans of a block to the collector that the environment names, if any.

    Args:
        service: what the process is called there, unless the environment says.
        environment: the process's own; the exporter reads it for itself.
    """
    if not any(environment.get(name) for name in PLACES):
        yield
        return
    try:
        provider = _provider({} if environment.get(NAME) else {"service.name": service})
    except ImportError:
        # An injector may have set the variables for all pods: no reason to stop.
        lacking = "lbcf is installed without its extra `traces` (docs/operate.md)"
        _log.warning("traces.unavailable", hint=lacking)
        yield
        return
    _sink.tracer = provider.get_tracer("lbcf", __version__)
    try:
        yield
    finally:
        _sink.tracer = None
        # It would wait for a collector that does not answer for up to half a minute.
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        ending.join(_PATIENCE)


def _provider(names: Mapping[str, str]) -> "TracerProvider":
    """Make what sends spans, in a thread of its own.

    Raises:
        ImportError: OpenTelemetry is not installed.
    """
    from opentelemetry.exporter.otlp.proto.http import trace_exporter  # noqa: PLC0415
    from opentelemetry.sdk import resources, trace  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    about = resources.Resource.create({**names, "service.version": __version__})
    provider = trace.TracerProvider(resource=about, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(trace_exporter.OTLPSpanExporter()))
    return provider
