"""What is read from ginkgo's report, and what counts against us."""

import json

from pathlib import Path

import pytest

from tests.lab.kubernetes_e2e.verdict import (
    FOUND,
    LEAST_PASSED,
    Spec,
    read_report,
    shortfall,
    unexpected,
)


LOCAL = "[sig-network] LoadBalancers ExternalTrafficPolicy: Local [Feature:LoadBalancer] [Slow]"


def _told(
    name: str, state: str, attempts: int = 1, message: str = "", group: str = LOCAL
) -> object:
    """One test, as ginkgo writes it."""
    return {
        "ContainerHierarchyTexts": [group],
        "LeafNodeText": name,
        "LeafNodeType": "It",
        "NumAttempts": attempts,
        "State": state,
        "RunTime": 2_000_000_000,
        **({"Failure": {"Message": message}} if message else {}),
    }


def test_only_known_reasons_excuse(tmp_path: Path) -> None:
    """A test that skips itself unexpectedly counts as one that fails; others were not asked for."""
    elsewhere = "[sig-network] Services"
    told = [
        _told("should target all nodes with endpoints", "passed"),
        _told("should work from pods", "skipped", message="uses 'Proxy' IPMode\nmore"),
        _told("should only target nodes with endpoints", "skipped"),
        _told("should work from pods", "skipped", group=elsewhere),
        _told("should work from pods on two nodes", "skipped"),
        _told("should be new", "failed", message="no"),
        _told("is of another group", "skipped", attempts=0),
    ]
    path = tmp_path / "report.json"
    path.write_text(json.dumps([{"SpecReports": told}]))

    specs = read_report(path)

    assert 6 == len(specs)
    assert [one.name for one in specs[2:]] == [one.name for one in unexpected(specs)]
    assert str(specs[1]).endswith("should work from pods: uses 'Proxy' IPMode")


def _specs(passed: int, skipped: int = 0) -> list[Spec]:
    """So many tests."""
    states = ["passed"] * passed + ["skipped"] * skipped
    return [Spec(f"test {number}", one, 1.0, "") for number, one in enumerate(states)]


@pytest.mark.parametrize(
    ("specs", "is_all", "said"),
    [
        pytest.param(_specs(16, 2), True, "", id="as it is"),
        pytest.param(_specs(LEAST_PASSED, FOUND - LEAST_PASSED), True, "", id="least"),
        pytest.param(_specs(13, 5), True, "13 passed, fewer than 14", id="skipped"),
        pytest.param(_specs(17), True, "17 specs in place of 18", id="one is missing"),
        pytest.param(_specs(19), True, "19 specs in place of 18", id="one is new"),
        pytest.param([], True, "0 specs in place of 18", id="none"),
        pytest.param(_specs(1), False, "", id="one was asked for"),
        pytest.param(
            _specs(0, 1), False, "0 passed, fewer than 1", id="it was skipped"
        ),
    ],
)
def test_all_tests_must_have_been_there(
    specs: list[Spec], is_all: bool, said: str
) -> None:
    """A focus that finds few, or tests that skip themselves, are no success."""
    found = shortfall(specs, is_all=is_all)

    assert found.startswith(said)
    assert bool(said) == bool(found)
