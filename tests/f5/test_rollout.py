"""A rollout of fifty members with slow connections: nothing is cut before its time."""

import asyncio

from datetime import timedelta

import attrs

from lbcf.sdk import Running, Succ, SystemClock
from tests.f5.requests import WEB, an_ensure, an_identity
from tests.f5.server import Bigip
from tests.webhooks.requests import a_deregister, a_drain
from webhooks.f5.driver import F5Driver


MEMBERS = 50
NEVER_ENDS = 5
"""Members with a connection that is open until the drain's deadline."""
AT_ONCE = 8
"""As `maxConcurrentCalls` of the example says."""


def _address(number: int) -> str:
    """Return the address of a member."""
    return f"198.18.0.{number + 1}:80"


@attrs.define(eq=False)
class Clients:
    """Who is connected: to each member some, who end one after the other.

    Attributes:
        bigip: where.
        calm: is set when all have ended that ever do.
    """

    bigip: Bigip
    calm: asyncio.Event = attrs.field(factory=asyncio.Event)

    def connect(self) -> None:
        """Have three to five connections on each member."""
        for number in range(MEMBERS):
            key = (WEB, f"/Common/{_address(number)}")
            self.bigip.unit.connections[key] = 3 + number % 3

    async def leave(self) -> None:
        """End connections of members that drain, one at a time, but for some."""
        unit = self.bigip.unit
        while not self.calm.is_set():
            await asyncio.sleep(0.005)
            for number in range(NEVER_ENDS, MEMBERS):
                key = (WEB, f"/Common/{_address(number)}")
                if unit.connections.get(key) and _is_disabled(self.bigip, key[1]):
                    unit.connections[key] -= 1
            if all(
                left == 0
                for (_, member), left in unit.connections.items()
                if member not in _stuck()
            ):
                self.calm.set()


def _stuck() -> set[str]:
    """Return the members with connections that do not end."""
    return {f"/Common/{_address(number)}" for number in range(NEVER_ENDS)}


def _is_disabled(bigip: Bigip, member: str) -> bool:
    """Tell whether new clients are kept away from a member."""
    document = bigip.unit.member(WEB, member)
    return document["session"] == "user-disabled"


async def _drained(driver: F5Driver, clients: Clients, number: int) -> bool:
    """Drain a member as the deregistrar does; False: the deadline came first."""
    request = a_drain(an_identity(clients.bigip), _address(number), f"r{number}")
    while isinstance(await driver.drain_backend(request), Running):
        # The deadline of those that never end comes when all others have ended.
        if number < NEVER_ENDS and clients.calm.is_set():
            return False
        await SystemClock().sleep(timedelta(milliseconds=10))
    return True


async def test_every_connection_ends_or_has_its_deadline(
    driver: F5Driver, bigip: Bigip
) -> None:
    """Each member is disabled, then empty (or out of time), then offline, then gone."""
    lb_info = an_identity(bigip)
    room = asyncio.Semaphore(AT_ONCE)
    clients = Clients(bigip)

    async def begin(number: int) -> None:
        async with room:
            await driver.ensure_backend(
                an_ensure(lb_info, _address(number), f"r{number}")
            )

    async def end(number: int) -> None:
        drained = await _drained(driver, clients, number)
        async with room:
            request = a_deregister(
                lb_info, _address(number), f"r{number}", drained=drained
            )
            assert isinstance(await driver.deregister_backend(request), Succ)

    await asyncio.gather(*(begin(number) for number in range(MEMBERS)))
    clients.connect()
    leaving = asyncio.create_task(clients.leave())
    await asyncio.gather(*(end(number) for number in range(MEMBERS)))
    await leaving

    for number in range(MEMBERS):
        member = f"/Common/{_address(number)}"
        events = [one for one in bigip.unit.events if one.member == member]
        assert ["added", "disabled", "offline", "removed"] == [
            one.what for one in events
        ]
        cut = 3 + number % 3 if number < NEVER_ENDS else 0
        assert [cut, cut] == [one.connections for one in events[2:]]
    assert ({}, {}) == (bigip.unit.running.pool(WEB).members, bigip.unit.running.nodes)
