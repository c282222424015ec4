"""A load balancer that is deleted at any moment goes after the records that name it."""

import asyncio

from tests.lab.sweep.objects import RECORD
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
