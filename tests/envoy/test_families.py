"""In which families of IP clients reach a load balancer, and have members their addresses."""

import ipaddress

from functools import partial

import pytest

from aiohttp import ClientSession

from lbcf.sdk import Fail, ValidateLoadBalancerRequest
from tests.envoy.conftest import StartServer
from tests.envoy.proxy import FLEET
from tests.envoy.stage import Stage
from tests.envoy.test_udp import Client, served
from tests.haproxy.waiting import until
from tests.haproxy.web import ask
from tests.lab.cluster.ports import free_ports
from tests.webhooks.troubled import settled
from webhooks.envoy.attributes import parse_attributes
from webhooks.envoy.balancers import parse_identity, places
from webhooks.envoy.driver import EnvoyDriver
from webhooks.envoy.errors import InvalidInput
from webhooks.shared.reach import AllowedAddresses


NETWORKS = ("127.0.0.0/8", "::1/128")
LOOPBACK = AllowedAddresses(tuple(ipaddress.ip_network(one) for one in NETWORKS))


@pytest.fixture(name="everywhere")
async def _everywhere(stage: Stage) -> EnvoyDriver:
    """A driver whose load balancer is a port of all addresses, and an Envoy."""
    stage.listen = f"0.0.0.0:{free_ports(1)[0]}"
    driver = await stage.driver()
    driver.addresses = LOOPBACK
    await stage.envoy()
    return driver


def port(stage: Stage) -> str:
    """Return where the load balancer listens at each address."""
    return stage.listen.removesuffix("/udp").rpartition(":")[2]


async def served_at(client: ClientSession, stage: Stage) -> set[str]:
    """Return the loopback addresses at which clients are served."""
    hosts = ("127.0.0.1", "[::1]")
    asked = {one: await ask(client, f"http://{one}:{port(stage)}/") for one in hosts}
    return {host for host, answer in asked.items() if answer == "six"}


@pytest.mark.envoy
async def test_families_come_and_go(
    stage: Stage,
    everywhere: EnvoyDriver,
    start_server: StartServer,
    client: ClientSession,
) -> None:
    """As those of a Service may; the member has an address of IPv6."""
    driver = everywhere
    await driver.create_load_balancer(stage.create(ipFamilies="IPv4,IPv6"))
    six = await start_server("six", "::1")
    await driver.ensure_backend(stage.ensure("six", six.address))

    async def are_served(hosts: set[str]) -> bool:
        return hosts == await served_at(client, stage)

    await until(partial(are_served, {"127.0.0.1", "[::1]"}))
    for families, hosts in (
        ("IPv6", {"[::1]"}),
        ("", {"127.0.0.1"}),
        ("IPv6,IPv4", {"127.0.0.1", "[::1]"}),
    ):
        await driver.ensure_load_balancer(stage.remake(ipFamilies=families))
        await until(partial(are_served, hosts))
    drain = stage.drain("six", six.address)
    await settled(lambda: driver.drain_backend(drain))
    await driver.deregister_backend(stage.deregister("six", six.address))
    await stage.until_workers_know()
    assert set() == await served_at(client, stage)


@pytest.mark.envoy
async def test_datagrams_in_both_families(
    stage: Stage, everywhere: EnvoyDriver
) -> None:
    """Answered from the address at which they came."""
    stage.listen += "/udp"
    await everywhere.create_load_balancer(stage.create(ipFamilies="IPv4,IPv6"))
    async with served("a") as at:
        await everywhere.ensure_backend(stage.ensure("a", at["a"]))
        for host in ("127.0.0.1", "[::1]"):
            client = Client(f"{host}:{port(stage)}/udp")
            await client.until("a")
            client.close()


@pytest.mark.envoy
async def test_a_port_is_one_load_balancers_in_each_family(
    stage: Stage, everywhere: EnvoyDriver
) -> None:
    """Who asks for a family more is refused what another one listens on."""
    driver = everywhere
    await driver.create_load_balancer(stage.create())
    at = f"0.0.0.0:{port(stage)}"
    stage.listen = f"[::]:{port(stage)}"
    await driver.create_load_balancer(stage.create())

    stage.listen = at
    with pytest.raises(Fail, match=r"connections to .* would also be those of"):
        await driver.ensure_load_balancer(stage.remake(ipFamilies="IPv4,IPv6"))


async def test_each_family_has_to_be_allowed(stage: Stage) -> None:
    """What is open to clients of IPv4 may be closed to all others."""
    driver = await stage.driver()
    request = ValidateLoadBalancerRequest(
        lb_spec={"fleet": FLEET, "listen": "0.0.0.0:80"},
        attributes={"ipFamilies": "IPv4,IPv6"},
    )

    driver.listeners = [f"{FLEET}/0.0.0.0:80", f"{FLEET}/[[]::]:80"]
    await driver.validate_load_balancer(request)
    driver.listeners = [f"{FLEET}/0.0.0.0:80"]
    with pytest.raises(Fail, match=r"listen: edge/\[::\]:80 is not allowed"):
        await driver.validate_load_balancer(request)


@pytest.mark.parametrize(
    ("listen", "families", "found"),
    [
        ("0.0.0.0:80", "", ["0.0.0.0:80"]),
        ("0.0.0.0:80", "IPv4", ["0.0.0.0:80"]),
        ("0.0.0.0:80", "IPv6", ["[::]:80"]),
        ("[::]:80", "IPv6, IPv4", ["0.0.0.0:80", "[::]:80"]),
        ("10.0.0.1:80", "IPv4", ["10.0.0.1:80"]),
        ("[2001:db8::1]:80", "IPv6", ["[2001:db8::1]:80"]),
    ],
)
def test_where_it_listens(listen: str, families: str, found: list[str]) -> None:
    """All addresses are those of the families that are asked for."""
    known = parse_identity({"fleet": "edge", "listen": listen})
    settings = parse_attributes({"ipFamilies": families})

    assert found == [str(one) for one in places(known, settings)]


@pytest.mark.parametrize("families", ["IPv6", "IPv4,IPv6"])
def test_one_address_is_of_one_family(families: str) -> None:
    """It is told, with what to do, and not half done."""
    known = parse_identity({"fleet": "edge", "listen": "10.0.0.1:80"})
    settings = parse_attributes({"ipFamilies": families})

    with pytest.raises(
        InvalidInput, match=r"one address of IPv4: listen on 0\.0\.0\.0"
    ):
        places(known, settings)
