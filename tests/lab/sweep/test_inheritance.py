"""One lock that cannot be had, for a record of LBCF in Go, holds up its address alone."""

import asyncio

from typing import cast

import pytest

from tests.kube.tiny_rules import Json
from tests.lab.sweep.balancer import Member
from tests.lab.sweep.loop import BusyLoop
from tests.lab.sweep.objects import DRIVER, RECORD, load_balancer, load_balancer_path
from tests.lab.sweep.run import prepare
from tests.lab.sweep.stage import ONE, TWO, begin
from tests.lab.sweep.world import World


LEASES = "POST /apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEGACY = "/apis/lbcf.tkestack.io/v1beta1/namespaces/shop/backendrecords/legacy"


def legacy() -> dict[str, object]:
    """Make a record as LBCF in Go wrote it, of a pod that is gone."""
    owner = {"kind": "BackendGroup", "name": "old", "uid": "uid-of-old"}
    return {
        "metadata": {
            "generation": 1,
            "finalizers": ["lbcf.tkestack.io/deregister-backend"],
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "lbName": "front",
            "lbDriver": "proxy",
            "lbInfo": {"id": "front"},
            "podBackend": {"name": "old-1", "uid": "", "port": {"port": 80}},
        },
        "status": {
            "backendAddr": f"{ONE}:80",
            "conditions": [{"type": "Registered", "status": "True"}],
        },
    }


async def registered_after(
    seconds: float, failures: int, keys: list[str]
) -> tuple[set[str], str]:
    """Let pods come while a lock cannot be had; who is in then, and who has the lock."""
    world = World(DRIVER, {})
    prepare(world)
    front = load_balancer()
    status = {**cast("Json", front["status"]), "lockKeys": keys}
    world.api.put(load_balancer_path("front"), front | {"status": status})
    world.put_driver("second", "http://second.test", RECORD)
    world.put_load_balancer("back", driver="second")
    world.balancer.members["legacy"] = Member("id=front", f"{ONE}:80", "", {})
    world.api.put(LEGACY, legacy())
    world.put_group(loadBalancers=["front", "back"])
    world.troubles[LEASES] = ["5xx"] * failures
    world.start("controller")
    await begin(world)
    world.put_pod("web-1", ONE)
    world.put_pod("web-2", TWO)
    await asyncio.sleep(seconds)
    found = {
        f"{seen.lb_name}: {seen.address}"
        for seen in world.oracle.records.values()
        if seen.is_current and seen.name != "legacy"
    }
    held = [
        str(whole["spec"])
        for path, whole in world.api.objects.items()
        if "/leases/addr-" in path
    ]
    breach = world.breach
    await world.close()
    assert breach is None
    return found, "".join(held)


def ran(
    seconds: float, failures: int, keys: list[str] | None = None
) -> tuple[set[str], str]:
    """Run it in virtual time."""
    loop = BusyLoop()
    try:
        return loop.run_until_complete(registered_after(seconds, failures, keys or []))
    finally:
        loop.close()


def test_who_needs_no_lock_does_not_wait_for_one() -> None:
    """A Lease fails for good: after a while members that need none are registered."""
    found, _ = ran(60, failures=1000)

    assert found == {f"back: {ONE}:80", f"back: {TWO}:80"}


@pytest.mark.parametrize("keys", [[], ["key:front"]], ids=["unkeyed", "keyed"])
@pytest.mark.parametrize("failures", [11, 12, 14, 18, 20, 26, 30])
def test_address_is_its_old_holders_as_soon_as_it_can_be(
    failures: int, keys: list[str]
) -> None:
    """Nobody else gets its lock first: the end of the old record would take it away.

    That the key of its load balancer is not known yet keeps others from it, too.
    """
    found, held = ran(120, failures, keys)

    assert found == {f"back: {ONE}:80", f"back: {TWO}:80", f"front: {TWO}:80"}
    assert "shop/legacy/" in held
