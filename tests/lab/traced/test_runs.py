"""Runs are told apart by what they say in the log that they share."""

import json

from datetime import timedelta
from pathlib import Path

from tests.fakes.clock import EPOCH
from tests.lab.traced.runs import Runs
from tests.lab.traced.tape import Run


def _say(log: Path, event: str, **fields: object) -> None:
    """Append an event to a log."""
    with log.open("a") as file:
        file.write(f"{json.dumps({'event': event, **fields})}\n")


def _start(log: Path, name: str, at: float) -> None:
    """Say that a run of a name has started."""
    moment = (EPOCH + timedelta(seconds=at)).isoformat()
    _say(log, "process.started", incarnation=name, timestamp=moment)


def test_process_begins_again_by_another_name(tmp_path: Path) -> None:
    """It has lost its Lease: the run before has ended when the next one starts."""
    log = tmp_path / "controller.log"
    runs = Runs(log)
    runs.begin()
    _start(log, "one", 1.0)
    _say(log, "leader.lost")
    _start(log, "two", 5.0)
    runs.end()
    runs.begin()  # and is killed before it says anything
    runs.end()
    runs.begin()
    _start(log, "three", 9.0)

    found = list(runs.named("controller"))

    assert ["one", "two", "three"] == [run.name for run in found]
    assert Run("one", "controller", 1.0, 5.0) == found[0]
    assert found[1].ended is not None
    assert Run("three", "controller", 9.0, None) == found[2]


def test_run_is_named_after_the_shard_that_it_leads(tmp_path: Path) -> None:
    """Its User-Agent names none, and the first one's name is the process's own."""
    log = tmp_path / "controller.log"
    runs = Runs(log)
    runs.begin()
    for number, name in enumerate(("one", "two")):
        _start(log, name, float(number))
        _say(log, "shard.taken", shard=number, shards=2)

    found = list(runs.named("controller"))

    assert [("one", "one"), ("two-1", "two")] == [
        (run.name, run.agent) for run in found
    ]
