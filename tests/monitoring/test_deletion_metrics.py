"""What the deregistrar shows of deletions."""

from datetime import datetime, timedelta

import attrs
import pytest

from lbcf.core.lifecycle.deregistration import DrainEnd
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord, DrainProgress
from lbcf.core.reasons import Reason
from lbcf.deregistrar.metrics import DeletionMetrics, is_draining
from lbcf.kube.store import Store
from lbcf.runtime.metrics import Metrics
from tests.builders import START, a_record
from tests.fakes.clock import VirtualClock


DRIVER = {"driver": "shop/proxy"}


def ending(name: str, after: int, *, drains: bool = False) -> BackendRecord:
    """Make a record that was deleted so many seconds after the start."""
    record = a_record(name, deleting=True)
    since = START + timedelta(seconds=after)
    meta = attrs.evolve(record.meta, deleting_since=since)
    drain = DrainProgress(since, since + timedelta(seconds=30)) if drains else None
    return attrs.evolve(
        record, meta=meta, status=attrs.evolve(record.status, drain=drain)
    )


class Shown:
    """A store of deletions, a minute after the start, and what is shown of it."""

    def __init__(self, *records: BackendRecord) -> None:
        self.clock, self.metrics = VirtualClock(START), Metrics()
        self.clock.advance(timedelta(minutes=1))
        store: Store[BackendRecord] = Store()
        self.series = DeletionMetrics(store, self.clock, self.metrics)
        for record in records:
            store.place(record)

    def value(self, name: str, **labels: str) -> float | None:
        """Read a series of the driver's."""
        registry = self.metrics.registry
        return registry.get_sample_value(name, DRIVER | labels)


def test_deletions_are_shown_by_driver() -> None:
    """How many wait, how many of them drain, and how long the oldest has waited."""
    shown = Shown(ending("a", 0), ending("b", 45, drains=True), ending("c", 50))

    assert 3 == shown.value("lbcf_deletions_waiting")
    assert 1 == shown.value("lbcf_drains_waiting")
    assert 60 == shown.value("lbcf_oldest_deletion_age_seconds")


def test_nothing_to_end_shows_nothing() -> None:
    """A driver without deletions has no series."""
    assert Shown().value("lbcf_oldest_deletion_age_seconds") is None


@pytest.mark.parametrize(
    ("after", "deregistering", "drains"),
    [(29, False, True), (30, False, False), (29, True, False)],
    ids=["before the deadline", "at the deadline", "deregistering already"],
)
def test_drain_is_one_until_its_end(
    after: int, deregistering: bool, drains: bool
) -> None:
    """The deadline ends it, and so does the driver, whose deregistration then fails."""
    record = ending("a", 0, drains=True)
    if deregistering:
        told = Condition(conditions.DEREGISTERED, False, Reason.DRIVER_UNREACHABLE)
        status = attrs.evolve(record.status, conditions=(told,))
        record = attrs.evolve(record, status=status)
    moment: datetime = START + timedelta(seconds=after)

    assert drains is is_draining(record, moment)


def test_end_is_measured_from_the_deletion() -> None:
    """Drain and trouble are part of it; a drain that waited tells how it ended."""
    shown = Shown()
    shown.series.over(ending("a", 20, drains=True), DrainEnd.EMPTY, 0)
    shown.series.over(ending("b", 50), None, None)

    assert 2 == shown.value("lbcf_deregistration_duration_seconds_count")
    assert 50 == shown.value("lbcf_deregistration_duration_seconds_sum")
    assert 1 == shown.value("lbcf_drains_total", outcome="Empty")
    assert shown.value("lbcf_drains_total", outcome="Deadline") is None
    assert shown.value("lbcf_drain_connections_cut_total") is None


def test_connections_that_were_cut_are_counted() -> None:
    """As far as drivers count them."""
    shown = Shown()
    shown.series.over(ending("a", 20, drains=True), DrainEnd.DEADLINE, 3)
    shown.series.over(ending("b", 20, drains=True), DrainEnd.DEADLINE, None)
    shown.series.over(ending("c", 20, drains=True), DrainEnd.BACKEND_GONE, 5)

    assert 2 == shown.value("lbcf_drains_total", outcome="Deadline")
    assert 3 == shown.value("lbcf_drain_connections_cut_total")
