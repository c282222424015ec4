"""What a test's processes did is followed in the model; what they did not do is refused."""

import pytest

from tests.e2e.stage import Stage
from tests.e2e.traces import follow, taken
from tests.lab.traced.corruptions import CORRUPTIONS, see_refused


@pytest.mark.cluster
async def test_real_life_is_followed(stage: Stage) -> None:
    """Its tape is allowed, and refused at the step that is put elsewhere."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await stage.control("sessions", backendAddr="10.0.0.1:80", sessions=3)
    await stage.terminate_pod("a")
    await stage.until_reason("Drained", "Draining")
    await stage.control("sessions", backendAddr="10.0.0.1:80", sessions=0)
    await stage.until_registered()
    await stage.halt()

    verdict = await follow(stage)

    assert 10 < verdict.steps
    tape = await taken(stage)
    for corrupted, why in CORRUPTIONS:
        see_refused(tape, corrupted, why)
