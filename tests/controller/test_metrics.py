"""Objects are counted by their conditions, and registrations measured."""

from datetime import timedelta

import attrs
import pytest

from lbcf.controller.metrics import RegistrationMetrics, measure
from lbcf.controller.view import View
from lbcf.core.lifecycle.in_service import in_service, with_in_service
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord, RecordStatus
from lbcf.core.reasons import Reason
from lbcf.runtime.metrics import Metrics
from tests.builders import START, a_load_balancer, a_record, a_spec
from tests.fakes.clock import VirtualClock


COUNT = "lbcf_registration_duration_seconds_count"
SUM = "lbcf_registration_duration_seconds_sum"
OLDEST = "lbcf_oldest_registration_age_seconds"
DRIVER = {"driver": "shop/proxy"}


class Counted:
    """A view that is measured."""

    def __init__(self) -> None:
        self.clock, self.metrics, self.view = VirtualClock(), Metrics(), View()
        series = measure(self.view, self.clock, self.metrics)
        assert series is not None
        self.series: RegistrationMetrics = series

    def put(self, record: BackendRecord) -> None:
        """Have the store hold a record."""
        self.view.records.place(record)

    def records(self, **labels: str) -> float | None:
        """Read how many records count so."""
        return self.metrics.registry.get_sample_value("lbcf_records", labels)

    def by_name(self, name: str) -> list[tuple[str, ...]]:
        """Read the labels and values of a metric's series."""
        return [
            (*sample.labels.values(), f"{sample.value:g}")
            for metric in self.metrics.registry.collect()
            for sample in metric.samples
            if sample.name == name
        ]

    def told(self, name: str) -> float | None:
        """Read a series of the driver's."""
        return self.metrics.registry.get_sample_value(name, DRIVER)


def in_trouble(version: int = 2) -> BackendRecord:
    """Make a record whose driver cannot be reached."""
    condition = Condition(conditions.REGISTERED, False, Reason.DRIVER_UNREACHABLE)
    status = RecordStatus(conditions=(condition,))
    return a_record(status=status, version=version)


REGISTERED = {"condition": "Registered", "status": "True", "reason": "Registered"}
UNREACHED = {
    "condition": "Registered",
    "status": "False",
    "reason": "DriverUnreachable",
}
UNSAID = {"condition": "Registered", "status": "Unknown", "reason": ""}


def test_record_counts_as_what_it_says_last() -> None:
    """It moves from one series to the next; what nothing says any more is left out."""
    counted = Counted()
    seen = []
    for record in (a_record(), in_trouble(), a_record(registered=True, version=3)):
        counted.put(record)
        seen.append([counted.records(**s) for s in (UNSAID, UNREACHED, REGISTERED)])

    assert [[1, None, None], [None, 1, None], [None, None, 1]] == seen


def test_record_that_ends_waits_for_no_registration() -> None:
    """Nobody is to be told that it has none; of one that is in, it is still said."""
    counted = Counted()
    ends = a_record(deleting=True, version=3)
    counted.put(in_trouble())
    counted.put(attrs.evolve(in_trouble(), meta=ends.meta))
    trouble = [counted.records(**s) for s in (UNSAID, UNREACHED)]
    counted.put(a_record(deleting=True, registered=True, version=4))

    assert [1, None] == trouble
    assert 1 == counted.records(**REGISTERED)


def test_record_that_is_gone_counts_nowhere() -> None:
    """Of two in the same trouble one goes."""
    counted = Counted()
    for name in ("web-1", "web-2"):
        counted.put(attrs.evolve(in_trouble(), meta=a_record(name).meta))
    counted.view.records.displace(a_record("web-1").meta.key)

    assert 1 == counted.records(**UNREACHED)


def test_sum_over_the_first_condition_is_the_number_of_records() -> None:
    """Further conditions of a record count beside it."""
    counted = Counted()
    drained = Condition(conditions.DRAINED, False, Reason.DRAINING)
    status = RecordStatus(conditions=(drained,))
    counted.put(a_record("web-1", status=status, registered=True))
    counted.put(a_record("web-2"))
    counted.put(a_record("web-3", status=status))

    assert 3 == sum(
        sample.value
        for metric in counted.metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "lbcf_records" and sample.labels["condition"] == "Registered"
    )


def test_registration_is_measured_from_when_it_was_due() -> None:
    """Trouble in between belongs to it; a new generation is a new one."""
    counted = Counted()
    counted.series.begin()
    counted.put(a_record())
    counted.clock.advance(timedelta(seconds=3))
    counted.put(in_trouble())
    counted.clock.advance(timedelta(seconds=4))
    counted.put(a_record(registered=True, version=3))
    assert (1, 7) == (counted.told(COUNT), counted.told(SUM))

    counted.clock.advance(timedelta(hours=1))
    newer = a_record(registered=True, version=4)
    meta = attrs.evolve(newer.meta, generation=2)
    counted.put(attrs.evolve(newer, meta=meta))
    counted.clock.advance(timedelta(seconds=1))
    counted.put(a_record(registered=True, version=5, generation=2))

    assert (2, 8) == (counted.told(COUNT), counted.told(SUM))


