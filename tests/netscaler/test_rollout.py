"""A rollout of fifty members: each connection ends by itself or at the deadline."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from lbcf.sdk import Running
from tests.netscaler.appliances import Site, SteppedClock, a_site
from tests.netscaler.rollout import DEADLINE, MEMBERS, NEW, OLD, QUICK, Rollout, key_of
from tests.webhooks.witness import Nobody
from webhooks.netscaler.driver import NetscalerDriver


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


async def test_rollout(
    site: Site, driver: NetscalerDriver, clock: SteppedClock
) -> None:
    """Each connection ends by itself, or at its member's deadline and not before.

    Each old member is disabled, then has nothing left or is at its deadline, then gone.
    """
    rollout = Rollout(driver, site, clock, Nobody())
    await rollout.run()

    begun, made, idle, late = rollout.begun, rollout.made, rollout.idle, rollout.late
    assert {1} == {one.active_connections for one in begun if isinstance(one, Running)}
    assert MEMBERS == sum(isinstance(one, Running) for one in begun)
    assert [one for one in OLD if made[one].ends_at == QUICK] == idle
    assert [None] * len(idle) == [made[one].cut_at for one in idle]
    assert [DEADLINE.total_seconds()] * len(late) == [made[one].cut_at for one in late]
    for one in OLD:
        events = [event.what for event in site.unit.events if event.key == key_of(one)]
        assert ["bound", "disabled", "idle", "gone"] == events
    assert {key_of(one) for one in NEW} == set(site.unit.saved.members)
    assert {key_of(one)[1] for one in NEW} == set(site.unit.saved.servers)
