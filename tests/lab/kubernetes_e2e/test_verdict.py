"""What is read from ginkgo's report, and what counts against us."""

import json

from pathlib import Path

from tests.lab.kubernetes_e2e.verdict import read_report, unexpected


def _told(name: str, state: str, attempts: int = 1, message: str = "") -> object:
    """One test, as ginkgo writes it."""
    return {
        "ContainerHierarchyTexts": [
            "LoadBalancers ExternalTrafficPolicy: Local [Feature:LoadBalancer] [Slow]"
        ],
        "LeafNodeText": name,
        "LeafNodeType": "It",
        "NumAttempts": attempts,
        "State": state,
        "RunTime": 2_000_000_000,
        **({"Failure": {"Message": message}} if message else {}),
    }


def test_only_known_reasons_excuse(tmp_path: Path) -> None:
    """A test that skips itself unexpectedly counts as one that fails; others were not asked for."""
    told = [
        _told("should target all nodes with endpoints", "passed"),
        _told("should work from pods", "skipped", message="uses 'Proxy' IPMode\nmore"),
        _told("should only target nodes with endpoints", "skipped"),
        _told("should be new", "failed", message="no"),
        _told("is of another group", "skipped", attempts=0),
    ]
    path = tmp_path / "report.json"
    path.write_text(json.dumps([{"SpecReports": told}]))

    specs = read_report(path)

    assert 4 == len(specs)
    assert ["skipped", "failed"] == [one.state for one in unexpected(specs)]
    assert str(specs[1]).endswith("should work from pods: uses 'Proxy' IPMode")
