"""A member that another record owns is not taken over, however its pool is spelled."""

import ipaddress

from collections.abc import Callable

import attrs
import pytest

from lbcf.sdk import CreateLoadBalancerRequest, Fail
from tests.f5.requests import MEMBER, WEB, an_ensure, an_identity
from tests.f5.server import Bigip
from tests.webhooks.requests import RECORD, a_deregister, a_drain
from tests.webhooks.tenants import check_fence
from webhooks.device.devices import AllowedDevices
from webhooks.f5.driver import F5Driver
from webhooks.f5.load_balancers import parse_identity
from webhooks.shared.reach import AllowedAddresses


OTHER = "0f6ad1f4-3a52-4f0c-8d7e-77a1c2b3d4e5"
"""The uid of somebody else's record."""

Pair = tuple[Bigip, Bigip]


def _alone(pair: Pair) -> dict[str, str]:
    """Name the active unit alone."""
    return an_identity(pair[0])


def _alone_with_group(pair: Pair) -> dict[str, str]:
    """Name it with a device group, too."""
    return an_identity(pair[0], syncGroup="/Common/failover")


@pytest.mark.parametrize("spell", [_alone, _alone_with_group])
async def test_a_member_of_another_load_balancer_stays(
    driver: F5Driver, pair: Pair, spell: Callable[[Pair], dict[str, str]]
) -> None:
    """It is neither taken over nor taken out by who names the pool otherwise."""
    await driver.ensure_backend(an_ensure(an_identity(*pair)))
    other = spell(pair)

    with pytest.raises(Fail, match=f"registered for record {RECORD} by a load bal"):
        await driver.ensure_backend(an_ensure(other, record=OTHER))
    await driver.deregister_backend(a_deregister(other, record=OTHER))

    assert RECORD in str(pair[0].unit.member(WEB, MEMBER)["description"])


async def test_the_next_owner_of_the_same_pool_takes_over(
    driver: F5Driver, pair: Pair
) -> None:
    """Its lock says that the record before it is gone, whatever was left of it."""
    await driver.ensure_backend(an_ensure(an_identity(*pair)))
    same = an_identity(*reversed(pair), syncGroup="/Common/failover")

    await driver.ensure_backend(an_ensure(same, record=OTHER))

    assert OTHER in str(pair[0].unit.member(WEB, MEMBER)["description"])


async def test_one_pool_has_one_key(driver: F5Driver, pair: Pair) -> None:
    """Order, defaults and what devices are brought up to date by do not matter."""
    one = an_identity(*pair)
    two = an_identity(*reversed(pair), syncGroup="failover", routeDomain="0") | {
        "pool": "web"
    }

    keys = {parse_identity(fields).lock_key for fields in (one, two)}
    answers = [
        await driver.create_load_balancer(
            CreateLoadBalancerRequest(record_id=RECORD, lb_spec=fields)
        )
        for fields in (one, an_identity(*reversed(pair)))
    ]

    assert 1 == len(keys)
    assert parse_identity(an_identity(pair[0])).lock_key not in keys
    assert answers[0].lb_info == answers[1].lb_info


async def test_a_copy_of_a_shared_load_balancer_gets_nothing_in(
    driver: F5Driver, bigip: Bigip
) -> None:
    """An lbSpec that was read elsewhere opens no pool, but what is in it can go."""
    driver.load_balancers.allowed = AllowedDevices((f"{bigip.url}=kube-system",))
    lb_info = an_identity(bigip)

    await check_fence(driver, lb_info, an_ensure(lb_info))
    await driver.drain_backend(a_drain(lb_info))
    await driver.deregister_backend(a_deregister(lb_info))

    assert {} == bigip.unit.running.pool(WEB).members


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:80", "[::ffff:7f00:1]:80", "169.254.169.254:80", "[fe80::1]:80",
     "10.0.0.1:080", "[2001:0db8:0::1]:80"],
)  # fmt: skip
async def test_addresses_that_are_refused(
    driver: F5Driver, bigip: Bigip, address: str
) -> None:
    """What a BIG-IP reaches and its users must not; nothing is made of it."""
    with pytest.raises(Fail, match="backendAddr"):
        await driver.ensure_backend(an_ensure(an_identity(bigip), address))

    assert ({}, {}) == (bigip.unit.running.pool(WEB).members, bigip.unit.running.nodes)


async def test_a_units_own_interface_is_no_member(
    driver: F5Driver, bigip: Bigip
) -> None:
    """Not where its network is open either."""
    everything = AllowedAddresses((ipaddress.ip_network("0.0.0.0/0"),))
    allowed = driver.load_balancers.allowed
    driver.load_balancers.allowed = attrs.evolve(allowed, addresses=everything)
    place = bigip.url.removeprefix("http://")

    with pytest.raises(Fail, match="is where the load balancer itself is operated"):
        await driver.ensure_backend(an_ensure(an_identity(bigip), place))
