"""What failed while a load balancer was away is made when it is back, in virtual time.

Both processes, as they are put together: each has to hear of the load balancer.
"""

import asyncio

from lbcf.core.model import conditions
from lbcf.core.model.operations import Operation
from lbcf.drivers.errors import NotSent
from tests.fairness.acts import CALM, is_true
from tests.fairness.objects import Balancer, Driver, Group
from tests.fairness.world import STARTED, World
from tests.fakes.loop import run_virtual
from tests.kube.tiny_rules import with_metadata
from tests.patience import PATIENCE


HOST = "proxy.test"
DRIVER = Driver(CALM, "proxy", f"http://{HOST}", {Operation.LIST_BACKENDS: 1})
FRONT = Balancer(CALM, "front", "proxy")
OUTAGE = 900
"""Seconds; pauses have grown to their most, two minutes, by then."""
SOON = 5
"""Seconds from the moment at which it lists its members again."""


class FallibleWorld(World):
    """A cluster whose drivers can be away.

    Attributes:
        is_away: there is no connection to any.
    """

    is_away = False

    async def answer(
        self, host: str, operation: Operation, body: bytes, limit: float
    ) -> bytes:
        """Be a driver, or not be there."""
        if self.is_away:
            raise NotSent(f"{operation} of {host}: no connection")
        return await super().answer(host, operation, body, limit)

    def change(self, group: Group) -> None:
        """Change the spec of a group."""
        found = self.api.objects[group.path]
        newer = with_metadata(found, generation=2)
        self.api.put(group.path, newer | {"spec": group.body()["spec"]})

    def is_reachable(self) -> bool:
        """Tell whether the load balancer is said to list its members."""
        return is_true(self.find(FRONT), conditions.REACHABLE)

    def is_settled(self) -> bool:
        """Tell whether there is one record, and it is registered."""
        found = [is_true(r, conditions.REGISTERED) for r in self.records_of(CALM)]
        return found == [True]


def group_of(address: str) -> Group:
    """Make the group, with one member."""
    return Group(CALM, "web", FRONT.name, (address,))


def test_what_failed_in_an_outage_is_made_when_it_ends() -> None:
    """One member comes while nobody can be reached, and another one goes."""

    async def story() -> None:
        async with FallibleWorld() as world:
            world.put(DRIVER, FRONT, group_of("10.0.0.1:80"))
            await world.start(STARTED)
            await world.until(world.is_settled, PATIENCE)
            world.is_away = True
            await world.until(lambda: not world.is_reachable(), PATIENCE)

            world.change(group_of("10.0.0.2:80"))
            await asyncio.sleep(OUTAGE)
            assert len(world.records_of(CALM)) == 2

            world.is_away = False
            await world.until(world.is_reachable, PATIENCE)
            await world.until(world.is_settled, SOON)

    run_virtual(story())
