"""Who goes first when many end at once: those to whom traffic still comes."""

import asyncio

import attrs
import pytest

from tests.lab.sweep.objects import BACKEND, RECORD, Setting
from tests.lab.sweep.run import Scenario, Script, play
from tests.lab.sweep.world import World


PODS = {f"web-{n}": f"10.0.0.{n}" for n in range(1, 9)}
_WORKERS = 2 * len(PODS)


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


async def rollout(world: World) -> None:
    """A pod goes while its successors' records are being made, which takes long."""
    world.put_pod("web-1", PODS["web-1"])
    await world.calm()
    world.troubles["POST"] = ["slow"] * 2
    for name in ("web-2", "web-3"):
        world.put_pod(name, PODS[name])
    await asyncio.sleep(1)
    world.drop_pod("web-1")


async def stillborn(world: World) -> None:
    """Two pods go while their records are being made, one of which takes longer."""
    world.troubles["POST"] = ["slow"]
    for name in ("web-1", "web-2"):
        world.put_pod(name, PODS[name])
    await world.until(lambda: any("POST" in step.what for step in world.steps))
    for name in ("web-1", "web-2"):
        world.drop_pod(name)


@pytest.mark.parametrize("script", [rollout, stillborn])
def test_who_goes_does_not_wait_for_who_comes(script: Script) -> None:
    """The removal is sent while the group's turn still waits for its creates."""
    outcome = play(Scenario("rollout", script, {}), RECORD, {})
    slow = [step for step in outcome.steps if step.mode == "slow"]
    removal = next(step for step in outcome.steps if step.what.startswith("DELETE"))

    assert slow
    assert 0 < removal.at - slow[0].at < 5, "seconds of virtual time"
    assert outcome.breach is None


@pytest.mark.parametrize("setting", [RECORD, BACKEND], ids=["record", "backend"])
def test_every_first_call_goes_before_any_second_one(setting: Setting) -> None:
    """A driver that bears one call at a time is asked for each once, then again."""
    setting = attrs.evolve(setting, drains=True, at_once=1, workers=_WORKERS)
    outcome = play(Scenario("many-at-once", many_at_once, {}), setting, {})
    calls = [step.what.split()[0] for step in outcome.steps if "Backend" in step.what]
    ends = [call for call in calls if call in {"drainBackend", "deregisterBackend"}]

    expected = ["drainBackend"] * len(PODS) + ["deregisterBackend"] * len(PODS)
    assert expected == ends
    assert outcome.breach is None


def test_slow_status_holds_up_no_first_call() -> None:
    """Drains that have to wait are written down beside the next first calls."""
    setting = attrs.evolve(RECORD, drains=True, at_once=1, workers=_WORKERS)
    outcome = play(Scenario("busy-at-once", busy_at_once, {}), setting, {})
    drains = [s for s in outcome.steps if s.what.startswith("drainBackend")]
    first = drains[: len(PODS)]
    slow = [s for s in outcome.steps if s.mode == "slow" and "status" in s.what]

    assert len(PODS) == len({step.what for step in first})
    assert len(slow) >= 2
    assert first[-1].at - first[0].at < 5, "seconds of virtual time"
    assert outcome.breach is None
