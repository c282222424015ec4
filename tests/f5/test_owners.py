"""A member that another record owns is not taken over, however its pool is spelled."""

import ipaddress

import attrs
import pytest

from lbcf.sdk import CreateLoadBalancerRequest, Fail
from tests.f5.requests import an_ensure, an_identity
from tests.f5.server import Bigip
from tests.webhooks.requests import RECORD
from webhooks.f5.driver import F5Driver
from webhooks.f5.load_balancers import parse_identity
from webhooks.shared.reach import AllowedAddresses


Pair = tuple[Bigip, Bigip]


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
