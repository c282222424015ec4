"""Plays about where members are: several load balancers, drivers, nodes and Services."""

import asyncio

import attrs

from tests.lab.sweep.objects import (
    BACKEND,
    DRIVER,
    NAMED_BY_DRIVER,
    RECORD,
    SETTINGS,
)
from tests.lab.sweep.stage import ONE, TWO, begin, scenario
from tests.lab.sweep.world import World


SECOND_URL = "http://second.test"
BOTH = ["front", "back"]
SHARED = "lbcf-shared"


@scenario()
async def two_load_balancers(world: World) -> None:
    """A group is registered at two load balancers, and one of its pods goes."""
    world.put_load_balancer("back")
    world.put_group(loadBalancers=BOTH)
    await begin(world, ONE, TWO)
    world.drop_pod("web-1")
    world.put_pod("web-3", ONE)


@scenario()
async def load_balancer_left(world: World) -> None:
    """Two groups share a pod; each goes to a load balancer of its own, one leaves it."""
    world.put_load_balancer("back")
    world.put_group("api", loadBalancers=["back"])
    await begin(world, ONE)
    world.put_group("api", loadBalancers=[])


@scenario({"record": RECORD, "driver": DRIVER})
async def two_drivers(world: World) -> None:
    """Two drivers that know members in different ways; a pod is at both, and goes."""
    other = {RECORD.member_key: DRIVER, DRIVER.member_key: RECORD}
    world.put_driver("second", SECOND_URL, other[world.setting.member_key])
    world.put_load_balancer("back", driver="second")
    world.put_group(loadBalancers=BOTH)
    await begin(world, ONE)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)


@scenario()
async def driver_moved(world: World) -> None:
    """A driver is reached elsewhere while a pod is registered, and then another comes."""
    world.serve_also(SECOND_URL)
    await begin(world, ONE)
    world.put_driver(url=SECOND_URL)
    world.put_pod("web-2", TWO)
    await asyncio.sleep(0.1)
    world.drop_pod("web-1")


@scenario({"record": RECORD, "driver": DRIVER})
async def driver_anew(world: World) -> None:
    """A driver is removed by force while a pod goes, and made again."""
    await begin(world, ONE)
    world.drop_driver()
    world.drop_pod("web-1")
    await asyncio.sleep(2)
    world.put_driver()


@scenario()
async def driver_edited(world: World) -> None:
    """A driver's bounds are raised while a pod is being registered."""
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(0.06)
    world.put_driver(setting=attrs.evolve(world.setting, late_effect=20))
    await asyncio.sleep(1)
    world.drop_pod("web-1")


@scenario({"record": RECORD, "driver": DRIVER})
async def load_balancer_again(world: World) -> None:
    """A load balancer is removed by force, and made again as it was."""
    await begin(world, ONE)
    world.drop_load_balancer()
    await asyncio.sleep(2)
    world.put_load_balancer(created=False)


ALL = {**SETTINGS, "record-by-driver": NAMED_BY_DRIVER}


@scenario()
async def load_balancer_elsewhere(world: World) -> None:
    """A load balancer is removed by force, and made again with another identity."""
    await begin(world, ONE)
    world.drop_load_balancer()
    await asyncio.sleep(2)
    world.put_load_balancer(target="other", created=False)


@scenario({"record": RECORD, "driver": DRIVER})
async def load_balancer_of_another(world: World) -> None:
    """The same with another driver; a pod comes meanwhile."""
    world.put_driver("second", SECOND_URL)
    await begin(world, ONE)
    world.drop_load_balancer()
    world.put_pod("web-2", TWO)
    await asyncio.sleep(2)
    world.put_load_balancer(driver="second", created=False)


@scenario({"record": RECORD, "driver": DRIVER})
async def scope_withdrawn(world: World) -> None:
    """A shared load balancer is taken from a namespace while a pod goes."""
    world.put_driver(SHARED)
    world.put_load_balancer(SHARED, driver=SHARED, scope=("shop",))
    world.put_group(loadBalancers=["front", SHARED])
    await begin(world, ONE, TWO)
    world.put_load_balancer(SHARED, driver=SHARED)
    world.drop_pod("web-1")


@scenario({"record": RECORD, "backend": BACKEND})
async def service_replaced(world: World) -> None:
    """A Service is replaced by force: it is not there for a moment."""
    world.put_service()
    world.put_group(service="web")
    await begin(world)
    world.put_node("n1", ONE)
    await asyncio.sleep(1)
    await world.calm()
    world.drop_service()
    await asyncio.sleep(5)
    if world.is_faultless and not world.balancer.find(f"{ONE}:30080"):
        world.fail("S6: a node left because its Service was not there for a moment")
    world.put_service()


