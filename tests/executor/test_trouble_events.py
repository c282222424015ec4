"""Events of conditions that have just become a problem."""

from typing import Any

import attrs
import pytest

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import LoadBalancer
from lbcf.core.reasons import Reason
from lbcf.executor.object_events import TroubleReporter
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder
from lbcf.kube.list_watch import Put
from lbcf.kube.store import Store
from tests.builders import a_load_balancer
from tests.fakes.clock import VirtualClock
from tests.kube.tiny_api import TinyApi


KINDS = frozenset({conditions.CREATED})
FAILED = Condition(conditions.CREATED, None, Reason.DRIVER_REFUSED, "no quota", 1)
MISSING = attrs.evolve(FAILED, reason=Reason.DRIVER_NOT_FOUND, message="no driver")


def saying(version: int, *said: Condition) -> LoadBalancer:
    """Make a load balancer that says this."""
    return attrs.evolve(a_load_balancer(version=version), conditions=said)


async def events_of(
    *states: LoadBalancer, calls_told: bool = False
) -> list[tuple[Any, Any, Any]]:
    """Return object, reason and text of the Events of a load balancer's states."""
    api, store = TinyApi(), Store[LoadBalancer]()
    recorder = EventRecorder(
        KubeClient(api), VirtualClock(), controller="test", instance="test"
    )
    reporter = TroubleReporter(recorder, KINDS, "Set up", calls_told=calls_told)
    store.on_change(reporter.load_balancer_changed)
    for state in states:
        store.apply(Put(state))
    await recorder.flush()
    found: list[Any] = [one for one in api.objects.values() if "note" in one]
    return [(one["regarding"]["name"], one["reason"], one["note"]) for one in found]


async def test_load_balancer_that_cannot_be_created_is_told_once_for_each_reason() -> (
    None
):
    """As records are; the first reading after a start tells nothing."""
    again = attrs.evolve(FAILED, message="still no quota")

    assert [("front", "DriverRefused", "no quota")] == await events_of(
        saying(1), saying(2, FAILED), saying(3, again)
    )
    assert [] == await events_of(saying(1, FAILED), saying(2, again))


@pytest.mark.parametrize("calls_told", [True, False])
async def test_what_the_events_of_calls_tell_is_not_told_twice(
    calls_told: bool,
) -> None:
    """A driver that is missing was not called."""
    told = await events_of(
        saying(1), saying(2, FAILED), saying(3, MISSING), calls_told=calls_told
    )

    reasons = [reason for _, reason, _ in told]
    assert (["DriverRefused"] * (not calls_told) + ["DriverNotFound"]) == reasons
