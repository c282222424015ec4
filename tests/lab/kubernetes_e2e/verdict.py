"""What the tests of Kubernetes say, from ginkgo's report. Pure."""

import json

from collections.abc import Iterable
from pathlib import Path

import attrs


LET_OUT = frozenset({"skipped", "pending"})

FOUND = 18
"""Tests that Kubernetes v1.36.3 has of such Services."""

LEAST_PASSED = 14

_LOCAL = "[sig-network] LoadBalancers ExternalTrafficPolicy: Local [Feature:LoadBalancer] [Slow]"
_PROXY = "skips itself where ipMode is Proxy: Envoy does not keep the client's address"

REASONS = {
    f"{_LOCAL} should work for type=LoadBalancer": _PROXY,
    f"{_LOCAL} should work from pods": _PROXY,
}
"""Tests that do not pass, by their whole names, and why."""


@attrs.frozen
class Spec:
    """One test.

    Attributes:
        name: of it, with those of its groups.
        state: in ginkgo's words: passed, skipped, failed, timedout, ...
        seconds: that it took.
        message: why it did not pass.
    """

    name: str
    state: str
    seconds: float
    message: str

    def __str__(self) -> str:
        first = f": {self.message.splitlines()[0]}" if self.message else ""
        return f"{self.state:8} {self.seconds:5.0f} s  {self.name}{first}"


def read_report(path: Path) -> list[Spec]:
    """Return the tests that were meant to run."""
    [suite] = json.loads(path.read_text())
    return [
        _spec(one)
        for one in suite["SpecReports"] or ()
        if one["LeafNodeType"] == "It"
        and (one["NumAttempts"] or one["State"] == "failed")
    ]


def _spec(one: dict[str, object]) -> Spec:
    """Return one test of a report."""
    groups = one["ContainerHierarchyTexts"]
    assert isinstance(groups, list)
    failure = one.get("Failure")
    message = failure.get("Message", "") if isinstance(failure, dict) else ""
    return Spec(
        " ".join([*groups, str(one["LeafNodeText"])]),
        str(one["State"]),
        float(str(one["RunTime"])) / 1e9,
        str(message),
    )


def unexpected(specs: Iterable[Spec]) -> list[Spec]:
    """Return the tests that neither pass nor have a known reason."""
    return [
        one
        for one in specs
        if one.state != "passed" and not (one.state in LET_OUT and one.name in REASONS)
    ]


def shortfall(specs: Iterable[Spec], *, is_all: bool) -> str:
    """Return what is missing of a run in which nothing else is wrong; empty: nothing.

    Args:
        specs: that were found.
        is_all: whether all tests were asked for: else one that passed is enough.
    """
    states = [one.state for one in specs]
    passed = states.count("passed")
    if is_all and len(states) != FOUND:
        return f"{len(states)} specs in place of {FOUND}: were tests renamed, or added?"
    least = LEAST_PASSED if is_all else 1
    if passed < least:
        return f"{passed} passed, fewer than {least}"
    return ""
