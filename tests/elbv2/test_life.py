"""A member's life: registered, served, drained by AWS' own delay, gone."""

from datetime import timedelta

import pytest

from botocore.exceptions import WaiterError

from lbcf.sdk import BackendState, Running, Succ
from tests.elbv2.clients import (
    ADDRESS,
    KEY,
    a_deregister,
    a_drain,
    a_list,
    an_ensure,
    an_identity,
    somebody_else,
)
from tests.elbv2.clocks import QuickClock
from tests.elbv2.emulator import OURS, Emulator
from tests.elbv2.state import DELAY, EmulatedGroup
from webhooks.elbv2.driver import Elbv2Driver


async def states(driver: Elbv2Driver, group: EmulatedGroup) -> dict[str, BackendState]:
    """Return what the driver lists, by address."""
    answer = await driver.list_backends(a_list(an_identity(group)))
    return {one.backend_addr: one.state for one in answer.backends}


async def test_a_whole_life(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, clock: QuickClock
) -> None:
    """It is in, then draining until the delay is over, then gone; all with its port."""
    lb_info = an_identity(group)
    ensured = await driver.ensure_backend(an_ensure(lb_info))
    listed = await states(driver, group)
    again = await driver.ensure_backend(an_ensure(lb_info))
    draining = await driver.drain_backend(a_drain(lb_info))
    still = await driver.drain_backend(a_drain(lb_info))
    listed_draining = await states(driver, group)
    clock.advance(timedelta(seconds=60))
    drained = await driver.drain_backend(a_drain(lb_info))
    gone = await driver.deregister_backend(a_deregister(lb_info))

    assert {"registered": ADDRESS} == ensured.injected_info
    assert "first health checks" in (ensured.msg or "")
    assert False is ensured.in_service
    assert {ADDRESS: BackendState.ACTIVE} == listed
    assert True is again.in_service
    assert isinstance(draining, Running)
    assert isinstance(still, Running)
    assert {ADDRESS: BackendState.DRAINING} == listed_draining
    assert [Succ(msg=""), Succ(msg="")] == [drained, gone]
    assert {} == group.targets
    assert [8080] == [
        one.port for call in emulator.made("DeregisterTargets") for one in call.targets
    ]


async def test_others_see_the_same(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, clock: QuickClock
) -> None:
    """AWS' own client sees the target in, draining, and unused."""
    lb_info = an_identity(group)
    target = {"Id": KEY[0], "Port": KEY[1]}
    seen = []
    async with somebody_else(emulator) as client:

        async def look() -> None:
            """Read its health."""
            answer = await client.describe_target_health(
                TargetGroupArn=group.arn,
                Targets=[target],  # type: ignore[list-item]
            )
            health = answer["TargetHealthDescriptions"][0]["TargetHealth"]
            seen.append((health["State"], health.get("Reason", "")))

        await driver.ensure_backend(an_ensure(lb_info))
        await look()
        await driver.drain_backend(a_drain(lb_info))
        await look()
        clock.advance(timedelta(seconds=60))
        await look()

    assert [
        ("healthy", ""),
        ("draining", "Target.DeregistrationInProgress"),
        ("unused", "Target.NotRegistered"),
    ] == seen


async def test_others_can_wait_for_the_end(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, clock: QuickClock
) -> None:
    """The waiter of AWS' own client ends when the delay is over, and not before."""
    target = {"Id": KEY[0], "Port": KEY[1]}
    lb_info = an_identity(group)
    await driver.ensure_backend(an_ensure(lb_info))
    await driver.drain_backend(a_drain(lb_info))
    clock.stop()
    async with somebody_else(emulator) as client:

        async def wait() -> None:
            """Look once."""
            await client.get_waiter("target_deregistered").wait(
                TargetGroupArn=group.arn,
                Targets=[target],  # type: ignore[list-item]
                WaiterConfig={"Delay": 0, "MaxAttempts": 1},
            )

        clock.advance(timedelta(seconds=55))
        with pytest.raises(WaiterError, match="Max attempts exceeded"):
            await wait()
        clock.advance(timedelta(seconds=5))
        await wait()


