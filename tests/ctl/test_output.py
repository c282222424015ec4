"""Reports as JSON, and into a pipe."""

import io
import json
import re

from datetime import UTC, datetime

import msgspec
import pytest

from lbcf.core.model import conditions
from lbcf.core.reasons import Reason
from lbcf.ctl.drains import DrainsReport, drains_report
from lbcf.ctl.leaders import CONTROLLER, Leader
from lbcf.ctl.output import as_builtins, screen
from lbcf.ctl.records import why_record
from lbcf.ctl.status import Problem, status_report
from tests.builders import NAMESPACE, a_key, a_record
from tests.ctl.readings import NOW, a_draining_record, a_reading
from tests.ctl.test_records import a_status


MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def test_json_spells_fields_as_the_api_does() -> None:
    """Programs that read objects read reports, too."""
    since = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    problem = Problem("shop", "lb/front", "DriverRefused", "full", since, count=2)

    assert {
        "namespace": "shop",
        "subject": "lb/front",
        "reason": "DriverRefused",
        "message": "full",
        "since": "2026-01-02T03:04:05Z",
        "next": None,
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
        show(DrainsReport(NOW, NAMESPACE, ()))

        assert pipe.getvalue()


def test_times_are_moments_for_programs() -> None:
    """In RFC 3339; tables tell how long ago they were."""
    refused = a_status(conditions.REGISTERED, Reason.DRIVER_REFUSED, next_attempt=NOW)
    reading = a_reading(a_draining_record(), a_record("new", status=refused))
    led = Leader("lbcf-system", CONTROLLER, "pod-a", NOW, is_alive=True)
    status = json.loads(msgspec.json.encode(status_report(reading, (led,), NOW)))
    drains = json.loads(msgspec.json.encode(drains_report(reading, NOW)))
    why = json.loads(msgspec.json.encode(why_record(reading, a_key("new"), NOW)))

    [drain] = drains["drains"]
    [problem] = [one for one in status["problems"] if one["subject"] == "br/new"]
    [line] = [one for part in why["sections"] for one in part["lines"] if one["since"]]
    moments = (
        *(status["at"], status["leaders"][0]["renewed"], drains["at"]),
        *(problem["since"], problem["next"], line["since"]),
        *(drain["since"], drain["deadline"]),
    )
    assert all(MOMENT.fullmatch(str(moment)) for moment in moments), moments
