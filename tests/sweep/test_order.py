"""Who goes first when many end at once: those to whom traffic still comes."""

import attrs
import pytest

from tests.sweep import process
from tests.sweep.objects import BACKEND, RECORD, Setting
from tests.sweep.run import Scenario, play
from tests.sweep.world import World


PODS = {f"web-{n}": f"10.0.0.{n}" for n in range(1, 9)}


async def many_at_once(world: World) -> None:
    """Pods are registered, then all deleted while nobody is there to deregister them."""
    for name, address in PODS.items():
        world.put_pod(name, address)
    await world.calm()
    world.crash_any("deregistrar", is_old=False)
    for name in PODS:
        world.drop_pod(name)


@pytest.mark.parametrize("setting", [RECORD, BACKEND], ids=["record", "backend"])
def test_every_first_call_goes_before_any_second_one(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that bears one call at a time is asked for each once, then again."""
    monkeypatch.setattr(process, "_WORKERS", 2 * len(PODS))
    setting = attrs.evolve(setting, drains=True, at_once=1)
    outcome = play(Scenario("many-at-once", many_at_once, {}), setting, {})
    calls = [step.what.split()[0] for step in outcome.steps if "Backend" in step.what]
    ends = [call for call in calls if call in {"drainBackend", "deregisterBackend"}]

    expected = ["drainBackend"] * len(PODS) + ["deregisterBackend"] * len(PODS)
    assert expected == ends
    assert outcome.breach is None
