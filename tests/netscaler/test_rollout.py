"""A rollout: fifty members with slow connections go, fifty others come."""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
import trustme

from lbcf.sdk import Drain, DrainBackendRequest, RetryAfter, Running, Succ
from tests.netscaler.appliances import GROUP, Site, SteppedClock, a_site
from tests.netscaler.configuration import MemberKey
from tests.netscaler.requests import an_ensure, until_done
from tests.webhooks.requests import a_deregister
from webhooks.netscaler.driver import NetscalerDriver


MEMBERS = 50

DEADLINE = timedelta(seconds=30)
"""From the beginning of a drain."""

QUICK, SLOW = 10.0, 3600.0
"""Seconds that connections take to end by themselves: before the deadline, or after."""


@pytest.fixture(name="clock")
def _clock() -> SteppedClock:
    """Return the time of appliance and driver, which passes when the test says so."""
    return SteppedClock()


@pytest.fixture(name="site")
async def _site(
    tmp_path: Path, authority: trustme.CA, clock: SteppedClock
) -> AsyncIterator[Site]:
    """Serve an appliance in that time."""
    async with a_site(tmp_path, authority, clock=clock) as site:
        yield site


def addresses(network: int) -> Sequence[str]:
    """Return the addresses of all members of one version."""
    return [f"198.18.{network}.{last}:8080" for last in range(1, MEMBERS + 1)]


def key_of(address: str) -> MemberKey:
    """Return what the appliance knows a member by."""
    host, _, port = address.rpartition(":")
    return (GROUP, f"lbcf-{host}", int(port))


async def ensured(
    driver: NetscalerDriver, site: Site, address: str, record: str
) -> None:
    """Ensure a member."""
    request = an_ensure(site.lb_info, address, record)
    await until_done(lambda: driver.ensure_backend(request))


async def taken_out(
    driver: NetscalerDriver, site: Site, address: str, *, drained: bool
) -> None:
    """Deregister a member."""
    request = a_deregister(site.lb_info, address, drained=drained)
    await until_done(lambda: driver.deregister_backend(request))


def what_happened(site: Site, address: str) -> list[str]:
    """Return what happened to a member, the first first."""
    return [one.what for one in site.unit.events if one.key == key_of(address)]


@pytest.mark.timeout(180)
async def test_rollout(
    site: Site, driver: NetscalerDriver, clock: SteppedClock
) -> None:
    """Each connection ends by itself, or at its member's deadline and not before.

    Each old member is disabled, then has nothing left or is at its deadline, then gone.
    """
    old, new = addresses(1), addresses(2)
    await asyncio.gather(
        *(ensured(driver, site, one, f"old-{one[9:-5]}") for one in old)
    )
    made = {
        one: site.unit.traffic.open(key_of(one), QUICK if number % 3 else SLOW)
        for number, one in enumerate(old)
    }
    slots = asyncio.Semaphore(driver.max_concurrent_calls)
    drain = Drain(started_at=clock.now(), deadline=clock.now() + DEADLINE)

    async def drained(address: str) -> Succ | Running:
        """Ask how far the drain of a member is, again where it took too long."""
        request = DrainBackendRequest(
            record_id="1", lb_info=site.lb_info, backend_addr=address, drain=drain
        )
        while True:
            with contextlib.suppress(RetryAfter):
                async with slots:
                    return await driver.drain_backend(request)

    begun = await asyncio.gather(
        *(drained(one) for one in old),
        *(ensured(driver, site, one, f"new-{one[9:-5]}") for one in new),
    )
    clock.advance(QUICK)
    going = dict(zip(old, await asyncio.gather(*map(drained, old)), strict=True))
    idle = [one for one, answer in going.items() if isinstance(answer, Succ)]
    await asyncio.gather(*(taken_out(driver, site, one, drained=True) for one in idle))
    clock.advance(DEADLINE.total_seconds() - QUICK)
    late = [one for one in old if one not in idle]
    await asyncio.gather(*(taken_out(driver, site, one, drained=False) for one in late))

    assert {1} == {one.active_connections for one in begun if isinstance(one, Running)}
    assert MEMBERS == sum(isinstance(one, Running) for one in begun)
    assert [one for one in old if made[one].ends_at == QUICK] == idle
    assert [None] * len(idle) == [made[one].cut_at for one in idle]
    assert [DEADLINE.total_seconds()] * len(late) == [made[one].cut_at for one in late]
    for one in old:
        assert ["bound", "disabled", "idle", "gone"] == what_happened(site, one)
    assert {key_of(one) for one in new} == set(site.unit.saved.members)
    assert {key_of(one)[1] for one in new} == set(site.unit.saved.servers)
