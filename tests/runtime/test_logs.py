"""Logging: one line per event, the same form for all, no secrets of libraries."""

import io
import json
import logging
import warnings

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple

import pytest
import structlog

from lbcf.runtime import logs


class Key(NamedTuple):
    """A key as queues have them."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Shade(Enum):
    """Something that has a value besides its name."""

    DARK = "dark"


@pytest.fixture(name="stream", autouse=True)
def _stream() -> Iterator[io.StringIO]:
    """Give a place to log to; put logging back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    """Read what was logged: one object per line."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fail() -> None:
    """Raise with a line break in the message."""
    raise ValueError("two\nlines")


def test_event_is_one_object_with_moment_level_and_name_first(
    stream: io.StringIO,
) -> None:
    """An event reads: when, how bad, what, then its values; the moment is in UTC."""
    logs.configure("info", "json", stream)
    structlog.get_logger().info("record.drained", sessions=0)
    (event,) = events(stream)

    assert ["timestamp", "level", "event", "sessions"] == list(event)
    assert timedelta(0) == datetime.fromisoformat(event["timestamp"]).utcoffset()


def test_values_are_spelled_as_the_cluster_spells_them(stream: io.StringIO) -> None:
    """Keys, moments, lengths and errors are text or numbers, not lists or reprs."""
    logs.configure("info", "json", stream)
    structlog.get_logger().info(
        "x.y",
        key=Key("default", "web"),
        since=datetime(2026, 1, 2, tzinfo=UTC),
        delay=timedelta(seconds=1.5),
        error=OSError("refused"),
        pair=("a", 1),
        shade=Shade.DARK,
    )
    (event,) = events(stream)

    assert {
        "key": "default/web",
        "since": "2026-01-02T00:00:00+00:00",
        "delay": 1.5,
        "error": "OSError: refused",
        "pair": ["a", 1],
        "shade": "dark",
    }.items() <= event.items()


def test_exception_stays_in_its_line(stream: io.StringIO) -> None:
    """A traceback is a text within the one object."""
    logs.configure("info", "json", stream)
    try:
        fail()
    except ValueError:
        structlog.get_logger().exception("x.broke")
    (event,) = events(stream)

    assert event["exception"].startswith("Traceback (most recent call last):")
    assert event["exception"].endswith("ValueError: two\nlines")


def test_bound_context_is_in_the_event(stream: io.StringIO) -> None:
    """What was bound for the task is told with each event."""
    logs.configure("info", "json", stream)
    with structlog.contextvars.bound_contextvars(key="a/b"):
        structlog.get_logger().info("x.y")

    assert "a/b" == events(stream)[0]["key"]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("WARNING", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_level_holds_back_what_is_below(
    level: str, expected: list[str], stream: io.StringIO
) -> None:
    """Events of the level and above come out; the level's case does not matter."""
    logs.configure(level, "json", stream)
    log = structlog.get_logger()
    for name in logs.LEVELS:
        log.log(logs.parse_level(name), "x.y")

    assert expected == [event["level"] for event in events(stream)]


def test_libraries_speak_in_the_same_form(stream: io.StringIO) -> None:
    """A record of the standard logging is an event with its logger's name."""
    logs.configure("info", "json", stream)
    logging.getLogger("aiohttp.server").error("odd: %s", "x")
    (event,) = events(stream)

    assert ("odd: x", "error", "aiohttp.server") == (
        event["event"],
        event["level"],
        event["logger"],
    )


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["info", "warning", "error"]),
        ("info", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_libraries_never_tell_their_details(
    level: str, expected: list[str], stream: io.StringIO
) -> None:
    """Client libraries write requests with tokens at DEBUG: it never comes out."""
    logs.configure(level, "json", stream)
    for name in logs.LEVELS:
        logging.getLogger("kubernetes_asyncio").log(logs.parse_level(name), "x")

    assert expected == [event["level"] for event in events(stream)]


def test_warnings_of_python_are_events(stream: io.StringIO) -> None:
    """A warning goes the way of all events."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logs.configure("info", "json", stream)
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    assert "py.warnings" == events(stream)[0]["logger"]


def test_second_call_reaches_loggers_in_use(stream: io.StringIO) -> None:
    """A logger that has spoken already obeys a new setting, and lines do not double."""
    log, before = structlog.get_logger(), io.StringIO()
    logs.configure("info", "json", before)
    log.info("first")
    logs.configure("error", "json", stream)
    log.info("x.y")
    logging.getLogger("aiohttp").error("once")

    assert [["first"], ["once"]] == [
        [event["event"] for event in events(place)] for place in (before, stream)
    ]


def test_console_is_plain_where_nobody_looks(stream: io.StringIO) -> None:
    """In a file the lines for people carry no colours, and show no local variables."""
    secret = "hush"  # noqa: S105
    logs.configure("info", "console", stream)
    try:
        fail()
    except ValueError:
        structlog.get_logger().exception("x.broke", key=Key("default", "web"))
    text = stream.getvalue()

    assert "key=default/web" in text
    assert "ValueError: two" in text
    assert "\x1b" not in text
    assert secret not in text


@pytest.mark.parametrize(
    ("level", "output", "message"),
    [
        ("loud", "json", "unknown log level 'loud': choose debug or info or warning"),
        ("info", "xml", "unknown log format 'xml': choose json or console"),
    ],
)
def test_unknown_words_are_refused(level: str, output: str, message: str) -> None:
    """The message names the word and those that exist."""
    with pytest.raises(ValueError, match=message):
        logs.configure(level, output)


def test_text_that_is_no_unicode_does_not_silence_an_event() -> None:
    """Half a surrogate comes out as the sign for what is none."""
    stream = io.StringIO()
    logs.configure("info", "json", stream)

    structlog.get_logger().info("odd", text="\ud800")

    assert "\ufffd" == json.loads(stream.getvalue())["text"]


@pytest.mark.parametrize("output", ["json", "console"])
def test_hidden_characters_stay_out(stream: io.StringIO, output: str) -> None:
    """Who looks at a log sees what a driver said, and not what it would have one see."""
    logs.configure("info", output, stream)
    said = "full\x1b[2J\x1b]0;root\x07 \u202egnp"
    structlog.get_logger().warning("driver.said", msg=said, error=ValueError(said))

    text = stream.getvalue()
    assert 2 == text.count("full gnp")
    assert not set(text) & set("\x1b\x07\u202e")
    assert "\\u" not in text
