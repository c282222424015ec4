"""Load balancers that are deleted, and perhaps made again, while records name them."""

import asyncio

from typing import cast

import pytest

from tests.kube.tiny_rules import Json
from tests.lab.sweep import objects
from tests.lab.sweep.objects import BACKEND, RECORD
from tests.lab.sweep.run import Scenario, play
from tests.lab.sweep.stage import ONE, begin
from tests.lab.sweep.world import World


def test_record_that_is_being_created_ends_before_its_load_balancer() -> None:
    """Whatever is under way for the load balancer's first pod when it is deleted."""
    created = 0
    for moment in range(120):

        async def script(world: World, after: float = moment / 1000) -> None:
            """Delete it so long after the pod came."""
            await begin(world)
            world.put_pod("web-1", ONE)
            await asyncio.sleep(after)
            world.end_load_balancer()

        outcome = play(Scenario("ends", script, {}, settle=60, quiet=10), RECORD, {})

        assert outcome.breach is None, (moment, outcome.ending)
        steps = [step.what for step in outcome.steps]
        created += any(
            what.startswith("POST") and what.endswith("backendrecords")
            for what in steps
        )
        assert any(what.startswith("deleteLoadBalancer") for what in steps)
    assert 0 < created < 120


@pytest.mark.parametrize("target", [None, "other", "front"])
def test_record_takes_no_lock_by_another_load_balancers_key(target: str | None) -> None:
    """Its address would be in use under the key of the one that it names.

    Two objects stand for one load balancer; the one whose record waits for the address
    is removed by force, and perhaps made again as something else.
    """

    async def script(world: World) -> None:
        """Let it wait meanwhile, then remove its group's wish."""
        world.put_load_balancer("side", target="front")
        world.put_group(loadBalancers=["side"])
        await begin(world, ONE)
        world.put_group("api", loadBalancers=["front"])
        await asyncio.sleep(3)
        world.drop_load_balancer("front")
        await asyncio.sleep(20)
        if target is not None:
            world.put_load_balancer(target=target, created=False)
            await asyncio.sleep(20)
        world.put_group("api", loadBalancers=[])

    outcome = play(Scenario("keys", script, {}, settle=120, quiet=10), BACKEND, {})

    assert outcome.breach is None, outcome.ending


def test_record_that_its_group_cannot_end_takes_no_lock_by_such_a_key() -> None:
    """What was made in its load balancer's place has a driver that does not exist.

    So its group decides nothing about it, and it waits for its address until somebody
    puts that right.
    """

    async def script(world: World) -> None:
        """Let it wait meanwhile, then remove its group's wish."""
        world.put_load_balancer("side", target="front")
        world.put_group(loadBalancers=["side"])
        await begin(world, ONE)
        world.put_group("api", loadBalancers=["front"])
        await asyncio.sleep(3)
        world.drop_load_balancer("front")
        made_anew = objects.load_balancer("other", driver="missing")
        status = {**cast("Json", made_anew["status"]), "lockKeys": ["key:other"]}
        world.api.put(
            objects.load_balancer_path("front"), made_anew | {"status": status}
        )
        await asyncio.sleep(20)
        world.put_group("api", loadBalancers=[])

    outcome = play(Scenario("missing", script, {}, settle=120, quiet=10), BACKEND, {})

    assert outcome.breach is None, outcome.ending
