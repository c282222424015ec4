"""Whose namespace is taken out of a scope leaves, by both processes in virtual time."""

import attrs
import pytest

from lbcf.core.model import conditions
from lbcf.core.model.operations import Operation
from tests.fairness.acts import CALM, is_true
from tests.fairness.objects import Balancer, Driver, Group, Thing
from tests.fairness.world import STARTED, World
from tests.fakes.loop import run_virtual
from tests.kube.tiny_rules import metadata_of, with_metadata
from tests.patience import PATIENCE


SYSTEM = "kube-system"
HOST = "shared.test"
DRIVER = Driver(SYSTEM, "lbcf-shared", f"http://{HOST}")


@attrs.frozen
class Shared:
    """What a namespace uses of others.

    Attributes:
        front: the load balancer that its group names.
        fenced: what has the scope: that load balancer, or the driver.
    """

    front: Balancer
    fenced: Thing


def open_to(world: World, thing: Thing, *namespaces: str) -> None:
    """Say in a scope which namespaces may use something."""
    found = world.api.objects[thing.path]
    spec, generation = found["spec"], metadata_of(found)["generation"]
    assert isinstance(spec, dict)
    assert isinstance(generation, int)
    newer = with_metadata(found, generation=generation + 1)
    world.api.put(thing.path, newer | {"spec": spec | {"scope": list(namespaces)}})


FRONT = Balancer(SYSTEM, "lbcf-front", "lbcf-shared")


@pytest.mark.parametrize(
    "shared",
    [
        pytest.param(Shared(FRONT, FRONT), id="of a load balancer"),
        pytest.param(
            Shared(Balancer(CALM, "front", "lbcf-shared"), DRIVER), id="of a driver"
        ),
    ],
)
def test_members_leave_when_their_namespace_is_taken_out(shared: Shared) -> None:
    """The driver is asked to take them out, and nothing of them is left."""

    async def story() -> None:
        async with World() as world:
            world.put(DRIVER, shared.front)
            open_to(world, shared.fenced, "another", CALM)
            world.put(Group(CALM, "web", shared.front.name, ("10.0.0.1:80",)))
            await world.start(STARTED)
            await world.until(
                lambda: any(
                    is_true(record, conditions.REGISTERED)
                    for record in world.records_of(CALM)
                ),
                PATIENCE,
            )
            assert world.members[HOST].members

            open_to(world, shared.fenced, "another")
            await world.until(lambda: not world.records_of(CALM), PATIENCE)

            assert not world.members[HOST].members
            assert Operation.DEREGISTER_BACKEND in {
                call.operation for call in world.calls
            }

    run_virtual(story())
