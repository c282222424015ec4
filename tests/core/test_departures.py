"""How a registration ended, by the last that was seen of its record."""

from datetime import datetime, timedelta

import attrs
import pytest

from lbcf.core.lifecycle.departures import (
    KEPT,
    MOST,
    cut_condition,
    departure_of,
    recent,
    with_departures,
)
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.departures import Departure, Outcome
from lbcf.core.model.names import ANNOTATION_ABANDON
from lbcf.core.model.resources import BackendRecord, DrainProgress, RecordStatus
from lbcf.core.reasons import Reason
from tests.builders import START, a_driver, a_record, a_spec, seconds


DRAINS = a_driver(drains=True)
DEADLINE = START + seconds(30)


def leaving(*, drain: bool = True, address: str = "10.0.0.1:8080") -> BackendRecord:
    """Make a record that is being deleted, with a drain of half a minute."""
    spec = a_spec(address=address, drain_timeout=seconds(30) if drain else None)
    return a_record(spec=spec, deleting=True)


def waiting(
    *, connections: int | None = 3, told: Condition | None = None
) -> BackendRecord:
    """Make one whose drain had to wait."""
    progress = DrainProgress(START, DEADLINE, connections)
    status = RecordStatus(drain=progress, conditions=() if told is None else (told,))
    return attrs.evolve(leaving(), status=status)


def deregistered(reason: Reason, since: datetime) -> Condition:
    """Make the condition of a deregistration that is not done."""
    return Condition(conditions.DEREGISTERED, False, reason, since=since)


def ended(
    record: BackendRecord, gone_at: datetime = START, *, drains: bool = True
) -> tuple[Outcome, int | None]:
    """Return how it ended, with how many connections."""
    found = departure_of(record, a_driver(drains=drains), None, gone_at)
    return found.outcome, found.connections


def test_what_had_not_to_wait_was_drained_if_anybody_drains() -> None:
    """A drain is written down as soon as the driver says that something still runs."""
    assert (Outcome.DRAINED, None) == ended(leaving())
    assert (Outcome.NOT_DRAINED, None) == ended(leaving(), drains=False)
    assert (Outcome.NOT_DRAINED, None) == ended(leaving(drain=False))

    driverless = departure_of(leaving(), None, None, START)
    assert Outcome.UNKNOWN is driverless.outcome


@pytest.mark.parametrize(
    ("after", "outcome", "connections"),
    [
        (10, Outcome.DRAINED, None),
        (27.9, Outcome.DRAINED, None),
        (29.1, Outcome.CUT, 3),
        (45, Outcome.CUT, 3),
        (46, Outcome.UNKNOWN, None),
    ],
)
def test_clock_says_whether_a_drain_was_cut(
    after: float, outcome: Outcome, connections: int | None
) -> None:
    """Nothing ends a drain early but its success; long after it, nobody knows."""
    assert (outcome, connections) == ended(waiting(), START + seconds(after))


def test_cut_without_a_count_has_none() -> None:
    """The driver does not count, or did not answer."""
    cut = ended(waiting(connections=None), DEADLINE)

    assert (Outcome.CUT, None) == cut


@pytest.mark.parametrize("reason", [Reason.WAITING_TO_CONFIRM, Reason.DRIVER_REFUSED])
def test_deregistration_that_waits_tells_when_the_drain_was_over(
    reason: Reason,
) -> None:
    """However long it takes after that."""
    late = START + timedelta(hours=1)
    drained = waiting(told=deregistered(reason, START + seconds(5)))
    cut = waiting(told=deregistered(reason, START + seconds(29)))

    assert (Outcome.DRAINED, None) == ended(drained, late)
    assert (Outcome.CUT, 3) == ended(cut, late)


def test_driver_that_was_missing_in_a_drain_ends_none() -> None:
    """Deregistered says so though nothing has been deregistered yet."""
    told = deregistered(Reason.DRIVER_NOT_FOUND, START + seconds(5))

    assert (Outcome.CUT, 3) == ended(waiting(told=told), DEADLINE)


def test_ends_without_a_drain_are_told_as_such() -> None:
    """Each by what its record says."""
    drain = waiting()
    status = attrs.evolve(drain.status, backend_gone=True)
    meta = attrs.evolve(drain.meta, annotations={ANNOTATION_ABANDON: "it burned"})
    living = attrs.evolve(drain.meta, deleting_since=None)

    assert (Outcome.BACKEND_GONE, 3) == ended(attrs.evolve(drain, status=status))
    assert (Outcome.ABANDONED, None) == ended(attrs.evolve(drain, meta=meta))
    assert (Outcome.NEVER_REGISTERED, None) == ended(leaving(address=""))
    assert (Outcome.UNKNOWN, None) == ended(attrs.evolve(drain, meta=living))


def test_departure_has_names_and_whole_seconds() -> None:
    """It is read as it was written."""
    record = leaving()
    found = departure_of(record, DRAINS, Reason.POD_GONE, START + seconds(1.7))

    name = record.meta.key.name
    assert (
        Departure(
            *("web-1:8080", "front", name, START + seconds(1)),
            Outcome.DRAINED,
            Reason.POD_GONE,
        )
        == found
    )


def at_time(after: float, name: str = "") -> Departure:
    """Make one so many seconds after the start."""
    moment = START + seconds(after)
    return Departure(f"{name}:80", "front", name, moment, Outcome.DRAINED)


def test_memory_is_bounded_newest_first_and_has_each_once() -> None:
    """The oldest goes where there are too many."""
    told = with_departures((), [at_time(n) for n in range(MOST)], START)
    found = with_departures(told, [at_time(MOST), at_time(3)], START)

    assert [at_time(n) for n in range(MOST, 0, -1)] == list(found)


def test_memory_forgets_after_a_day() -> None:
    """On writing, and on reading."""
    now = START + KEPT
    told = (at_time(1), at_time(0), at_time(-1))

    assert told[:2] == recent(told, now)
    assert told[:2] == with_departures(told, (), now)


def cut_at(after: float, connections: int | None) -> Departure:
    """Make one that was cut so many seconds after the start."""
    found = attrs.evolve(at_time(after, "web-1"), outcome=Outcome.CUT)
    return attrs.evolve(found, connections=connections)


@pytest.mark.parametrize(("connections", "left"), [(4, "4"), (None, "not told")])
def test_group_says_which_drain_was_cut_last(
    connections: int | None, left: str
) -> None:
    """The newest of them, and how many there were."""
    departed = (at_time(9), cut_at(7, connections), cut_at(3, 1))
    found = cut_condition(departed, is_told=False, generation=2)

    assert found is not None
    assert (True, Reason.CUT_AT_DEADLINE) == (found.status, found.reason)
    assert "2 of the departures in status.departed; the last one: web-1:80" in (
        found.message
    )
    assert found.message.endswith(
        f"{START + seconds(7):%H:%M:%S} UTC, connections left: {left}"
    )


def test_group_of_which_no_drain_was_cut_says_nothing_until_one_was() -> None:
    """Then it says so, once all that were cut are forgotten."""
    departed = (at_time(1),)
    assert cut_condition(departed, is_told=False, generation=1) is None

    found = cut_condition(departed, is_told=True, generation=1)
    assert found is not None
    assert (False, Reason.DRAINED_IN_TIME) == (found.status, found.reason)
