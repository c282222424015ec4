"""A LoadBalancer's whole life with a driver that knows LBCF's protocol alone."""

from itertools import pairwise

import pytest

from tests.compat.plain import in_turn
from tests.compat.scene import Scene, a_driver
from tests.e2e import objects


pytestmark = pytest.mark.cluster

UNANSWERED = (
    {"status": "Running", "msg": "at it", "minRetryDelayInSeconds": 1},
    {"what": "no answer of a driver"},
)
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


async def test_refused_attributes_never_reach_the_load_balancer(scene: Scene) -> None:
    """The driver is asked with the old ones beside them; its words are the condition."""
    stage, driver = scene.stage, scene.driver
    kind, condition = objects.LOAD_BALANCERS, "AttributesSynced"
    await scene.until_says(kind, "front", condition, condition)
    await stage.patch(kind, "front", {"spec": {"attributes": {"mode": "odd"}}})
    await scene.until("odd", lambda: _has(scene, "name=front", {"mode": "odd"}))
    await scene.until_says(kind, "front", condition, condition)

    refused = {"spec": {"attributes": {"refuse": "no such mode"}}}
    await stage.patch(kind, "front", refused)

    told = await scene.until_says(kind, "front", condition, "DriverRefused")
    assert "validateLoadBalancer answered Fail: no such mode" in told["message"]
    assert {"name=front": {"mode": "odd"}} == driver.balancers
    asked = driver.of("validateLoadBalancer")[-1].body
    assert "Update" == asked["operation"]
    assert {"mode": "odd"} == asked["oldAttributes"]
    assert {"mode": "odd", "refuse": "no such mode"} == asked["attributes"]
    await stage.patch(kind, "front", {"spec": {"attributes": {"refuse": None}}})
    await scene.until_says(kind, "front", condition, condition)


async def _has(scene: Scene, name: str, attributes: dict[str, str]) -> bool:
    """Whether a load balancer has these attributes."""
    return attributes == scene.driver.balancers.get(name)


async def test_what_may_have_been_created_is_deleted(served: Scene) -> None:
    """Though the driver never said Succ: by lbSpec, when no call can be late any more.

    Of a Bind the same. What the driver refused before it was asked to create it goes
    without a call.
    """
    stage, driver = served.stage, served.driver
    quick = [{"name": "createLoadBalancer", "timeout": "1s"}]
    await stage.create(objects.DRIVERS, a_driver(driver.url, webhooks=quick))
    driver.script("createLoadBalancer", *UNANSWERED * 99)
    refused = objects.a_load_balancer("never", driver="plain")
    refused["spec"]["attributes"] = {"refuse": "no such region"}
    await stage.create(objects.LOAD_BALANCERS, refused)
    front = objects.a_load_balancer(driver="plain")
    await stage.create(objects.LOAD_BALANCERS, front)
    entries = [objects.an_entry("bound", "plain")]
    entries.append(objects.an_entry("unbound", "plain", refuse="no such region"))
    await stage.create(objects.BINDS, objects.a_bind("both", *entries))
    told = await served.until_says(
        objects.LOAD_BALANCERS, "never", "Created", "DriverRefused"
    )
    assert "False" == told["status"]

    async def begun() -> bool:
        asked = {c.body["lbSpec"]["name"] for c in driver.of("createLoadBalancer")}
        return asked == {"front", "bound"}

    await served.until("both are begun", begun)
    found = await stage.get(objects.LOAD_BALANCERS, "front")
    assert found is not None
    assert "Unknown" == found.condition("Created")["status"]
    for name in ("front", "never"):
        await stage.delete(objects.LOAD_BALANCERS, name)
    await stage.delete(objects.BINDS, "both")
    for kind, name in (
        (objects.LOAD_BALANCERS, "never"),
        (objects.LOAD_BALANCERS, "front"),
        (objects.BINDS, "both"),
    ):
        await served.until_gone(kind, name)

    deleted = driver.of("deleteLoadBalancer")
    assert ["bound", "front"] == sorted(c.body["lbSpec"]["name"] for c in deleted)
    for call in deleted:
        tries = [
            c
            for c in driver.of("createLoadBalancer")
            if c.body["recordID"] == call.body["recordID"]
        ]
        assert call.body["lbSpec"] == tries[-1].body["lbSpec"]
        assert {} == call.body["lbInfo"]
        # Its window and the skew of clocks, without the second that it may arrive late.
        assert call.at - tries[-1].at >= 2 + 3
