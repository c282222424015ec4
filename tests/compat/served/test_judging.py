"""deregisterPolicy Webhook: the driver's word about unready pods."""

import pytest

from tests.compat.plain import in_capitals
from tests.compat.scene import Scene
from tests.e2e import objects


pytestmark = pytest.mark.cluster

JUDGE = "judgePodDeregister"
JUDGED = {"deregisterPolicy": "Webhook", "deregisterWebhook": {"driverName": "plain"}}


async def _touch(scene: Scene, pod: str, address: str, message: str) -> None:
    """Change a pod in what decides nothing but a driver's mind."""
    body = objects.pod_status(address, ready=False)
    body["status"]["message"] = message
    await scene.stage.patch(objects.PODS, pod, body, "status")


async def test_driver_decides_who_stays(scene: Scene) -> None:
    """It is asked about registered pods only, whole, and again once one has changed."""
    stage, driver = scene.stage, scene.driver
    driver.spelling, driver.kept = in_capitals, {"a"}
    await stage.patch(objects.GROUPS, "web", {"spec": JUDGED})
    await stage.add_pod("a", "10.0.0.1")
    await stage.add_pod("b", "10.0.0.2")
    await stage.add_pod("never", "10.0.0.3", ready=False)
    await scene.until_members("10.0.0.1:80", "10.0.0.2:80")
    assert [] == driver.of(JUDGE)

    await stage.set_pod("a", "10.0.0.1", ready=False)
    await stage.set_pod("b", "10.0.0.2", ready=False)

    await scene.until_members("10.0.0.1:80")
    held = await scene.until_says(objects.GROUPS, "web", "RemovalsHeld", "KeptByDriver")
    assert "driver plain keeps unready pod a" in held["message"]
    shown = [pod for call in driver.of(JUDGE) for pod in call.body["notReadyPods"]]
    assert {"a", "b"} == {pod["metadata"]["name"] for pod in shown}
    assert all("containers" in pod["spec"] for pod in shown)

    asked = len(driver.of(JUDGE))
    await stage.add_pod("c", "10.0.0.4")
    await _touch(scene, "never", "10.0.0.3", "still pulling")
    await scene.until_members("10.0.0.1:80", "10.0.0.4:80")
    assert asked == len(driver.of(JUDGE)), "nothing about pod a has changed"

    driver.kept = set()
    await _touch(scene, "a", "10.0.0.1", "restarted once too often")
    await scene.until_members("10.0.0.4:80")
    await scene.until_says(objects.GROUPS, "web", "RemovalsHeld", "NotHeld")


async def test_without_an_answer_the_failure_policy_decides(scene: Scene) -> None:
    """DoNothing keeps pods and says why; IfNotReady takes them out."""
    stage, driver = scene.stage, scene.driver
    await stage.patch(objects.GROUPS, "web", {"spec": JUDGED})
    await stage.add_pod("a", "10.0.0.1")
    await scene.until_members("10.0.0.1:80")
    # More than will be asked for: one answer of its own, and the driver lets the pod go.
    driver.script(JUDGE, *[{"huh": 1}] * 100)

    await stage.set_pod("a", "10.0.0.1", ready=False)

    held = await scene.until_says(objects.GROUPS, "web", "RemovalsHeld", "NotJudged")
    assert "failurePolicy DoNothing" in held["message"]
    await scene.until_says(objects.GROUPS, "web", "Ready", "DriverBadAnswer")
    driver.unscript(JUDGE)
    driver.script(JUDGE, *[{"succ": False, "msg": "no idea"}] * 100)
    await scene.until_says(objects.GROUPS, "web", "Ready", "DriverRefused")
    assert {"10.0.0.1:80"} == driver.addresses

    strict = {"driverName": "nobody", "failurePolicy": "IfNotReady"}
    await stage.patch(objects.GROUPS, "web", {"spec": {"deregisterWebhook": strict}})
    await scene.until_members()
