"""The pods' web servers, with the load generator's own client."""

import asyncio

from tests.lab.cluster.ports import free_ports
from tests.lab.demo.answer import Failure
from tests.lab.demo.exchange import Client, Order
from tests.lab.soak.web import WebServer
from tests.patience import PATIENCE


HOST = "127.0.77.77"
FAST = Order("/", fresh=False, asked=0.0, limit=PATIENCE)
FRESH = Order("/", fresh=True, asked=0.0, limit=PATIENCE)
SLOW = Order("/slow?s=0.3", fresh=False, asked=0.3, limit=PATIENCE)
HANGING = Order("/slow?s=3600", fresh=False, asked=3600.0, limit=PATIENCE)


async def test_answers_with_its_name() -> None:
    """Fast and slow, on kept connections and new ones."""
    [port] = free_ports(1)
    server = await WebServer.start("web-1", HOST, port)
    client = Client(HOST, port)

    outcomes = [await client.send(order) for order in (FAST, FAST, FRESH, SLOW)]
    client.close()
    server.stop()

    assert [None] * 4 == [outcome.failure for outcome in outcomes]
    assert {"web-1"} == {outcome.pod for outcome in outcomes}


async def test_stopped_server_cuts_and_refuses() -> None:
    """A request under way is reset, a later one finds nobody."""
    [port] = free_ports(1)
    server = await WebServer.start("web-1", HOST, port)
    under_way = asyncio.create_task(Client(HOST, port).send(HANGING))
    async with asyncio.timeout(PATIENCE):
        await server.asked.wait()

    server.stop()

    assert Failure.RESET is (await under_way).failure
    assert Failure.CONNECT is (await Client(HOST, port).send(FRESH)).failure


async def test_address_can_be_used_again_at_once() -> None:
    """The next pod's server listens where the last one's was stopped."""
    [port] = free_ports(1)
    (await WebServer.start("web-1", HOST, port)).stop()
    server = await WebServer.start("web-2", HOST, port)

    outcome = await Client(HOST, port).send(FRESH)
    server.stop()

    assert (None, "web-2") == (outcome.failure, outcome.pod)
