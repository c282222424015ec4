"""What is written down of targets: what it costs, and what becomes of members without it."""

from pathlib import Path

import pytest

from lbcf.conformance.kit import CATALOGUE
from lbcf.sdk import Succ
from tests.conformance.stages import complaints, results_of
from tests.elbv2.clients import (
    ADDRESS,
    a_deregister,
    a_list,
    an_ensure,
    an_identity,
)
from tests.elbv2.clocks import QuickClock
from tests.elbv2.conftest import MakeDriver
from tests.elbv2.emulator import Emulator
from tests.elbv2.rig import ForgetfulRig
from tests.elbv2.state import EmulatedGroup
from tests.webhooks.test_conformance import target_of
from webhooks.elbv2.claims import IN_MEMORY, Claimed, Claims
from webhooks.elbv2.decisions import Claim
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.elbv2.targets import Target
from webhooks.shared.identity import Owner


GROUP = "arn:aws:elasticloadbalancing:eu-test-1:123456789012:targetgroup/web/50dc6c49"
OWNER = Owner("record", "pool")


CUT = {"restart-in-the-middle", "batch-killed-in-the-middle"}
"""Rules on registrations that are under way when the driver is killed."""


def targets(first: int, number: int) -> list[Target]:
    """Return so many targets."""
    return [Target(f"198.18.{n // 256}.{n % 256}", 80) for n in range(first, number)]


def effort(claims: Claims) -> int:
    """Return how many steps the database takes to tell what is ours in the group."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    rows = claims._rows  # noqa: SLF001  (no clock tells what it costs)
    rows.set_progress_handler(count, 1)
    claims.of_group(GROUP)
    rows.set_progress_handler(None, 0)
    return steps


def test_those_that_are_through_cost_listings_nothing() -> None:
    """Pods come and go at ever new addresses; a list is as long as what is there."""
    claims = Claims()
    held = {target: Claimed(Claim.SEEN, OWNER) for target in targets(0, 3)}
    claims.put(GROUP, held)
    before = effort(claims)
    claims.put(GROUP, dict.fromkeys(targets(3, 2000), Claimed(Claim.DONE, OWNER)))

    assert held == claims.of_group(GROUP)
    assert before == effort(claims)


async def test_a_call_that_is_repeated_finds_its_claim(
    driver: Elbv2Driver, group: EmulatedGroup
) -> None:
    """It is not listed, and known all the same: what is there since is somebody else's."""
    lb_info = an_identity(group)
    proof = (await driver.ensure_backend(an_ensure(lb_info))).injected_info
    leave = a_deregister(lb_info, injected_info=proof)
    await driver.deregister_backend(leave)
    listed = await driver.list_backends(a_list(lb_info))
    await driver.ensure_backend(an_ensure(lb_info, ADDRESS, "another"))

    answer = await driver.deregister_backend(leave)

    assert not listed.backends
    assert isinstance(answer, Succ)
    assert 1 == len(group.owners)


async def test_claims_in_memory_keep_to_the_protocol(tmp_path: Path) -> None:
    """All rules but of what a crash cuts: nobody knows then whose the target is."""
    rules = [one for one in CATALOGUE if one.name not in CUT]
    async with ForgetfulRig.running(tmp_path) as rig, target_of(rig) as target:
        results = await results_of(target, rules)
        left = await rig.left()

    assert {} == complaints(results)
    assert [] == left


@pytest.mark.parametrize("is_lost", [True, False])
async def test_lost_claims_are_another_epoch(
    make_driver: MakeDriver,
    emulator: Emulator,
    group: EmulatedGroup,
    tmp_path: Path,
    *,
    is_lost: bool,
) -> None:
    """All are ensured again then: listed once more, and nothing is sent for it."""
    lb_info = an_identity(group)
    file = IN_MEMORY if is_lost else str(tmp_path / "claims")
    driver = make_driver(file)
    ensured = await driver.ensure_backend(an_ensure(lb_info))
    before = await driver.list_backends(a_list(lb_info))
    await driver.stop()
    driver = make_driver(file)

    found = await driver.list_backends(a_list(lb_info))
    await driver.ensure_backend(
        an_ensure(lb_info, injected_info=dict(ensured.injected_info or {}))
    )
    after = await driver.list_backends(a_list(lb_info))

    assert is_lost == (before.epoch != found.epoch)
    assert is_lost == (not found.backends)
    assert found.epoch == after.epoch
    assert before.backends == after.backends
    assert 1 == len(emulator.made("RegisterTargets"))


def test_a_machine_that_went_down_is_another_epoch(
    clock: QuickClock, tmp_path: Path
) -> None:
    """It may have taken the last that was written with it; a process that ends does not."""
    names = []
    for boot in ("one", "one", "another"):
        clock.boot = boot
        with Claims(str(tmp_path / "claims"), clock) as claims:
            names.append(claims.memory)

    assert names[0] == names[1]
    assert names[1] != names[2]
