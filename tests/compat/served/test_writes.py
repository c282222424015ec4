"""What a lifecycle costs at the API server, from its audit log."""

import asyncio

import pytest

from tests.compat.scene import Scene
from tests.e2e import objects


pytestmark = pytest.mark.cluster

LIVES = 40
MOST = 6.2
OWN = {"backendrecords", "leases"}
LEADING = {"lbcf-controller", "lbcf-deregistrar"}


async def test_writes_per_lifecycle_of_a_driver_that_finds_addresses(
    scene: Scene,
) -> None:
    """Six for each record, its lock among them.

    What is told of the group is gathered by time, so that a slow machine writes more of
    it: that is printed, and not compared.
    """
    stage = scene.stage
    await scene.until_says(
        objects.LOAD_BALANCERS, "front", "AttributesSynced", "AttributesSynced"
    )
    began = len(stage.cluster.audit())
    hosts = [f"10.0.{n // 250}.{n % 250 + 1}" for n in range(LIVES)]
    pods = [f"web-{number}" for number in range(LIVES)]
    await asyncio.gather(*map(stage.add_pod, pods, hosts))
    await scene.until_members(*(f"{host}:80" for host in hosts))
    await asyncio.gather(*(stage.delete(objects.PODS, pod) for pod in pods))
    await scene.until_members()

    async def told() -> bool:
        group = await stage.get(objects.GROUPS, "web")
        assert group is not None
        status = group.body["status"]
        return (0, 0) == (status["registeredBackends"], status["draining"])

    await scene.until("the group has told the end", told)
    after = _written(scene, began)
    own = sum(n for what, n in after.items() if what.split()[1].split("/")[0] in OWN)
    whole = sum(after.values())
    print(f"{own / LIVES:.2f} writes per lifecycle, {whole / LIVES:.2f} with all else")
    print(f"{LIVES} lifecycles: {after}")
    assert 6 <= own / LIVES <= MOST, after


def _written(scene: Scene, began: int) -> dict[str, int]:
    """Count what was written here, and the locks, but not the Leases of leaders."""
    assert scene.pair is not None
    found: dict[str, int] = {}
    for event in scene.stage.cluster.audit()[began:]:
        here = event.namespace == scene.stage.namespace or event.resource == "leases"
        if not (event.is_write and event.user in scene.pair.users and here):
            continue
        if event.name not in LEADING:
            what = f"{event.verb} {event.resource}"
            found[what] = found.get(what, 0) + 1
    return found
