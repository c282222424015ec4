"""Without the admission webhook: what the driver says of parameters, as a condition."""

import pytest

from tests.compat.scene import Scene
from tests.e2e import objects


pytestmark = pytest.mark.cluster

VALIDATE = "validateBackend"


def _of(**parameters: str | None) -> dict[str, object]:
    """A change of the group's parameters."""
    return {"spec": {"parameters": parameters}}


async def _have(scene: Scene, weight: str, *addresses: str) -> None:
    """Wait until the members are exactly these, with this weight."""

    async def there() -> bool:
        members = scene.driver.members
        weights = {parameters.get("weight") for parameters in members.values()}
        return scene.driver.addresses == set(addresses) and weights == {weight}

    await scene.until(f"{addresses} have weight {weight}", there)


async def test_refused_parameters_register_nothing(scene: Scene) -> None:
    """The group has the driver's words; mended, all goes on by itself."""
    stage, driver = scene.stage, scene.driver
    await stage.patch(objects.GROUPS, "web", _of(refuse="no such weight"))
    await stage.add_pod("a", "10.0.0.1")

    told = await scene.until_says(objects.GROUPS, "web", "Ready", "DriverRefused")

    assert "validateBackend answered Fail: no such weight" in told["message"]
    assert () == await stage.listed(objects.RECORDS)
    asked = driver.of(VALIDATE)[-1].body
    assert ("Pod", "Create") == (asked["backendType"], asked["operation"])
    assert {"name": "front"} == asked["lbInfo"]
    assert {"refuse": "no such weight"} == asked["parameters"]
    assert None is asked.get("oldParameters")

    await stage.patch(objects.GROUPS, "web", _of(refuse=None))
    await scene.until_members("10.0.0.1:80")
    await scene.until_says(objects.GROUPS, "web", "Ready", "Reconciled")


async def test_rollout_under_refused_parameters_keeps_those_of_before(
    scene: Scene,
) -> None:
    """Asked with the old ones; pods come and go, and the port that was taken out stays."""
    stage, driver = scene.stage, scene.driver
    await stage.patch(objects.GROUPS, "web", _of(weight="1"))
    await stage.add_pod("a", "10.0.0.1")
    await _have(scene, "1", "10.0.0.1:80")
    pods = {"ports": [{"port": 81}], "byLabel": {"selector": {"app": "web"}}}
    refused = _of(weight="900", refuse="too heavy")
    refused["spec"] = {"pods": pods, **refused["spec"]}  # type: ignore[dict-item]

    await stage.patch(objects.GROUPS, "web", refused)

    await scene.until_says(objects.GROUPS, "web", "Ready", "DriverRefused")
    asked = driver.of(VALIDATE)[-1].body
    assert "Update" == asked["operation"]
    assert {"weight": "1"} == asked["oldParameters"] == asked["OldParameters"]
    await stage.add_pod("b", "10.0.0.2")
    await _have(scene, "1", "10.0.0.1:80", "10.0.0.1:81", "10.0.0.2:81")
    await stage.delete(objects.PODS, "a")
    await _have(scene, "1", "10.0.0.2:81")

    await stage.patch(objects.GROUPS, "web", _of(weight="2", refuse=None))
    await _have(scene, "2", "10.0.0.2:81")


async def test_silent_driver_is_asked_again(scene: Scene) -> None:
    """No answer is no agreement; one that has agreed is not asked about each pod."""
    stage, driver = scene.stage, scene.driver
    driver.script(VALIDATE, {"what": "no answer of a driver"})
    await stage.patch(objects.GROUPS, "web", _of(weight="1"))
    await stage.add_pod("a", "10.0.0.1")

    await _have(scene, "1", "10.0.0.1:80")

    assert 2 == len(driver.of(VALIDATE))
    await stage.add_pod("b", "10.0.0.2")
    await _have(scene, "1", "10.0.0.1:80", "10.0.0.2:80")
    assert 2 == len(driver.of(VALIDATE))


async def test_bind_meets_its_drivers_word_too(scene: Scene) -> None:
    """Of a load balancer in its status, of parameters in its own condition."""
    stage, driver = scene.stage, scene.driver
    fine = objects.an_entry("fine", "plain")
    odd = objects.an_entry("odd", "plain", refuse="no such region")
    body = objects.a_bind("both", fine, odd, parameters={"refuse": "no such weight"})
    await stage.create(objects.BINDS, body)
    await stage.add_pod("a", "10.0.0.1")

    async def told() -> bool:
        bind = await stage.get(objects.BINDS, "both")
        message = "" if bind is None else bind.condition("Ready").get("message", "")
        return "validateBackend answered Fail: no such weight" in message

    async def created() -> dict[str, str]:
        bind = await stage.get(objects.BINDS, "both")
        status = {} if bind is None else bind.status
        return next(
            (
                condition
                for one in status.get("loadBalancerStatuses", ())
                for condition in one.get("conditions", ())
                if (one["name"], condition["type"], condition["reason"])
                == ("odd", "Created", "CreateFailed")
            ),
            {},
        )

    await scene.until("its parameters are refused", told)
    refused = await scene.until("its load balancer is refused", created)
    assert "False" == refused["status"]
    assert "validateLoadBalancer answered Fail: no such region" in refused["message"]
    asked = {c.body["lbSpec"]["name"] for c in driver.of("createLoadBalancer")}
    assert "odd" not in asked
    await scene.until_members("10.0.0.1:80")  # the group's, at front
    assert {"name=front"} == {name for name, _ in driver.members}

    mended = [fine, objects.an_entry("odd", "plain")]
    spec = {"loadBalancers": mended, "parameters": None}
    await stage.patch(objects.BINDS, "both", {"spec": spec})

    async def everywhere() -> bool:
        places = {name for name, _ in driver.members}
        return places == {"name=front", "name=fine", "name=odd"}

    await scene.until("the pod is everywhere", everywhere)
