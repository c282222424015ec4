"""Events of single calls, as LBCF has them, where a process is told to write them."""

from collections import Counter

import pytest

from tests.compat.scene import Scene
from tests.e2e import objects


pytestmark = pytest.mark.cluster


async def _told(scene: Scene) -> Counter[tuple[str, str, str]]:
    """What has been told: kind, type and reason, with how many events."""
    events = [event.body for event in await scene.stage.listed(objects.EVENTS)]
    return Counter((e["regarding"]["kind"], e["type"], e["reason"]) for e in events)


async def _one_life(scene: Scene, *flags: str) -> Counter[tuple[str, str, str]]:
    """Register and deregister a pod, with trouble in between; return what was told."""
    stage, driver = scene.stage, scene.driver
    driver.script("ensureBackend", {"status": "Fail", "msg": "quota"})
    driver.script("ensureBackend", {"status": "Running", "msg": "request 7"})
    driver.script("deregisterBackend", {"status": "Maybe"})
    await scene.begin(*flags)
    await scene.setting()
    await stage.add_pod("a", "10.0.0.1")
    await scene.until_members("10.0.0.1:80")
    await stage.delete(objects.PODS, "a")
    await scene.until_members()

    async def last() -> bool:
        told = await _told(scene)
        return bool(told["BackendGroup", "Normal", "BackendsDeregistered"])

    await scene.until("the group's last event", last)
    for process in ("controller", "deregistrar"):
        assert 0 == await stage.processes[process].end()  # events are flushed
    return await _told(scene)


async def test_success_is_told_once_for_the_group(empty: Scene) -> None:
    """Of the record only trouble is told, under the reasons of conditions."""
    told = await _one_life(empty)

    assert 1 == told["BackendGroup", "Normal", "BackendsRegistered"]
    assert {
        ("BackendRecord", "Warning", "DriverRefused"): 1,
        ("BackendRecord", "Warning", "DriverBadAnswer"): 1,
    } == {key: n for key, n in told.items() if key[0] != "BackendGroup"}


async def test_every_answer_is_told_where_that_is_wanted(empty: Scene) -> None:
    """Under LBCF's names, trouble once and not twice; the group's own beside them."""
    told = await _one_life(empty, "--record-events")

    assert 1 == told["BackendGroup", "Normal", "BackendsRegistered"]
    assert {
        ("LoadBalancer", "Normal", "SuccCreateLoadBalancer"): 1,
        ("LoadBalancer", "Normal", "SuccEnsureLoadBalancer"): 1,
        ("BackendRecord", "Normal", "SuccGenerateAddr"): 1,
        ("BackendRecord", "Warning", "FailedEnsureBackend"): 1,
        ("BackendRecord", "Normal", "RunningEnsureBackend"): 1,
        ("BackendRecord", "Normal", "SuccEnsureBackend"): 1,
        ("BackendRecord", "Warning", "InvalidDeregister"): 1,
        ("BackendRecord", "Normal", "SuccDeregister"): 1,
    } == {key: n for key, n in told.items() if key[0] != "BackendGroup"}