async def test_others_are_told_what_is_wrong(emulator: Emulator) -> None:
    """Errors of the emulator are AWS' own types in AWS' own client."""
    async with somebody_else(emulator) as client:
        with pytest.raises(client.exceptions.TargetGroupNotFoundException):
            await client.describe_target_groups(Names=["nobodys"])


async def test_ensured_after_its_drain(
    driver: Elbv2Driver, group: EmulatedGroup
) -> None:
    """A member that is wanted again while it drains is registered again."""
    lb_info = an_identity(group)
    await driver.ensure_backend(an_ensure(lb_info))
    await driver.drain_backend(a_drain(lb_info))

    await driver.ensure_backend(an_ensure(lb_info))

    assert {KEY: OURS} == group.owners


async def test_old_readings_do_not_hide_own_changes(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """However long readings are kept: what was changed since is read anew."""
    driver.load_balancers.fresh = timedelta(hours=1)
    group.attributes[DELAY] = "0"
    lb_info = an_identity(group)
    before = await states(driver, group)
    await driver.ensure_backend(an_ensure(lb_info))
    within = await states(driver, group)
    drained = await driver.drain_backend(a_drain(lb_info))
    polls = len(emulator.calls)
    after = [await states(driver, group) for _ in range(3)]

    assert {} == before
    assert {ADDRESS: BackendState.ACTIVE} == within
    assert Succ(msg="") == drained
    assert [{}] * 3 == after
    assert polls == len(emulator.calls)


async def test_deregistered_at_its_deadline(
    driver: Elbv2Driver, group: EmulatedGroup
) -> None:
    """Once AWS sends nothing new there, nobody waits for the rest of the delay."""
    lb_info = an_identity(group)
    await driver.ensure_backend(an_ensure(lb_info))
    await driver.drain_backend(a_drain(lb_info))

    answer = await driver.deregister_backend(a_deregister(lb_info))

    assert Succ(msg="") == answer
    assert "draining" == group.health(KEY)[0]
    assert {} == await states(driver, group)


async def test_two_ports_of_one_address(
    driver: Elbv2Driver, group: EmulatedGroup
) -> None:
    """They are two members: one leaves, the other stays."""
    lb_info = an_identity(group)
    await driver.ensure_backend(an_ensure(lb_info, "198.18.0.1:80", "one"))
    await driver.ensure_backend(an_ensure(lb_info, "198.18.0.1:81", "two"))

    await driver.deregister_backend(a_deregister(lb_info, "198.18.0.1:80", "one"))

    assert [("198.18.0.1", 81)] == list(group.owners)


async def test_the_only_one_stays_while_another_starts(
    driver: Elbv2Driver, group: EmulatedGroup, clock: QuickClock
) -> None:
    """A rollout of one replica: the old one serves until the new one has its checks."""
    lb_info = an_identity(group)
    await driver.ensure_backend(an_ensure(lb_info))
    group.first_checks = timedelta(seconds=10)
    clock.advance(timedelta(seconds=10))
    await driver.ensure_backend(an_ensure(lb_info, "198.18.0.2:8080", "new"))
    clock.stop()

    early = await driver.drain_backend(a_drain(lb_info))
    in_early = set(group.owners)
    clock.advance(timedelta(seconds=10))
    await driver.drain_backend(a_drain(lb_info))

    assert isinstance(early, Running)
    assert "serves until" in (early.msg or "")
    assert KEY in in_early
    assert [("198.18.0.2", 8080)] == list(group.owners)


async def test_a_target_group_that_nobody_uses(
    driver: Elbv2Driver, group: EmulatedGroup
) -> None:
    """Its targets are unused, which is no error and is not waited for."""
    group.in_use = False
    lb_info = an_identity(group)

    first = await driver.ensure_backend(an_ensure(lb_info))
    second = await driver.ensure_backend(an_ensure(lb_info))

    assert isinstance(first, Succ)
    assert "no listener uses the target group yet" == second.msg
    listed = await driver.list_backends(a_list(lb_info))
    assert [(ADDRESS, BackendState.DOWN, "unused Target.NotInUse")] == [
        (one.backend_addr, one.state, one.reason) for one in listed.backends
    ]
