"""The census reads records and pods, and counts each life once."""

import copy

from typing import Any

import pytest

from tests.lab.demo import census
from tests.lab.demo.api import Api
from tests.lab.demo.census import Census, read_pod, read_record


RECORD: dict[str, Any] = {"metadata": {"name": "r1", "uid": "u1"}}
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def condition(kind: str, status: str, reason: str = "Why") -> dict[str, Any]:
    """A status with one condition."""
    return {"conditions": [{"type": kind, "status": status, "reason": reason}]}


def record(
    status: dict[str, Any] | None = None, *, going: bool = False
) -> dict[str, Any]:
    """A record with this status."""
    found = copy.deepcopy(RECORD)
    found["metadata"] |= GOING if going else {}
    return found | ({"status": status} if status else {})


WAITING = {"drain": {"startedAt": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(record(), census.PENDING, id="new"),
        pytest.param(
            record(condition("Registered", "False")), census.PENDING, id="refused"
        ),
        pytest.param(
            record(condition("Registered", "True")), census.REGISTERED, id="registered"
        ),
        pytest.param(
            record(condition("Registered", "True"), going=True),
            census.DEREGISTERING,
            id="deleted",
        ),
        pytest.param(
            record(WAITING | condition("Drained", "False"), going=True),
            census.DRAINING,
            id="draining",
        ),
        pytest.param(
            record(WAITING | condition("Drained", "True"), going=True),
            census.DEREGISTERING,
            id="drained",
        ),
    ],
)
def test_tells_the_state_of_a_record(found: dict[str, Any], expected: str) -> None:
    """A record's conditions and its deletion say where it stands."""
    assert expected == read_record(found).state


def test_reads_a_pod() -> None:
    """Ready and terminating are told apart: a leaving pod may well be ready."""
    found = {
        "metadata": {"name": "p"} | GOING,
        "spec": {"nodeName": "n1"},
        "status": condition("Ready", "True"),
    }

    assert census.Pod("p", "n1", ready=True, terminating=True) == read_pod(found)


@pytest.fixture(name="known")
async def _known(tmp_path: Any) -> Any:
    """A census that has seen nothing yet."""
    async with Api(tmp_path / "none.sock") as api:
        yield Census(api, "demo")


async def test_counts_a_life(known: Census) -> None:
    """Created, drained with a wait, gone: one life, one wait, nothing left."""
    known.see("ADDED", record())
    known.see("MODIFIED", record(WAITING, going=True))
    known.see("DELETED", record(WAITING, going=True))

    assert ({"u1"}, {"u1"}) == (known.created, known.waited)
    assert ({"u1": "r1"}, {}) == (known.finished, known.records)


async def test_a_list_ends_lives_that_a_broken_watch_missed(known: Census) -> None:
    """A record that the new list lacks is gone."""
    known.see("ADDED", record())
    known.see("LISTED", {"items": []})

    assert {"u1": "r1"} == known.finished


async def test_a_list_keeps_what_it_holds(known: Census) -> None:
    """Listing twice counts a record once."""
    known.see("LISTED", {"items": [record()]})
    known.see("LISTED", {"items": [record(condition("Registered", "True"))]})

    assert ({"u1"}, {}) == (known.created, known.finished)
    assert 1 == known.states[census.REGISTERED]
