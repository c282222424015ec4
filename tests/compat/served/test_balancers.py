"""A LoadBalancer's whole life with a driver that knows LBCF's protocol alone."""

from itertools import pairwise

import pytest

from tests.compat.plain import in_turn
from tests.compat.scene import Scene, a_driver
from tests.e2e import objects


pytestmark = [pytest.mark.cluster, pytest.mark.timeout(200)]

LIFE = ("createLoadBalancer", "ensureLoadBalancer", "deleteLoadBalancer")


async def test_busy_driver_is_asked_when_it_wishes(served: Scene) -> None:
    """Through Running and Fail, at each step of the life, no sooner than it says.

    Each answer has words of its own: the report of one must not bring the next call;
    and a spelling of its own.
    """
    stage, driver = served.stage, served.driver
    driver.spelling, driver.identity = in_turn(), {"id": "lb-1"}
    for operation in LIFE:
        driver.script(
            operation,
            {"status": "Running", "msg": "at it", "minRetryDelayInSeconds": 1},
            {"status": "Running", "msg": "still at it", "minRetryDelayInSeconds": 1},
            {"status": "Fail", "msg": "quota", "minRetryDelayInSeconds": 2},
        )
    await stage.create(objects.DRIVERS, a_driver(driver.url))
    front = objects.a_load_balancer(driver="plain")
    front["spec"]["attributes"] = {"timeout": "60"}
    await stage.create(objects.LOAD_BALANCERS, front)
    await served.until_says(
        objects.LOAD_BALANCERS, "front", "AttributesSynced", "AttributesSynced"
    )
    await stage.delete(objects.LOAD_BALANCERS, "front")
    await served.until_gone(objects.LOAD_BALANCERS, "front")

    for operation in LIFE:
        calls = driver.of(operation)
        assert 4 == len(calls), operation
        rests = [after.at - before.at for before, after in pairwise(calls)]
        for rest, wish in zip(rests, (1, 1, 2), strict=True):
            assert rest >= 0.95 * wish, (operation, rests)
        assert 1 == len({call.body["recordID"] for call in calls})
        assert 4 == len({call.body["retryID"] for call in calls})
        assert {"timeout": "60"} == calls[0].body["attributes"]
    assert {"name": "front"} == driver.of(LIFE[0])[0].body["lbSpec"]
    for operation in LIFE[1:]:
        assert {"id": "lb-1"} == driver.of(operation)[0].body["lbInfo"]
    assert {} == driver.balancers


async def test_changed_attributes_are_ensured(scene: Scene) -> None:
    """At once, although the driver wanted a long pause over the older ones."""
    stage, driver = scene.stage, scene.driver
    kind, condition = objects.LOAD_BALANCERS, "AttributesSynced"
    await scene.until_says(kind, "front", condition, condition)
    refused = {"status": "Fail", "msg": "no such mode", "minRetryDelayInSeconds": 3600}
    driver.script("ensureLoadBalancer", refused)
    await stage.patch(kind, "front", {"spec": {"attributes": {"mode": "odd"}}})
    await scene.until_says(kind, "front", condition, "DriverRefused")

    await stage.patch(kind, "front", {"spec": {"attributes": {"mode": "even"}}})

    await scene.until_says(kind, "front", condition, condition)
    assert {"name=front": {"mode": "even"}} == driver.balancers
