"""A member that another record owns is not taken over, however its group is spelled."""

import ipaddress

import attrs
import pytest

from lbcf.sdk import Fail
from tests.netscaler.appliances import GROUP, Site
from tests.netscaler.requests import an_ensure, until_done
from tests.webhooks.requests import RECORD, a_deregister, a_drain, a_list
from tests.webhooks.tenants import check_fence
from webhooks.device.devices import AllowedDevices
from webhooks.netscaler.driver import NetscalerDriver
from webhooks.netscaler.load_balancers import parse_identity
from webhooks.shared.reach import AllowedAddresses


OTHER = "0f6ad1f4-3a52-4f0c-8d7e-77a1c2b3d4e5"
"""The uid of somebody else's record."""


async def owners(driver: NetscalerDriver, pair: Site) -> list[str | None]:
    """Return the records that have members."""
    answer = await driver.list_backends(a_list(pair.lb_info))
    return [one.record_id for one in answer.backends]


async def test_a_member_of_another_load_balancer_stays(
    pair_driver: NetscalerDriver, pair: Site
) -> None:
    """It is neither taken over nor taken out by who names the primary alone."""
    await pair_driver.ensure_backend(an_ensure(pair.lb_info))
    alone = {"devices": pair.served[0].url, "serviceGroup": GROUP}

    with pytest.raises(Fail, match=f"registered for record {RECORD} by a load bal"):
        await pair_driver.ensure_backend(an_ensure(alone, record=OTHER))
    await pair_driver.deregister_backend(a_deregister(alone, record=OTHER))

    assert [RECORD] == await owners(pair_driver, pair)


async def test_the_next_owner_of_the_same_group_takes_over(
    pair_driver: NetscalerDriver, pair: Site
) -> None:
    """Its lock says that the record before it is gone, whatever was left of it."""
    await pair_driver.ensure_backend(an_ensure(pair.lb_info))
    devices = ",".join(one.url for one in reversed(pair.served))

    same = {"devices": devices, "serviceGroup": GROUP}
    await pair_driver.ensure_backend(an_ensure(same, record=OTHER))

    assert [OTHER] == await owners(pair_driver, pair)


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


async def test_a_copy_of_a_shared_load_balancer_gets_nothing_in(site: Site) -> None:
    """An lbSpec that was read elsewhere opens no group, but what is in it can go."""
    allowed = AllowedDevices((f"{site.served[0].url}=kube-system",))
    driver = site.driver()
    driver = NetscalerDriver(attrs.evolve(driver.ground, allowed=allowed))

    await check_fence(driver, site.lb_info, an_ensure(site.lb_info))
    await driver.drain_backend(a_drain(site.lb_info))
    request = a_deregister(site.lb_info)
    await until_done(lambda: driver.deregister_backend(request))
    listed = await driver.list_backends(a_list(site.lb_info))
    await driver.stop()

    assert [] == listed.backends


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:80", "[::ffff:7f00:1]:80", "169.254.169.254:80", "[fe80::1]:80",
     "10.0.0.1:080", "[2001:0db8:0::1]:80"],
)  # fmt: skip
async def test_addresses_that_are_refused(
    driver: NetscalerDriver, site: Site, address: str
) -> None:
    """What an appliance reaches and its users must not; nothing is made of it."""
    with pytest.raises(Fail, match="backendAddr"):
        await driver.ensure_backend(an_ensure(site.lb_info, address))

    assert ({}, {}) == (site.unit.running.members, site.unit.running.servers)


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
