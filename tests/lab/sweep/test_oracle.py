"""The oracle tells what is wrong at each load balancer by itself, and nothing else."""

import asyncio

from collections.abc import Callable

from tests.lab.sweep.balancer import Member
from tests.lab.sweep.loop import BusyLoop
from tests.lab.sweep.objects import BACKEND, PROXY, PROXY_URL
from tests.lab.sweep.run import prepare
from tests.lab.sweep.stage import ONE, begin
from tests.lab.sweep.world import World


def unsettled_after(act: Callable[[World], object]) -> list[str]:
    """Let a pod be registered at two load balancers; then say what an act leaves wrong."""

    async def played() -> list[str]:
        """Play it."""
        world = World(BACKEND, {})
        prepare(world)
        world.put_load_balancer("back")
        world.put_group(loadBalancers=["front", "back"])
        world.start("controller")
        world.start("deregistrar")
        await begin(world, ONE)
        act(world)
        found = list(world.oracle.unsettled())
        await world.close()
        return found

    loop = BusyLoop()
    try:
        return loop.run_until_complete(asyncio.wait_for(played(), 1000))
    finally:
        loop.close()


def unregister(world: World) -> None:
    """Let the record at one load balancer say that it is not registered."""
    for path, whole in list(world.api.objects.items()):
        match whole:
            case {"spec": {"lbName": "back"}, "status": {"conditions": _}}:
                world.api.put(path, {**whole, "status": {"backendAddr": f"{ONE}:80"}})
            case _:
                pass


def misplace(world: World) -> None:
    """Put a member into a pool that no load balancer means."""
    world.behind(PROXY_URL).members["stray"] = Member(
        "id=other", f"{ONE}:80", "nobody", {}
    )


def test_one_address_at_two_load_balancers_is_two_members() -> None:
    """Members are counted for each load balancer."""
    assert [] == unsettled_after(lambda _world: None)


def test_record_is_not_excused_by_the_other_load_balancer() -> None:
    """That its address is served elsewhere registers nobody here."""
    (wrong,) = unsettled_after(unregister)

    assert wrong.endswith("is not registered")


def test_member_for_nobody_is_told() -> None:
    """What is in a pool of which no record speaks is a leak."""
    (wrong,) = unsettled_after(misplace)

    assert wrong == f"{ONE}:80 is a member at id=other for nobody"


def test_spellings_of_one_pool_are_one_place() -> None:
    """A load balancer whose target is spelled otherwise has the same members."""

    async def compared() -> bool:
        """Compare them."""
        world = World(BACKEND, {})
        world.put_load_balancer("again", "FRONT")
        world.serve_also("http://second.test")
        world.put_driver("second", "http://second.test")
        world.put_load_balancer("thrice", driver="second", target="front")
        places = {world.pool_of(name) for name in ("front", "again", "thrice")}
        return places == {world.place_of(PROXY, "id=front")}

    loop = BusyLoop()
    try:
        assert loop.run_until_complete(compared())
    finally:
        loop.close()
