"""Sets up logging once, at the start of a process: one event per fact, key-values.

Modules say `structlog.get_logger(__name__)`. What libraries tell the standard
`logging` comes out of the same stream in the same form.
"""

import json
import logging
import sys

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Literal, TextIO, cast, get_args

import msgspec
import structlog

from structlog.typing import EventDict, Processor, WrappedLogger

from lbcf.wire.plain import plain


Format = Literal["json", "console"]
"""One JSON object per line for machines, or coloured text for people."""

LEVELS = ("debug", "info", "warning", "error")
"""What may be asked for, from the most to the least talkative."""


def parse_level(text: str) -> int:
    """Read the name of a level, in any case; return its number in `logging`.

    Raises:
        ValueError: no such level; says which there are.
    """
    if text.lower() not in LEVELS:
        raise ValueError(f"unknown log level {text!r}: choose {' or '.join(LEVELS)}")
    return logging.getLevelNamesMapping()[text.upper()]


def parse_format(text: str) -> Format:
    """Read the name of an output format.

    Raises:
        ValueError: no such format; says which there are.
    """
    known = get_args(Format)
    if text not in known:
        raise ValueError(f"unknown log format {text!r}: choose {' or '.join(known)}")
    return cast("Format", text)


def configure(
    level: str = "info", output: str = "json", stream: TextIO | None = None
) -> None:
    """Send every event of that level or above to the stream, standard error if none.

    Raises:
        ValueError: an unknown level or format.
    """
    threshold = parse_level(level)
    target = sys.stderr if stream is None else stream
    ending = _ending(parse_format(output), target)
    structlog.configure(
        processors=[*_beginning(), *ending],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=target),
        # Kept off so that a second call, and a test's capture, reach every logger.
        cache_logger_on_first_use=False,
    )
    _route_standard_logging(threshold, ending, target)


def _beginning() -> list[Processor]:
    """Return the steps that complete an event, whoever wrote it."""
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _spell_out,
        _put_first,
    ]


def _ending(output: Format, stream: TextIO) -> list[Processor]:
    """Return the steps that turn an event into text."""
    if output == "json":
        return [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_json),
        ]
    # Tracebacks with local variables would print tokens and driver secrets.
    return [
        structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    ]


def _json(event: EventDict, **_: object) -> str:
    """Write an event as JSON; what JSON has no form for as Python shows it.

    A tenth of what the standard library's encoder takes (measured): a storm of changes
    is a storm of events.
    """
    try:
        return msgspec.json.encode(event, enc_hook=repr).decode()
    except (TypeError, UnicodeEncodeError):
        # Half a surrogate, or a key that is no text: rare, and never a reason to fail.
        return json.dumps(event, default=repr, skipkeys=True)


def _route_standard_logging(
    threshold: int, ending: Sequence[Processor], stream: TextIO
) -> None:
    """Make the records of libraries events of ours.

    Below INFO they stay out at any level: client libraries write whole requests
    there, with their tokens.
    """
    lines = logging.StreamHandler(stream)
    lines.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_beginning()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *ending,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [lines]
    talkative = threshold <= logging.DEBUG
    root.setLevel(logging.INFO if talkative else max(threshold, logging.WARNING))
    logging.captureWarnings(capture=True)


def _put_first(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    first = {key: event.pop(key) for key in ("timestamp", "level", "event")}
    return {**first, **event}


def _spell_out(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    # JSON would show a key as a list.
    return {name: _spelled(value) for name, value in event.items()}


def _spelled(value: object) -> object:
    """Return a value as text or number, where JSON has no better form for it.

    Who reads a log at a terminal sees what a text says, not what it hides.
    """
    match value:
        case Enum():
            return value.value
        case timedelta():
            return value.total_seconds()
        case datetime():
            return value.isoformat()
        case str():
            return plain(value)
        case BaseException():
            return plain(f"{type(value).__name__}: {value}")
        case tuple() if type(value) is not tuple:
            return str(value)
        case _:
            return value
