"""Where clients reach a load balancer: the name of whatever its target groups are behind."""

import pytest

from lbcf.sdk import (
    CreateLoadBalancerRequest,
    EnsureLoadBalancerRequest,
    Ingress,
    RetryAfter,
)
from tests.elbv2.clients import RECORD, an_identity
from tests.elbv2.clocks import QuickClock
from tests.elbv2.emulator import Emulator
from tests.elbv2.state import REGION, ApiError, EmulatedBalancer, EmulatedGroup
from webhooks.elbv2.driver import Elbv2Driver


FRONT = EmulatedBalancer("Front", "Front-42.elb.eu-test-1.amazonaws.com")
BACK = EmulatedBalancer("back", "back-43.elb.eu-test-1.amazonaws.com")


def a_create(groups: str = "web") -> CreateLoadBalancerRequest:
    """Return a request to create a load balancer."""
    spec = {"region": REGION, "targetGroups": groups}
    return CreateLoadBalancerRequest(record_id=RECORD, lb_spec=spec)


def an_ensure(*groups: EmulatedGroup) -> EnsureLoadBalancerRequest:
    """Return a request to ensure it."""
    info = an_identity(*groups)
    return EnsureLoadBalancerRequest(record_id=RECORD, lb_info=info)


async def test_the_name_of_the_load_balancer(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """It is told when created and when ensured, in small letters as DNS has it."""
    emulator.attach(FRONT, group)
    emulator.attach(BACK)
    created = await driver.create_load_balancer(a_create())
    ensured = await driver.ensure_load_balancer(an_ensure(group))

    assert [Ingress(hostname=FRONT.dns_name.lower())] == created.ingress
    assert created.ingress == ensured.ingress


async def test_target_groups_of_two(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, clock: QuickClock
) -> None:
    """Each load balancer is told once, whichever of the target groups is behind it."""
    others = [emulator.add(EmulatedGroup(clock, name)) for name in ("red", "blue")]
    emulator.attach(FRONT, group, others[0])
    emulator.attach(BACK, others[1])
    created = await driver.create_load_balancer(a_create("web,red,blue"))

    names = {one.hostname for one in created.ingress or ()}
    assert {FRONT.dns_name.lower(), BACK.dns_name} == names
    assert 2 == len(created.ingress or ())
    assert 1 == len(emulator.made("DescribeLoadBalancers"))


async def test_none_is_attached(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """Nothing is told, those of other people least of all, until one is."""
    emulator.attach(BACK)
    created = await driver.create_load_balancer(a_create())
    asked = emulator.made("DescribeLoadBalancers")
    emulator.attach(FRONT, group)
    ensured = await driver.ensure_load_balancer(an_ensure(group))

    assert [] == created.ingress
    assert [] == asked
    assert [Ingress(hostname=FRONT.dns_name.lower())] == ensured.ingress


async def test_one_that_goes_meanwhile(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """It is deleted between the two calls: they are made again."""
    emulator.attach(FRONT, group)
    emulator.balancers.clear()

    with pytest.raises(RetryAfter, match="it is looked up again"):
        await driver.create_load_balancer(a_create())


async def test_a_role_that_may_not_ask(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """It keeps nobody from being served: what was known stays, and why is told."""
    emulator.attach(FRONT, group)
    emulator.fail("DescribeLoadBalancers", ApiError("AccessDenied", "no", 403))
    created = await driver.create_load_balancer(a_create())

    assert created.ingress is None
    assert created.lb_info
    assert "DescribeLoadBalancers with AccessDenied" in (created.msg or "")


async def test_too_many_calls(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """They are waited out, as with all others."""
    emulator.attach(FRONT, group)
    emulator.fail("DescribeLoadBalancers", ApiError("Throttling", "slower"))

    with pytest.raises(RetryAfter, match="Throttling"):
        await driver.ensure_load_balancer(an_ensure(group))
