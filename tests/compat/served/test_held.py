"""What is in use cannot go, says who holds it, and takes nothing new."""

import pytest

from tests.compat.scene import Scene, a_driver
from tests.e2e import objects
from tests.e2e.watched import has_event


pytestmark = pytest.mark.cluster

DRAINING = {"metadata": {"labels": {"lbcf.tkestack.io/driver-draining": "true"}}}


async def test_driver_in_use_goes_last_whatever_goes_first(scene: Scene) -> None:
    """It names its users, one kind after the other, and ends with the last of them."""
    stage, driver = scene.stage, scene.driver
    judged = {
        "deregisterPolicy": "Webhook",
        "deregisterWebhook": {"driverName": "plain"},
    }
    await stage.patch(objects.GROUPS, "web", {"spec": judged})
    await stage.add_pod("a", "10.0.0.1")
    await scene.until_members("10.0.0.1:80")
    driver.script("deregisterBackend", *[{"status": "Fail", "msg": "not yet"}] * 999)
    await stage.patch(objects.DRIVERS, "plain", DRAINING)
    await stage.delete(objects.DRIVERS, "plain")

    held = await scene.until_says(objects.DRIVERS, "plain", "Accepted", "InUse")
    for user in ("LoadBalancer", "BackendGroup", "BackendRecord"):
        assert f"{user} {stage.namespace}/" in held["message"]

    await stage.delete(objects.LOAD_BALANCERS, "front")
    held = await scene.until_says(objects.LOAD_BALANCERS, "front", "Created", "InUse")
    assert "waits for 1 BackendRecords" in held["message"]
    await stage.delete(objects.GROUPS, "web")
    driver.unscript("deregisterBackend")

    await scene.until_gone(objects.DRIVERS, "plain")
    assert () == await stage.listed(objects.LOAD_BALANCERS)
    assert (set(), {}) == (driver.addresses, driver.balancers)


async def test_draining_driver_takes_no_new_load_balancer(scene: Scene) -> None:
    """What it has goes on; what is new waits until the label is off."""
    stage, driver = scene.stage, scene.driver
    await scene.until_says(objects.LOAD_BALANCERS, "front", "Created", "Created")
    # The controller watches drivers and load balancers apart: it may see `back` before
    # the label, and creates it then. It tells of each spec of a driver that it has read.
    other_spec = {"webhooks": [{"name": "ensureBackend", "timeout": "11s"}]}
    await stage.patch(objects.DRIVERS, "plain", {**DRAINING, "spec": other_spec})

    async def is_read() -> bool:
        """Whether the controller has seen the driver as it is now."""
        found = await stage.get(objects.DRIVERS, "plain")
        assert found is not None
        accepted = found.condition("Accepted")
        return bool(accepted["observedGeneration"] == found.meta.generation)

    await scene.until("the controller has seen the label", is_read)
    back = objects.a_load_balancer("back", driver="plain")
    await stage.create(objects.LOAD_BALANCERS, back)

    told = await scene.until_says(
        objects.LOAD_BALANCERS, "back", "Created", "DriverDraining"
    )
    assert "takes no new LoadBalancer" in told["message"]
    await stage.add_pod("a", "10.0.0.1")
    await scene.until_members("10.0.0.1:80")
    found = await stage.get(objects.LOAD_BALANCERS, "back")
    assert found is not None
    assert () == found.meta.finalizers
    assert ["name=front"] == list(driver.balancers)

    undone = {"metadata": {"labels": {"lbcf.tkestack.io/driver-draining": None}}}
    await stage.patch(objects.DRIVERS, "plain", undone)
    await scene.until_says(objects.LOAD_BALANCERS, "back", "Created", "Created")


