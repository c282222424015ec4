"""Who goes first when many end at once: those to whom traffic still comes."""

import asyncio

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


async def busy_at_once(world: World) -> None:
    """The same of pods with sessions, while the API server is slow to write."""
    for address in PODS.values():
        world.set_sessions(f"{address}:80", 1)
    for name, address in PODS.items():
        world.put_pod(name, address)
    await world.calm()
    world.crash_any("deregistrar", is_old=False)
    for name in PODS:
        world.drop_pod(name)
    await asyncio.sleep(1)
    world.troubles["PATCH"] = ["slow"] * 4


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


def test_slow_status_holds_up_no_first_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Drains that have to wait are written down beside the next first calls."""
    monkeypatch.setattr(process, "_WORKERS", 2 * len(PODS))
    setting = attrs.evolve(RECORD, drains=True, at_once=1)
    outcome = play(Scenario("busy-at-once", busy_at_once, {}), setting, {})
    drains = [s for s in outcome.steps if s.what.startswith("drainBackend")]
    first = drains[: len(PODS)]
    slow = [s for s in outcome.steps if s.mode == "slow" and "status" in s.what]

    assert len(PODS) == len({step.what for step in first})
    assert len(slow) >= 2
    assert first[-1].at - first[0].at < 5, "seconds of virtual time"
    assert outcome.breach is None