@scenario({"record": RECORD, "backend": BACKEND})
async def service_gone(world: World) -> None:
    """A Service goes for good; its nodes leave, and another one takes its node port."""
    world.put_service()
    world.put_group(service="web")
    await begin(world)
    world.put_node("n1", ONE)
    await asyncio.sleep(1)
    await world.calm()
    world.drop_service()


@scenario(ALL)
async def moved(world: World) -> None:
    """A pod gets another address and stays who it is; its old one is used again."""
    await begin(world, ONE)
    world.put_pod("web-1", TWO)
    await asyncio.sleep(0.5)
    world.put_pod("web-2", ONE)


@scenario(ALL)
async def moved_unseen(world: World) -> None:
    """The same while no controller runs: nobody sees that the pod is not ready."""
    await begin(world, ONE)
    world.crash_any("controller", is_old=False)
    world.put_pod("web-1", ONE, ready=False)
    world.put_pod("web-1", TWO)


@scenario(ALL)
async def node_anew(world: World) -> None:
    """A node is replaced by another of its name with another address."""
    world.put_group(nodes=443)
    await begin(world)
    world.put_node("n1", ONE)
    await asyncio.sleep(1)
    await world.calm()
    world.drop_node("n1")
    world.put_node("n1", TWO)


@scenario(ALL)
async def nodes(world: World) -> None:
    """A node is registered, and goes; another one has its address."""
    world.put_group(nodes=443)
    await begin(world)
    world.put_node("n1", ONE)
    world.put_node("n2", TWO)
    await asyncio.sleep(1)
    await world.calm()
    world.drop_node("n1")
    world.put_node("n3", ONE)


@scenario({"record": RECORD, "backend": BACKEND})
async def node_ports(world: World) -> None:
    """A Service gets another node port."""
    world.put_service(node_port=30080)
    world.put_group(service="web")
    await begin(world)
    world.put_node("n1", ONE)
    await asyncio.sleep(1)
    await world.calm()
    world.put_service(node_port=30081)


BY_ADDRESS = {"backend": BACKEND, "driver": DRIVER}


@scenario({**BY_ADDRESS})
async def driver_twice(world: World) -> None:
    """Two driver objects have one URL; a pod is wanted by way of both, then of one."""
    spelled = "http://Driver.TEST:80/"
    world.serve_also(spelled)
    world.put_driver("second", spelled)
    world.put_load_balancer("back", "front", driver="second")
    await asyncio.sleep(1)
    await _wanted_twice(world, "front")


@scenario({**BY_ADDRESS}, names_pools=True)
async def pool_twice(world: World) -> None:
    """Two load balancers spell one pool differently, and their driver says so."""
    world.put_load_balancer("one", "pool", created=False)
    world.put_load_balancer("back", "POOL", created=False)
    await asyncio.sleep(3)
    await _wanted_twice(world, "one")


@scenario({**BY_ADDRESS})
async def keys_apart(world: World) -> None:
    """A driver is reached elsewhere; one of two load balancers of a pool cannot write that.

    Then a pod comes that is wanted by way of both, and in the end of one alone.
    """
    await _moved_behind(world, "side")
    world.put_group("api", loadBalancers=["side"])
    await begin(world, ONE)
    world.put_group("api", loadBalancers=[])
    await asyncio.sleep(3)
    world.put_group("api", loadBalancers=["side"])
    await asyncio.sleep(3)
    world.put_group(loadBalancers=[])


@scenario({**BY_ADDRESS})
async def key_of_a_new_one(world: World) -> None:
    """The same, and the other one is made after that: they have no key in common."""
    world.put_group(loadBalancers=[])
    world.put_group("api", loadBalancers=["side"])
    world.put_pod("web-1", ONE)
    await _moved_behind(world, "side")
    world.put_load_balancer("late", "front", created=False)
    world.put_group(loadBalancers=["late"])
    await asyncio.sleep(5)
    world.put_group("api", loadBalancers=[])
    await asyncio.sleep(3)
    world.put_group("api", loadBalancers=["side"])
    await asyncio.sleep(3)
    world.put_group(loadBalancers=[])


async def _moved_behind(world: World, name: str) -> None:
    """Let the driver be elsewhere; another load balancer of front's pool hears of it late."""
    world.serve_also(SECOND_URL)
    world.put_load_balancer(name, "front")
    await begin(world)
    await world.calm()
    world.troubles[f"loadbalancers/{name}/status"] = ["5xx"] * 6
    world.put_driver(url=SECOND_URL)
    await asyncio.sleep(1)


async def _wanted_twice(world: World, first: str) -> None:
    """Let two groups want a pod at one pool, and then one of them no more."""
    world.put_group(loadBalancers=[first])
    await begin(world, ONE)
    world.put_group("api", loadBalancers=["back"])
    await asyncio.sleep(3)
    world.put_group("api", loadBalancers=[])
    await asyncio.sleep(3)
    world.put_group("api", loadBalancers=["back"])
    await asyncio.sleep(1)
    world.drop_pod("web-1")
