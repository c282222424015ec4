"""A rollout: fifty members with slow connections go, as the deregistrar would have it.

`test_rollout` looks at what the unit wrote down; other people's clients watch the same
rollout in `tests.interop`.
"""

import asyncio
import contextlib

from datetime import timedelta

import attrs

from lbcf.sdk import DrainBackendRequest, RetryAfter, Running, SystemClock
from tests.f5.requests import WEB, an_ensure, an_identity
from tests.f5.server import Bigip
from tests.webhooks.requests import a_deregister, a_drain
from tests.webhooks.troubled import settled
from tests.webhooks.witness import Stage, Witness
from webhooks.f5.driver import F5Driver


MEMBERS = 50
NEVER_ENDS = 5
"""Members with a connection that is open until the drain's deadline."""
AT_ONCE = 8
"""As `maxConcurrentCalls` of the example says."""
PAUSE = timedelta(milliseconds=10)
"""Between two questions for a drain."""


def address_of(number: int) -> str:
    """Return the address of a member."""
    return f"198.18.0.{number + 1}:80"


def path_of(number: int) -> str:
    """Return what the unit calls a member."""
    return f"/Common/{address_of(number)}"


def connections_of(number: int) -> int:
    """Return how many connections a member has in the beginning: three to five."""
    return 3 + number % 3


@attrs.define(eq=False)
class Clients:
    """Who is connected.

    Attributes:
        leaving: members whose clients have begun to end.
        calm: is set when all have ended that ever do.
    """

    leaving: set[int] = attrs.field(factory=set)
    calm: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def leave(self, connections: dict[tuple[str, str], int]) -> None:
        """End connections of members that drain, one at a time, but for some."""
        ending = range(NEVER_ENDS, MEMBERS)
        while any(connections.get((WEB, path_of(number))) for number in ending):
            await asyncio.sleep(0.005)
            for number in self.leaving.intersection(ending):
                if connections.get((WEB, path_of(number))):
                    connections[WEB, path_of(number)] -= 1
        self.calm.set()


@attrs.frozen
class Rollout:
    """A rollout on a unit.

    Attributes:
        driver: does it.
        bigip: where.
        witness: has to have seen each stage.
        clients: are connected meanwhile.
        room: for as many calls at once as the driver's manifest lets through.
    """

    driver: F5Driver
    bigip: Bigip
    witness: Witness
    clients: Clients = attrs.field(factory=Clients)
    room: asyncio.Semaphore = attrs.field(factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def run(self) -> None:
        """Have all members come, and go."""
        self.bigip.before_change = self._before_change
        await asyncio.gather(*map(self._begin, range(MEMBERS)))
        connections = self.bigip.unit.connections
        for number in range(MEMBERS):
            connections[WEB, path_of(number)] = connections_of(number)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.clients.leave(connections))
            for number in range(MEMBERS):
                group.create_task(self._end(number))

    async def _begin(self, number: int) -> None:
        """Ensure a member."""
        lb_info, address = an_identity(self.bigip), address_of(number)
        request = an_ensure(lb_info, address, f"r{number}")
        async with self.room:
            await settled(lambda: self.driver.ensure_backend(request))
        await self.witness.until(address, Stage.SERVING)

    async def _end(self, number: int) -> None:
        """Drain a member and deregister it."""
        lb_info, address = an_identity(self.bigip), address_of(number)
        drained = await self._drained(number)
        request = a_deregister(lb_info, address, f"r{number}", drained=drained)
        async with self.room:
            await settled(lambda: self.driver.deregister_backend(request))
        await self.witness.until(address, Stage.GONE)

    async def _drained(self, number: int) -> bool:
        """Drain a member as the deregistrar does; False: the deadline came first."""
        address = address_of(number)
        request = a_drain(an_identity(self.bigip), address, f"r{number}")
        assert await self._is_draining(request)
        await self.witness.until(address, Stage.DRAINING)
        self.clients.leaving.add(number)
        while await self._is_draining(request):
            # The deadline of those that never end comes when all others have ended.
            if number < NEVER_ENDS and self.clients.calm.is_set():
                return False
            await SystemClock().sleep(PAUSE)
        await self.witness.until(address, Stage.IDLE)
        return True

    async def _is_draining(self, request: DrainBackendRequest) -> bool:
        """Ask for a drain, again where it took too long."""
        while True:
            with contextlib.suppress(RetryAfter):
                return isinstance(await self.driver.drain_backend(request), Running)

    async def _before_change(self, request: str) -> None:
        """Hold the removal of members at their deadline until they were seen offline.

        Only theirs: a removal holds all other changes of the unit up.
        """
        for number in range(NEVER_ENDS):
            if request.startswith("DELETE") and request.endswith(address_of(number)):
                await self.witness.until(address_of(number), Stage.OFFLINE)
