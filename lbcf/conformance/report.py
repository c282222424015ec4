"""Writes how the rules ended: for people, as JSON, and as JUnit XML.

Bodies are quoted in part: a pod may be long.
"""

import textwrap
import xml.etree.ElementTree as ET

from collections import Counter
from collections.abc import Sequence

import msgspec

from lbcf.conformance.findings import Exchange, Outcome
from lbcf.conformance.kit import Result
from lbcf.conformance.target import Target
from lbcf.wire.plain import plain


LONGEST_QUOTE = 2000
"""Characters of a body in a report."""

_SHOWN_EXCHANGES = 50
_NARROWEST = 40
_HANGING = " " * 8
_MARKS = {
    Outcome.PASSED: "ok  ",
    Outcome.FAILED: "FAIL",
    Outcome.NOTED: "note",
    Outcome.NOT_APPLICABLE: "n/a ",
}


_COLOURS = {
    Outcome.PASSED: "32",
    Outcome.FAILED: "1;31",
    Outcome.NOTED: "33",
    Outcome.NOT_APPLICABLE: "2",
}
"""SGR parameters of a mark on a terminal."""


def failed(results: Sequence[Result]) -> bool:
    """Return whether a rule failed."""
    return any(result.outcome is Outcome.FAILED for result in results)


def lines_of(result: Result) -> list[str]:
    """Return the lines of one rule in the printed report."""
    lines = [f"{_MARKS[result.outcome]}  {result.rule.name}: {result.rule.sentence}"]
    if result.text:
        lines.append(f"      {result.text}")
    if result.outcome is Outcome.FAILED:
        lines.append(f"      rule: {result.rule.source}")
    if result.exchange is not None and result.outcome is not Outcome.NOT_APPLICABLE:
        lines += [f"      {line}" for line in quoted(result.exchange)]
    return lines


def for_terminal(result: Result, width: int, *, coloured: bool) -> list[str]:
    """Return the lines of one rule folded to a terminal's width, its mark coloured.

    What a driver answered cannot move the cursor: what is not printable is left out.
    """
    lines = []
    for line in lines_of(result):
        text = plain(line)
        hanging = _HANGING if text.startswith(" ") else " " * len("FAIL  ")
        lines += textwrap.wrap(
            text,
            max(width, _NARROWEST),
            subsequent_indent=hanging,
            break_on_hyphens=False,
        )
    if coloured:
        mark = _MARKS[result.outcome]
        colour = _COLOURS[result.outcome]
        lines[0] = f"\x1b[{colour}m{mark}\x1b[0m{lines[0].removeprefix(mark)}"
    return lines


def quoted(exchange: Exchange) -> list[str]:
    """Return a request and what came back, as two lines."""
    return [
        f"request: POST {exchange.operation} {_cut(exchange.request)}",
        f"answer:  {exchange.described()[:LONGEST_QUOTE]}",
    ]


def summary(results: Sequence[Result]) -> str:
    """Return how many rules had each outcome, in words."""
    counts = Counter(result.outcome for result in results)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome)


def as_json(target: Target, results: Sequence[Result]) -> bytes:
    """Return the whole report as JSON."""
    counts = Counter(result.outcome for result in results)
    report = {
        "url": target.url,
        "memberKey": target.member_key,
        "operations": sorted(target.declared),
        "seed": target.seed,
        "summary": {outcome: counts[outcome] for outcome in Outcome},
        "rules": [_rule(result) for result in results],
    }
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def as_junit(results: Sequence[Result]) -> bytes:
    """Return the report as JUnit XML; what is noted goes to the case's output."""
    counts = Counter(result.outcome for result in results)
    suite = ET.Element(
        "testsuite",
        name="lbcf conformance",
        tests=str(len(results)),
        failures=str(counts[Outcome.FAILED]),
        errors="0",
        skipped=str(counts[Outcome.NOT_APPLICABLE]),
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    for result in results:
        _add_case(suite, result)
    root = ET.Element("testsuites")
    root.append(suite)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _add_case(suite: ET.Element, result: Result) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname="lbcf.conformance",
        name=result.rule.name,
        time=f"{result.seconds:.3f}",
    )
    match result.outcome:
        case Outcome.FAILED:
            child = ET.SubElement(case, "failure", message=_printable(result.text))
            child.text = _printable("\n".join(lines_of(result)))
        case Outcome.NOT_APPLICABLE:
            ET.SubElement(case, "skipped", message=_printable(result.text))
        case Outcome.NOTED:
            child = ET.SubElement(case, "system-out")
            child.text = _printable("\n".join(lines_of(result)))
        case Outcome.PASSED:
            pass


def _printable(text: str) -> str:
    return "".join(
        char if char in "\n\t" or char.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )


def _rule(result: Result) -> dict[str, object]:
    """Return one rule's part of the JSON; exchanges where something was found."""
    written: dict[str, object] = {
        "id": result.rule.name,
        "sentence": result.rule.sentence,
        "source": result.rule.source,
        "outcome": result.outcome,
        "text": result.text,
        "seconds": round(result.seconds, 3),
        "calls": len(result.exchanges),
    }
    if result.exchange is not None:
        written["shownBy"] = _exchange(result.exchange)
    if result.outcome is Outcome.FAILED:
        last = result.exchanges[-_SHOWN_EXCHANGES:]
        written["exchanges"] = [_exchange(one) for one in last]
    return written


def _exchange(exchange: Exchange) -> dict[str, object]:
    return {
        "operation": exchange.operation,
        "request": _cut(exchange.request),
        "status": exchange.status,
        "answer": _cut(exchange.answer),
        "trouble": exchange.trouble,
        "seconds": round(exchange.seconds, 4),
    }


def _cut(body: bytes) -> str:
    text = body[: 4 * LONGEST_QUOTE].decode(errors="replace")
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "..."
