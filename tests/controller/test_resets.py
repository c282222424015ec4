"""What is told of load balancers that lose their members, and of their repair."""

from typing import Any

import attrs

from lbcf.controller.resets import ResetMetrics, ResetReporter
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord, LoadBalancer
from lbcf.core.reasons import Reason
from lbcf.executor.object_events import reference_to
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder
from lbcf.runtime.metrics import Metrics
from tests.builders import a_load_balancer, a_meta, a_record, seconds
from tests.controller.views import everyday, show
from tests.fakes.clock import VirtualClock
from tests.kube.tiny_api import TinyApi


FRONT = a_load_balancer()
IN = a_record(registered=True)
OUT = attrs.evolve(a_record(), meta=a_meta("web-2"))
ABOUT = reference_to("LoadBalancer", FRONT.meta.key, FRONT.meta.uid).render()
DRIVER = {"driver": str(FRONT.driver_key)}


class Told:
    """A reporter over the everyday load balancer."""

    def __init__(self) -> None:
        self.view = show(everyday(), IN, OUT)
        self.clock, self.metrics = VirtualClock(), Metrics()
        self.api = TinyApi()
        self.recorder = EventRecorder(
            KubeClient(self.api), self.clock, controller="test", instance="test"
        )
        self.series = ResetMetrics(self.metrics)
        self.series.follow(FRONT.driver_key)
        self.resets = ResetReporter(self.view, self.recorder, self.series, self.clock)

    def lose(self, *records: BackendRecord) -> None:
        """Let the load balancer lose members."""
        self.resets.lost(FRONT, "e1", "e2", records)

    def close(self, found: LoadBalancer = FRONT) -> Condition:
        """Write down that all are back."""
        condition = self.resets.over(found)
        assert condition is not None
        self.resets.written(found, condition)
        return condition

    async def events(self) -> list[tuple[Any, ...]]:
        """Return type, reason and object of the Events that were written."""
        await self.recorder.flush()
        return [
            (body["type"], body["reason"], body["regarding"])
            for body in self.api.objects.values()
        ]

    def value(self, name: str) -> float | None:
        """Read a series of the driver's."""
        return self.metrics.registry.get_sample_value(name, DRIVER)


def said(condition: Condition) -> LoadBalancer:
    """The load balancer with a condition."""
    return attrs.evolve(FRONT, conditions=(condition,))


async def test_reset_and_repair_are_told_once_each() -> None:
    """By Events, counters and the condition, which says how many are back."""
    told = Told()
    assert 0 == told.value("lbcf_load_balancer_resets_total")
    told.lose(IN, OUT)
    told.clock.advance(seconds(7))

    condition = told.close()

    assert (conditions.RESTORED, True) == (condition.type, condition.status)
    assert "1 of 2 members" in condition.message
    assert "7 s after" in condition.message
    assert "1 left meanwhile" in condition.message
    assert told.resets.is_told(said(condition))
    assert [
        ("Warning", "LoadBalancerReset", ABOUT),
        ("Normal", "MembersPutBack", ABOUT),
    ] == await told.events()
    assert 1 == told.value("lbcf_load_balancer_resets_total")
    assert 1 == told.value("lbcf_members_restored_total")


async def test_condition_is_written_once_while_members_are_put_back() -> None:
    """However often the load balancer is read meanwhile."""
    told = Told()
    told.lose(IN)

    condition = told.resets.under_way(FRONT)

    assert condition is not None
    assert (False, Reason.LOAD_BALANCER_RESET) == (condition.status, condition.reason)
    assert "epoch e2, before e1" in condition.message
    assert told.resets.under_way(said(condition)) is None


async def test_reset_without_members_is_counted_alone() -> None:
    """Nobody has lost anything."""
    told = Told()
    told.lose()

    assert told.resets.is_told(FRONT)
    assert told.resets.over(FRONT) is None
    assert [] == await told.events()
    assert 1 == told.value("lbcf_load_balancer_resets_total")


def test_repair_that_an_earlier_process_began_is_told() -> None:
    """The condition does not stay False for ever, as when the old epoch comes back."""
    told = Told()
    told.lose(IN)
    left = told.resets.under_way(FRONT)
    assert left is not None
    told.resets.forget(FRONT.meta.key)

    assert told.resets.under_way(said(left)) is None
    assert not told.resets.is_told(said(left))
    assert told.close(said(left)).status is True


def test_driver_that_is_gone_has_no_series() -> None:
    """Nor do its resets."""
    told = Told()
    told.lose()

    told.series.forget(FRONT.driver_key)

    assert told.value("lbcf_load_balancer_resets_total") is None
    assert told.value("lbcf_members_restored_total") is None
