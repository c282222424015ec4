"""Listings, which come every two seconds: what they cost, and that they cost no truth."""

import asyncio

from pathlib import Path

import pytest
import trustme

from lbcf.sdk import Succ
from tests.netscaler.appliances import Site, SteppedClock, a_site
from tests.netscaler.requests import an_ensure
from tests.netscaler.test_failover import the_pair
from tests.webhooks.requests import RECORD, a_list
from webhooks.device.connection import Limits
from webhooks.device.looks import LOOK_PERIOD
from webhooks.netscaler.driver import NetscalerDriver


GROUPS = 25
EVERY = 2
"""Seconds between two listings of a load balancer."""

CALL = 8
"""Seconds that a call has."""

LATENCY = 0.15
"""Seconds that a request takes at an appliance that is not quick."""


async def _list_all(driver: NetscalerDriver, site: Site) -> None:
    """Have all service groups listed at once."""
    asked = (
        driver.list_backends(a_list(site.lb_info | {"serviceGroup": f"group-{number}"}))
        for number in range(GROUPS)
    )
    await asyncio.gather(*asked)


@pytest.mark.parametrize("units", [1, 2])
async def test_they_leave_room_for_calls(
    tmp_path: Path, authority: trustme.CA, units: int
) -> None:
    """In the time of a call its requests and theirs fit through the connections there are."""
    room = Limits().at_once * CALL / LATENCY
    clock = SteppedClock()
    async with a_site(tmp_path, authority, units, clock) as site:
        for served in site.served:
            served.unit.running.groups += [f"group-{one}" for one in range(GROUPS)]
        driver = site.driver(look_period=LOOK_PERIOD)
        for _ in range(CALL // EVERY):
            await _list_all(driver, site)
            clock.advance(EVERY)
        lb_info = site.lb_info | {"serviceGroup": "group-0"}
        ensured = await driver.ensure_backend(an_ensure(lb_info))
        heard = len(site.nitro.heard)
        roles = sum(one.resource == "ns" for one in site.nitro.heard)
        await driver.stop()

    assert isinstance(ensured, Succ)
    assert heard < room / 2
    assert roles < GROUPS


async def test_an_own_change_is_seen_at_once(
    tmp_path: Path, authority: trustme.CA
) -> None:
    """Other people's are within the period."""
    clock = SteppedClock()
    async with a_site(tmp_path, authority, clock=clock) as site:
        driver = site.driver(look_period=LOOK_PERIOD)
        before = await driver.list_backends(a_list(site.lb_info))
        await driver.ensure_backend(an_ensure(site.lb_info))
        ensured = await driver.list_backends(a_list(site.lb_info))
        site.unit.running.members.clear()
        meanwhile = await driver.list_backends(a_list(site.lb_info))
        clock.advance(LOOK_PERIOD.total_seconds())
        after = await driver.list_backends(a_list(site.lb_info))
        await driver.stop()

    assert [0, 1, 1, 0] == [
        len(one.backends) for one in (before, ensured, meanwhile, after)
    ]


async def test_a_failover_within_the_moment(
    tmp_path: Path, authority: trustme.CA
) -> None:
    """What is changed goes to the unit that is primary now, and listings follow it."""
    async with a_site(tmp_path, authority, 2, SteppedClock()) as site:
        driver = site.driver(look_period=LOOK_PERIOD)
        other = site.lb_info | {"serviceGroup": "other"}
        before = await driver.list_backends(a_list(site.lb_info))
        the_pair(site).fail_over()
        ensured = await driver.ensure_backend(an_ensure(site.lb_info))
        after = await driver.list_backends(a_list(site.lb_info))
        of_other = await driver.list_backends(a_list(other))
        changed = [len(one.nitro.changes()) for one in site.served]
        await driver.stop()

    assert isinstance(ensured, Succ)
    assert changed[0] == 0 < changed[1]
    assert [RECORD] == [one.record_id for one in after.backends]
    assert before.epoch != after.epoch == of_other.epoch