def test_replica_that_waits_measures_nothing() -> None:
    """What the leader registers is the leader's: else it would be counted twice."""
    counted = Counted()
    counted.put(a_record())
    counted.put(a_record(registered=True, version=2))
    counted.series.begin()

    assert counted.told(COUNT) is None


def test_deleted_record_is_no_registration() -> None:
    """A record that ends before it was registered is waited for by nobody."""
    counted = Counted()
    counted.series.begin()
    counted.put(a_record(spec=a_spec()))
    counted.put(a_record(deleting=True, version=2))
    counted.put(a_record(registered=True, version=3))

    assert counted.told(COUNT) is None


def running(
    name: str = "web-1", *, since: timedelta, version: int = 2, generation: int = 1
) -> BackendRecord:
    """Make a record whose driver has answered Running, unregistered for so long after the start."""
    told = Condition(
        conditions.REGISTERED, False, Reason.DRIVER_RUNNING, since=START + since
    )
    status = RecordStatus(conditions=(told,))
    return a_record(name, status=status, version=version, generation=generation)


def test_oldest_registration_is_shown_by_what_is_said_of_it() -> None:
    """Of those of one driver and reason the one that waits for the longest."""
    counted = Counted()
    counted.put(a_record("new"))
    for minute in (1, 2):
        counted.clock.advance(timedelta(minutes=1))
        counted.put(a_record(f"new-{minute}"))
        counted.put(running(f"runs-{minute}", since=timedelta(minutes=minute)))
    counted.put(a_record("in", registered=True))
    counted.clock.advance(timedelta(minutes=8))

    assert {
        ("shop/proxy", "", "600"),
        ("shop/proxy", "DriverRunning", "540"),
    } == set(counted.by_name(OLDEST))


def test_registration_is_as_old_as_its_record_says_after_a_hand_over() -> None:
    """A controller that has just begun does not count from its own beginning."""
    counted = Counted()
    counted.clock.advance(timedelta(hours=1))
    counted.put(running(since=timedelta(minutes=10)))

    assert [("shop/proxy", "DriverRunning", "3000")] == counted.by_name(OLDEST)


def test_change_of_a_registered_record_is_as_old_as_the_change() -> None:
    """Not as old as what its condition says of the spec before; Running does not begin it anew."""
    counted, seen = Counted(), []
    status = a_record(registered=True).status
    changed = a_record(status=status, version=2, generation=2)
    counted.put(a_record(registered=True))
    counted.clock.advance(timedelta(hours=1))
    for record in (
        changed,
        running(since=timedelta(hours=1, minutes=1), version=3, generation=2),
    ):
        counted.put(record)
        counted.clock.advance(timedelta(minutes=1))
        seen += counted.by_name(OLDEST)

    assert [
        ("shop/proxy", "", "60"),
        ("shop/proxy", "DriverRunning", "120"),
    ] == seen


@pytest.mark.parametrize(
    "last",
    [a_record(registered=True, version=3), a_record(deleting=True, version=3), None],
    ids=["registered", "deleted", "gone"],
)
def test_registration_that_is_over_has_no_age(last: BackendRecord | None) -> None:
    """However it ends, and whether or not this process leads; a namesake begins anew."""
    counted = Counted()
    counted.put(running(since=timedelta(0)))
    counted.clock.advance(timedelta(minutes=1))
    if last is None:
        counted.view.records.displace(a_record().meta.key)
    else:
        counted.put(last)
    assert [] == counted.by_name(OLDEST)

    counted.put(a_record(uid="another", version=4))
    assert [("shop/proxy", "", "0")] == counted.by_name(OLDEST)


def down(name: str, *, deleting: bool = False, version: int = 1) -> BackendRecord:
    """Make a registered record to whose member nothing new is sent."""
    record = a_record(name, registered=True, deleting=deleting, version=version)
    return with_in_service(record, in_service(record, "DOWN"), START)


def test_load_balancer_with_members_down_is_named() -> None:
    """One that ends is not waited for; where none is down any more there is no series."""
    counted, seen = Counted(), []
    for record in (
        down("web-1"),
        down("web-2"),
        down("web-1", deleting=True, version=2),
        a_record("web-2", registered=True, version=2),
    ):
        counted.put(record)
        seen.append(counted.by_name("lbcf_members_down"))

    assert [
        [("shop", "front", "1")],
        [("shop", "front", "2")],
        [("shop", "front", "1")],
        [],
    ] == seen


@pytest.mark.parametrize(
    ("kind", "status", "is_told"),
    [
        (conditions.REACHABLE, False, True),
        (conditions.REACHABLE, True, False),
        (conditions.DRIFTED, True, True),
        (conditions.DRIFTED, False, False),
        (conditions.CREATED, False, False),
    ],
)
def test_load_balancer_in_trouble_is_named(
    kind: str, status: bool, is_told: bool
) -> None:
    """With its driver and the reason; one that is well has no series."""
    counted = Counted()
    said = Condition(kind, status, Reason.DRIVER_REFUSED, "no", 1)
    counted.view.load_balancers.place(
        attrs.evolve(a_load_balancer(), conditions=(said,))
    )

    expected = ("shop", "front", "shop/proxy", kind, "DriverRefused", "1")
    assert [expected] * is_told == counted.by_name("lbcf_load_balancer_in_trouble")
