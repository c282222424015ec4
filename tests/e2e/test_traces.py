"""What a test's processes did is followed in the model; what they did not do is refused."""

import importlib

import pytest

from tests.e2e.left_out import LEFT_OUT
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


@pytest.mark.parametrize("left_out", LEFT_OUT)
def test_who_is_left_out_exists(left_out: str) -> None:
    """Each is a module, or a test in one; the reason is told."""
    module, _, test = left_out.partition("::")
    found = importlib.import_module(f"tests.e2e.{module}")

    assert not test or callable(getattr(found, test.partition("[")[0]))
    assert LEFT_OUT[left_out]
