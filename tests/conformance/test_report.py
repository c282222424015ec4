"""The report of made-up results: for people, as JSON, and as JUnit XML."""

import xml.etree.ElementTree as ET

import msgspec
import pytest

from lbcf.conformance.bench import BOTH_SIDES, Bench, Rule
from lbcf.conformance.findings import Exchange, Outcome
from lbcf.conformance.kit import Result
from lbcf.conformance.report import (
    as_json,
    as_junit,
    failed,
    for_terminal,
    lines_of,
    summary,
)
from lbcf.conformance.target import Target
from lbcf.wire.plain import plain


async def kept(_bench: Bench) -> None:
    """Look at nothing."""


RULE = Rule("a-rule", "Drivers do it.", BOTH_SIDES, (), kept)
EXCHANGE = Exchange("ensureBackend", b"x" * 3000, 200, b'{"status": "\x1bSucc"}')
PASSED = Result(RULE, Outcome.PASSED)
FAILED = Result(RULE, Outcome.FAILED, "it was \x00 not", EXCHANGE, (EXCHANGE,), 1.5)
NOTED = Result(RULE, Outcome.NOTED, "but why", EXCHANGE, (EXCHANGE,))
SKIPPED = Result(RULE, Outcome.NOT_APPLICABLE, "needs listBackends")
RESULTS = (PASSED, FAILED, NOTED, SKIPPED)


def test_failed_rules_alone_speak_against_a_driver() -> None:
    """What is noted or does not apply leaves the exit status as it is."""
    assert failed(RESULTS)
    assert not failed([PASSED, NOTED, SKIPPED])
    assert "1 passed, 1 failed, 1 noted, 1 not applicable" == summary(RESULTS)


def test_people_read_what_was_sent_and_where_the_rule_stands() -> None:
    """Long bodies are cut."""
    assert ["ok    a-rule: Drivers do it."] == lines_of(PASSED)
    _, text, source, request, answer = lines_of(FAILED)

    assert ("      it was \x00 not", f"      rule: {BOTH_SIDES}") == (text, source)
    assert request.endswith("x" * 2000 + "...")
    assert "      answer:  HTTP 200 " in answer


def test_a_terminal_gets_folded_lines() -> None:
    """Nothing is lost, nothing is wider, and no answer moves the cursor."""
    folded = for_terminal(FAILED, 60, coloured=False)
    words = [word for line in lines_of(FAILED) for word in plain(line).split()]

    assert max(map(len, folded)) == 60
    assert "".join(words) == "".join("".join(folded).split())
    assert all(line.isprintable() for line in folded)


@pytest.mark.parametrize(
    ("result", "first"),
    [
        (PASSED, "\x1b[32mok  \x1b[0m  a-rule: Drivers do it."),
        (FAILED, "\x1b[1;31mFAIL\x1b[0m  a-rule: Drivers do it."),
        (NOTED, "\x1b[33mnote\x1b[0m  a-rule: Drivers do it."),
        (SKIPPED, "\x1b[2mn/a \x1b[0m  a-rule: Drivers do it."),
    ],
)
def test_the_mark_alone_is_coloured(result: Result, first: str) -> None:
    """By how the rule ended."""
    line, *others = for_terminal(result, 60, coloured=True)

    assert first == line
    assert for_terminal(result, 60, coloured=False)[1:] == others


def test_json_has_the_exchanges_of_failed_rules() -> None:
    """And for the others only what showed it."""
    report = msgspec.json.decode(as_json(Target(url="http://x"), RESULTS))

    assert ["exchanges" in rule for rule in report["rules"]] == [
        False,
        True,
        False,
        False,
    ]
    assert 200 == report["rules"][2]["shownBy"]["status"]


def test_junit_can_be_read_whatever_a_driver_answers() -> None:
    """Control characters, which XML cannot hold, are replaced."""
    (suite,) = ET.fromstring(as_junit(RESULTS))  # noqa: S314 - our own

    assert {
        "tests": "4",
        "failures": "1",
        "skipped": "1",
    }.items() <= suite.attrib.items()
    assert [[], ["failure"], ["system-out"], ["skipped"]] == [
        [child.tag for child in case] for case in suite
    ]
