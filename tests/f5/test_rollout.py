"""A rollout of fifty members with slow connections: nothing is cut before its time."""

from tests.f5.requests import WEB
from tests.f5.rollout import MEMBERS, NEVER_ENDS, Rollout, connections_of, path_of
from tests.f5.server import Bigip
from tests.webhooks.witness import Nobody
from webhooks.f5.driver import F5Driver


async def test_every_connection_ends_or_has_its_deadline(
    driver: F5Driver, bigip: Bigip
) -> None:
    """Each member is disabled, then empty (or out of time), then offline, then gone."""
    await Rollout(driver, bigip, Nobody()).run()

    for number in range(MEMBERS):
        events = [one for one in bigip.unit.events if one.member == path_of(number)]
        assert ["added", "disabled", "offline", "removed"] == [
            one.what for one in events
        ]
        cut = connections_of(number) if number < NEVER_ENDS else 0
        assert [cut, cut] == [one.connections for one in events[2:]]
    assert ({}, {}) == (bigip.unit.running.pool(WEB).members, bigip.unit.running.nodes)
