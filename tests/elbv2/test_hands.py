"""Other people work in the account, too: what becomes of members, and what is said."""

from datetime import timedelta

import pytest

from lbcf.sdk import Fail, Succ
from tests.elbv2.clients import (
    KEY,
    a_deregister,
    a_drain,
    a_list,
    an_ensure,
    an_identity,
)
from tests.elbv2.clocks import QuickClock
from tests.elbv2.conftest import MakeDriver
from tests.elbv2.emulator import THEIRS, Emulator
from tests.elbv2.state import ApiError, EmulatedGroup
from tests.elbv2.test_faults import HASTY, answered, told, until_unanswered
from webhooks.elbv2.driver import Elbv2Driver


async def test_a_target_group_that_is_gone(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """There is nothing to take out, and nothing to be put into."""
    lb_info = an_identity(group)
    await driver.ensure_backend(an_ensure(lb_info))
    del emulator.groups[group.arn]

    drained = await driver.drain_backend(a_drain(lb_info))
    await driver.deregister_backend(a_deregister(lb_info))
    said = await told(driver, group)

    assert "target group web is gone" == drained.msg
    assert isinstance(said, Fail)
    assert "was it deleted or replaced?" in said.msg


async def test_an_instance_that_is_gone(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """AWS cannot find what is to be taken out: then it is out."""
    lb_info = an_identity(group)
    await driver.ensure_backend(an_ensure(lb_info))
    group.targets.clear()
    emulator.fail("DeregisterTargets", ApiError("InvalidTarget", "no such target"))

    answer = await driver.deregister_backend(a_deregister(lb_info))

    assert Succ(msg="") == answer


async def test_a_target_that_aws_does_not_let_go(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """As long as it is seen in, it is not taken for out."""
    lb_info = an_identity(group)
    await driver.ensure_backend(an_ensure(lb_info))
    emulator.fail("DeregisterTargets", ApiError("InvalidTarget", "no such target"))

    with pytest.raises(Fail, match="InvalidTarget"):
        await driver.deregister_backend(a_deregister(lb_info))
    await driver.deregister_backend(a_deregister(lb_info))

    assert {} == group.owners


async def test_taken_out_again_and_again(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, clock: QuickClock
) -> None:
    """Whoever does so keeps all records busy once in half a minute, not each time."""
    lb_info = an_identity(group)
    group.attributes["deregistration_delay.timeout_seconds"] = "0"
    epochs = []
    for pause in (0, 0, 31):
        await driver.ensure_backend(an_ensure(lb_info))
        clock.advance(timedelta(seconds=1))
        await driver.list_backends(a_list(lb_info))
        group.deregister(emulator.made("RegisterTargets")[0].targets)
        clock.advance(timedelta(seconds=1 + pause))
        epochs.append((await driver.list_backends(a_list(lb_info))).epoch)

    assert ["1", "1", "2"] == [epoch.rpartition("/")[2] for epoch in epochs]


async def test_theirs_after_a_drain_that_nobody_answered(
    make_driver: MakeDriver, emulator: Emulator, group: EmulatedGroup, clock: QuickClock
) -> None:
    """Once ours was seen leaving, what is there later is somebody else's."""
    driver, lb_info = make_driver(answering=HASTY), an_identity(group)
    ensure, drain, leave = an_ensure(lb_info), a_drain(lb_info), a_deregister(lb_info)
    await answered(lambda: driver.ensure_backend(ensure))
    emulator.mute.add("DeregisterTargets")
    await until_unanswered(lambda: driver.drain_backend(drain), "DeregisterTargets")
    emulator.mute.clear()
    await answered(lambda: driver.drain_backend(drain))
    clock.advance(timedelta(seconds=61))
    emulator.register(group, KEY)

    await answered(lambda: driver.deregister_backend(leave))

    assert {KEY: THEIRS} == group.owners
