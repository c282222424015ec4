"""Datagrams through a real Envoy: members come, drain and go, strangers are not served."""

import asyncio
import contextlib
import itertools
import socket

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from lbcf.sdk import Fail, Succ
from tests.envoy.conftest import StartServer
from tests.envoy.stage import Stage
from tests.haproxy.waiting import until
from tests.patience import PATIENCE
from tests.webhooks.troubled import settled, told
from webhooks.envoy.attributes import parse_attributes
from webhooks.envoy.driver import EnvoyDriver
from webhooks.envoy.errors import InvalidInput


pytestmark = pytest.mark.envoy

QUESTION = "who"
MOMENT = 0.5
"""Seconds to wait where nobody may answer."""


class Named(asyncio.DatagramProtocol):
    """Answers each question with a name, and the number of the question."""

    def __init__(self, name: str) -> None:
        self._name = name.encode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what answers go out by."""
        # In Python 3.11 asyncio's own class of such transports is no subclass of this one.
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer that one, if it asks."""
        question, _, number = data.partition(b" ")
        if question == QUESTION.encode():
            self._transport.sendto(self._name + b" " + number, addr)


@contextlib.asynccontextmanager
async def served(*names: str) -> AsyncIterator[dict[str, str]]:
    """Run servers for a block; return their addresses by name."""
    loop, found = asyncio.get_running_loop(), {}
    transports = []
    for name in names:
        transport, _ = await loop.create_datagram_endpoint(
            partial(Named, name), local_addr=("127.0.1.1", 0)
        )
        transports.append(transport)
        host, port = transport.get_extra_info("sockname")
        found[name] = f"{host}:{port}"
    try:
        yield found
    finally:
        for transport in transports:
            transport.close()


class Client:
    """One client, whose datagrams all come from one port."""

    def __init__(self, listen: str) -> None:
        host, _, port = listen.removesuffix("/udp").rpartition(":")
        is_six = host.startswith("[")
        family = socket.AF_INET6 if is_six else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(("::1" if is_six else "127.0.0.1", 0))
        self._there = (host.strip("[]"), int(port))
        self._numbers = itertools.count()

    async def ask(self, patience: float = PATIENCE) -> str:
        """Send one; return who has answered it, empty for nobody within these seconds."""
        loop, number = asyncio.get_running_loop(), str(next(self._numbers))
        question = f"{QUESTION} {number}".encode()
        await loop.sock_sendto(self._socket, question, self._there)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while True:  # late answers to earlier ones may come first
                    said = (await loop.sock_recv(self._socket, 100)).decode()
                    name, _, answered = said.partition(" ")
                    if answered == number:
                        return name
        return ""

    async def until(self, name: str) -> None:
        """Wait until that one answers."""

        async def answers() -> bool:
            return name == await self.ask(MOMENT)

        await until(answers)

    def close(self) -> None:
        """Take the port away."""
        self._socket.close()


async def registered(driver: EnvoyDriver, stage: Stage, name: str, at: str) -> None:
    """Register a member."""
    await settled(lambda: driver.ensure_backend(stage.ensure(name, at)))


async def test_a_client_goes_on_at_another_member_when_its_own_drains(
    stage: Stage,
) -> None:
    """Datagrams of one port stay with a member; with the drain they go elsewhere at once."""
    driver = await stage.driver()
    await stage.envoy()
    stage.listen += "/udp"
    made = await driver.create_load_balancer(stage.create())
    client = Client(stage.listen)
    async with served("a", "b") as at:
        await registered(driver, stage, "a", at["a"])
        await client.until("a")
        await registered(driver, stage, "b", at["b"])
        await stage.until_workers_know()
        assert {"a"} == {await client.ask() for _ in range(8)}

        await settled(lambda: driver.drain_backend(stage.drain("a", at["a"])))
        await stage.until_workers_know()
        assert {"b"} == {await client.ask() for _ in range(8)}
        await driver.deregister_backend(stage.deregister("a", at["a"]))
        await stage.until_workers_know()
        assert "b" == await client.ask()
        await settled(lambda: driver.drain_backend(stage.drain("b", at["b"])))
        await driver.deregister_backend(stage.deregister("b", at["b"]))
        await stage.until_workers_know()
        assert not await client.ask(MOMENT)
    client.close()
    assert ["127.0.0.1"] == [one.ip for one in made.ingress or ()]


async def test_tcp_and_udp_have_one_port(
    stage: Stage, start_server: StartServer
) -> None:
    """Two load balancers; what becomes of the one is nothing to the other."""
    driver = await stage.driver()
    envoy = await stage.envoy()
    await driver.create_load_balancer(stage.create())
    web = await start_server("one")
    await registered(driver, stage, "one", web.address)
    tcp, stage.listen = stage.listen, f"{stage.listen}/UDP"
    datagrams = await driver.create_load_balancer(stage.create("udp", protocol="http"))
    known = {"fleet": "edge", "listen": f"{tcp}/udp"}
    async with served("a") as at:
        await registered(driver, stage, "a", at["a"])
        client = Client(tcp)
        await client.until("a")
        client.close()

        assert known == datagrams.lb_info
        assert {f"lbcf/{tcp}", f"lbcf/{tcp}/udp"} == set(await envoy.listeners())
        assert isinstance(await driver.delete_load_balancer(stage.delete("udp")), Succ)
        assert [web.address] == list(await envoy.members(tcp))
        assert [f"lbcf/{tcp}"] == await envoy.listeners()


async def test_datagrams_of_other_networks_are_dropped(stage: Stage) -> None:
    """What loadBalancerSourceRanges says; the client's address chooses, if that is asked for."""
    driver = await stage.driver()
    await stage.envoy()
    stage.listen += "/udp"
    elsewhere = {"loadBalancerSourceRanges": "198.18.0.0/15"}
    await driver.create_load_balancer(stage.create(**elsewhere))
    client = Client(stage.listen)
    async with served("a") as at:
        await registered(driver, stage, "a", at["a"])
        await stage.until_workers_know()
        assert not await client.ask(MOMENT)

        here = {
            "loadBalancerSourceRanges": "127.0.0.0/8",
            "sessionAffinity": "ClientIP",
        }
        await settled(partial(driver.ensure_load_balancer, stage.remake(**here)))
        await client.until("a")
        await settled(partial(driver.ensure_load_balancer, stage.remake(**elsewhere)))

        async def is_refused() -> bool:
            return not await client.ask(MOMENT)

        await until(is_refused)
    client.close()


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"retries": "1"}, "retries means nothing without protocol: http, and TCP"),
        ({"check": "tcp"}, "check means nothing without TCP"),
        ({"protocol": "udp"}, "protocol is one of http, tcp"),
    ],
)
def test_attributes_that_are_refused(attributes: dict[str, str], said: str) -> None:
    """Those that have no effect on datagrams."""
    with pytest.raises(InvalidInput, match=said):
        parse_attributes(attributes, udp=True)


async def test_only_two_transports_are_known(stage: Stage, tmp_path: Path) -> None:
    """Others are refused in words that say what to write."""
    driver = await stage.driver(tmp_path / "other")
    stage.listen += "/sctp"

    said = await told(lambda: driver.create_load_balancer(stage.create()))

    assert "is not IP:port, such as 0.0.0.0:80, or 0.0.0.0:53/udp" in said
    with pytest.raises(Fail):
        await driver.create_load_balancer(stage.create())
