"""Reports as JSON, and into a pipe."""

import io

import pytest

from lbcf.ctl.drains import DrainsReport
from lbcf.ctl.output import as_builtins, screen
from lbcf.ctl.status import Problem
from tests.builders import NAMESPACE


def test_json_spells_fields_as_the_api_does() -> None:
    """Programs that read objects read reports, too."""
    problem = Problem("shop", "lb/front", "DriverRefused", "full", count=2)

    assert {
        "namespace": "shop",
        "subject": "lb/front",
        "reason": "DriverRefused",
        "message": "full",
        "since": "",
        "next": "",
        "count": 2,
        "remedy": "",
    } == as_builtins(problem)


@pytest.mark.parametrize("output", ["json", "table"])
def test_pipe_hears_of_changes_at_once(
    output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads it need not wait for a full buffer."""
    pipe = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(pipe))
    with screen(output) as show:
        show(DrainsReport(NAMESPACE, ()))

        assert pipe.getvalue()