async def test_load_balancer_whose_driver_is_gone_can_be_abandoned(
    scene: Scene,
) -> None:
    """Its annotation lets it go without a call; the driver's own lets the driver go."""
    stage, driver = scene.stage, scene.driver
    await scene.until_says(objects.LOAD_BALANCERS, "front", "Created", "Created")
    why = {"metadata": {"annotations": {"lbcf.tkestack.io/abandon": "scrapped"}}}
    driver.script("deleteLoadBalancer", *[{"status": "Fail", "msg": "locked"}] * 999)
    await stage.delete(objects.LOAD_BALANCERS, "front")
    told = await scene.until_says(
        objects.LOAD_BALANCERS, "front", "Created", "DriverRefused"
    )
    assert "locked" in told["message"]

    await stage.patch(objects.LOAD_BALANCERS, "front", why)

    await scene.until_gone(objects.LOAD_BALANCERS, "front")
    assert ["name=front"] == list(driver.balancers), "that is now its owner's to do"


async def test_bind_whose_driver_is_gone_can_be_abandoned(served: Scene) -> None:
    """Its annotation lets its load balancers go without a call, and an Event says so."""
    stage, driver = served.stage, served.driver
    await stage.create(objects.DRIVERS, a_driver(driver.url))
    entry = objects.an_entry("front", driver="plain")
    await stage.create(objects.BINDS, objects.a_bind("both", entry))

    async def created() -> bool:
        """Tell whether the driver has it."""
        return ["name=front"] == list(driver.balancers)

    await served.until("the driver has made it", created)
    driver.script("deleteLoadBalancer", *[{"status": "Fail", "msg": "locked"}] * 999)
    await stage.delete(objects.BINDS, "both")
    why = {"metadata": {"annotations": {"lbcf.tkestack.io/abandon": "scrapped"}}}

    await stage.patch(objects.BINDS, "both", why)

    await served.until_gone(objects.BINDS, "both")
    assert ["name=front"] == list(driver.balancers), "that is now its owner's to do"
    await stage.until("an event tells of it", lambda: has_event(stage, "Abandoned"))


async def test_driver_comes_before_its_load_balancer_and_after(served: Scene) -> None:
    """A load balancer that was there first waits, without a finalizer of ours on it."""
    stage = served.stage
    front = objects.a_load_balancer(driver="plain")
    await stage.create(objects.LOAD_BALANCERS, front)
    await served.until_says(
        objects.LOAD_BALANCERS, "front", "Created", "DriverNotFound"
    )
    found = await stage.get(objects.LOAD_BALANCERS, "front")
    assert found is not None
    assert () == found.meta.finalizers

    await stage.create(objects.DRIVERS, a_driver(served.driver.url))
    await served.until_says(objects.LOAD_BALANCERS, "front", "Created", "Created")


async def test_load_balancer_that_ends_takes_nothing_new(scene: Scene) -> None:
    """Its group says so, though the webhook is not installed; out of it, all is well."""
    stage, driver = scene.stage, scene.driver
    await stage.add_pod("a", "10.0.0.1")
    await scene.until_members("10.0.0.1:80")
    driver.script("deleteLoadBalancer", *[{"status": "Fail", "msg": "locked"}] * 999)
    await stage.delete(objects.LOAD_BALANCERS, "front")
    await scene.until_members()
    await stage.add_pod("b", "10.0.0.2")

    told = await scene.until_says(
        objects.GROUPS, "web", "Ready", "LoadBalancerDeleting"
    )

    assert f"LoadBalancer {stage.namespace}/front is being deleted" in told["message"]
    assert () == await stage.listed(objects.RECORDS)
    back = objects.a_load_balancer("back", driver="plain")
    await stage.create(objects.LOAD_BALANCERS, back)
    other = {"spec": {"loadBalancers": ["back"]}}
    await stage.patch(objects.GROUPS, "web", other)
    await scene.until_says(objects.GROUPS, "web", "Ready", "Reconciled")
    await scene.until_members("10.0.0.1:80", "10.0.0.2:80")
    driver.unscript("deleteLoadBalancer")
    await scene.until_gone(objects.LOAD_BALANCERS, "front")
