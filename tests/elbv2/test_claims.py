"""What is written down of targets: it grows with addresses, and costs no more for it."""

from lbcf.sdk import Succ
from tests.elbv2.clients import (
    ADDRESS,
    a_deregister,
    a_list,
    an_ensure,
    an_identity,
)
from tests.elbv2.state import EmulatedGroup
from webhooks.elbv2.claims import Claimed, Claims
from webhooks.elbv2.decisions import Claim
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.elbv2.targets import Target
from webhooks.shared.identity import Owner


GROUP = "arn:aws:elasticloadbalancing:eu-test-1:123456789012:targetgroup/web/50dc6c49"
OWNER = Owner("record", "pool")


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
