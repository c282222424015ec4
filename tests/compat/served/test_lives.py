"""Whole lives of backends with a driver that knows LBCF's protocol alone."""

from collections import defaultdict
from typing import Any

import pytest

from tests.compat.plain import PlainDriver, as_documented, as_go_does, in_capitals
from tests.compat.scene import Scene
from tests.compat.shapes import ENSURE, GENERATE, LEAVE, SHAPES
from tests.e2e import objects


pytestmark = pytest.mark.cluster

OPERATIONS = (
    "healthz",
    "validateLoadBalancer",
    "createLoadBalancer",
    "ensureLoadBalancer",
    "deleteLoadBalancer",
    "validateBackend",
    GENERATE,
    ENSURE,
    LEAVE,
    "judgePodDeregister",
)
LISTINGS: dict[str, Any] = {
    "all": [{"name": name, "timeout": "5s"} for name in OPERATIONS],
    "some": [{"name": ENSURE, "timeout": "1m"}, {"name": "validateLoadBalancer"}],
    "none": None,
}
"""By load balancer: what its LoadBalancerDriver lists."""


def _asked(driver: PlainDriver) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Sort the questions about backends: by load balancer and by record."""
    found: dict[str, dict[str, list[dict[str, Any]]]]
    found = defaultdict(lambda: defaultdict(list))
    for call in driver.calls:
        if call.operation in {GENERATE, ENSURE, LEAVE}:
            body = {"operation": call.operation, **call.body}
            found[body["lbInfo"]["name"]][body["recordID"]].append(body)
    return found


async def _furnish(scene: Scene) -> None:
    """Make a driver, a load balancer and every type of group for each listing."""
    stage = scene.stage
    for name, listing in LISTINGS.items():
        spec = {"driverType": "Webhook", "url": scene.driver.url}
        if listing is not None:
            spec["webhooks"] = listing
        driver = {"metadata": {"name": f"driver-{name}"}, "spec": spec}
        await stage.create(objects.DRIVERS, driver)
        balancer = objects.a_load_balancer(name, driver=f"driver-{name}")
        balancer["spec"]["attributes"] = {"mode": "fast"}
        await stage.create(objects.LOAD_BALANCERS, balancer)
        for shape in SHAPES:
            await stage.create(objects.GROUPS, shape.group(name))
    for shape in SHAPES:
        await shape.begin(stage)


async def _until(scene: Scene, count: int, weight: str = "") -> None:
    """Wait until there are so many members, with this weight."""

    async def there() -> bool:
        records = await scene.stage.listed(objects.RECORDS)
        done = [
            r
            for r in records
            if r.condition("Registered").get("observedGeneration") == r.meta.generation
        ]
        weights = {p.get("weight", "") for p in scene.driver.members.values()}
        same = weights <= {weight}
        return same and count == len(done) == len(records) == len(scene.driver.members)

    await scene.until(f"{count} members of weight {weight}", there)


async def test_backends_of_every_type_live_and_end(served: Scene) -> None:
    """Asked in order, with all that is documented, whatever the driver lists.

    Answers are spelled in another way at each step.
    """
    stage, driver = served.stage, served.driver
    driver.spelling = as_documented
    refused = {"status": "Fail", "msg": "busy", "minRetryDelayInSeconds": 1}
    running = {"status": "Running", "msg": "request 7", "minRetryDelayInSeconds": 1}
    driver.script(GENERATE, refused, running)
    await _furnish(served)
    count = len(LISTINGS) * sum(len(shape.addresses) for shape in SHAPES)
    await _until(served, count, "1")

    driver.spelling = as_go_does
    for group in await stage.listed(objects.GROUPS):
        changed = {"spec": {"parameters": {"weight": "2"}}}
        await stage.patch(objects.GROUPS, group.meta.key.name, changed)
    await _until(served, count, "2")

    driver.spelling = in_capitals
    driver.script(LEAVE, running, refused)
    for shape in SHAPES:
        await shape.end(stage)
    await _until(served, 0)
    for name in LISTINGS:
        await stage.delete(objects.LOAD_BALANCERS, name)
        await served.until_gone(objects.LOAD_BALANCERS, name)

    assert {} == driver.balancers
    _check_questions(driver)


def _check_questions(driver: PlainDriver) -> None:
    """Each load balancer's records were asked about alike, and in full."""
    asked = _asked(driver)
    wanted = sorted(shape.asked for shape in SHAPES for _ in shape.addresses)
    assert set(LISTINGS) == set(asked)
    for records in asked.values():
        assert wanted == sorted(_without_retries(bodies) for bodies in records.values())
        for bodies in records.values():
            _check_life(bodies)
    others = {call.operation for call in driver.calls} - {GENERATE, ENSURE, LEAVE}
    lives = {"createLoadBalancer", "ensureLoadBalancer", "deleteLoadBalancer"}
    assert lives | {"healthz", "validateLoadBalancer", "validateBackend"} == others, (
        "nothing that LBCF does not ask"
    )


def _without_retries(bodies: list[dict[str, Any]]) -> list[str]:
    """The operations of a life, retried ones once; ensures differ by parameters."""
    steps = [(b["operation"], str(b.get("parameters"))) for b in bodies]
    return [step[0] for step in dict.fromkeys(steps)]


def _check_life(bodies: list[dict[str, Any]]) -> None:
    """What is asked about one backend says all that is documented."""
    assert len(bodies) == len({body["retryID"] for body in bodies})
    for body in bodies:
        assert False is body["dryRun"]
        assert body["parameters"]["weight"] in {"1", "2"}
        if body["operation"] == GENERATE:
            assert {"mode": "fast"} == body["lbAttributes"]
            assert "containers" in body["podBackend"]["pod"]["spec"]
            port = body["podBackend"]["port"]
            assert port["port"] == port["portNumber"] > 0
            assert "TCP" == port["protocol"]
    ensured = [body for body in bodies if body["operation"] == ENSURE]
    address, name = ensured[0]["backendAddr"], ensured[0]["lbInfo"]["name"]
    assert {} == (ensured[0]["injectedInfo"] or {})
    for body in [ensured[-1], *(b for b in bodies if b["operation"] == LEAVE)]:
        assert {"id": f"name={name}-{address}"} == body["injectedInfo"]
        assert (address, "2") == (body["backendAddr"], body["parameters"]["weight"])
