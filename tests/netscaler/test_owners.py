"""A member that another record owns is not taken over, however its group is spelled."""

import ipaddress

import attrs
import pytest

from lbcf.sdk import Fail
from tests.netscaler.appliances import Site
from tests.netscaler.requests import an_ensure
from webhooks.netscaler.driver import NetscalerDriver
from webhooks.netscaler.load_balancers import parse_identity
from webhooks.shared.reach import AllowedAddresses


def test_one_group_has_one_key() -> None:
    """Order, case and default ports do not matter; the units do."""
    spellings = ("https://A,https://b:443", "b,a,a", "https://b, a")
    found = [
        parse_identity({"devices": one, "serviceGroup": "web"}) for one in spellings
    ]

    assert 1 == len({one.lock_key for one in found})
    assert 1 == len({str(one.render()) for one in found})
    alone = parse_identity({"devices": "a", "serviceGroup": "web"})
    assert alone.lock_key != found[0].lock_key


async def test_a_units_own_interface_is_no_member(site: Site) -> None:
    """Not where its network is open either."""
    everything = AllowedAddresses((ipaddress.ip_network("0.0.0.0/0"),))
    ground = site.driver().ground
    allowed = attrs.evolve(ground.allowed, addresses=everything)
    driver = NetscalerDriver(attrs.evolve(ground, allowed=allowed))
    place = site.served[0].url.removeprefix("https://")

    with pytest.raises(Fail, match="is where the load balancer itself is operated"):
        await driver.ensure_backend(an_ensure(site.lb_info, place))
    await driver.stop()
