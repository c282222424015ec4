"""What a person lets go of by the annotation `abandon`: with a reason, and only then."""

import asyncio

import pytest

from lbcf.core.model.names import ANNOTATION_ABANDON
from tests.lab.sweep.objects import RECORD
from tests.lab.sweep.run import Scenario, play
from tests.lab.sweep.stage import begin
from tests.lab.sweep.world import World


@pytest.mark.parametrize(
    ("why", "calls"), [("", 1), (" ", 1), ("it was scrapped", 0)], ids=repr
)
def test_load_balancer_is_let_go_for_a_reason_alone(why: str, calls: int) -> None:
    """Without one its driver deletes it, as it deregisters a record's member."""

    async def script(world: World) -> None:
        """Delete it with the annotation."""
        await begin(world)
        world.put_group(loadBalancers=[])
        await asyncio.sleep(1)
        world.end_load_balancer(annotations={ANNOTATION_ABANDON: why})

    outcome = play(Scenario("abandon", script, {}, settle=60, quiet=10), RECORD, {})

    deletes = [s for s in outcome.steps if s.what.startswith("deleteLoadBalancer")]
    assert outcome.breach is None
    assert calls == len(deletes)
