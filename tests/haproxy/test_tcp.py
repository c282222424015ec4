"""Backends in TCP mode, and members with IPv6 addresses: connections in the drain."""

import asyncio
import contextlib

from collections.abc import AsyncIterator

import pytest

from aiohttp import ClientSession

from lbcf.sdk import Running, Succ
from tests.haproxy.conftest import StartServer
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import (
    a_deregister,
    a_drain,
    an_ensure,
    an_identity,
    until_drained,
)
from tests.haproxy.web import ask
from webhooks.haproxy.driver import HaproxyDriver


pytestmark = pytest.mark.haproxy

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def repeating(name: str) -> AsyncIterator[str]:
    """Serve connections that say a name before each line; return the address."""

    async def repeat(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer until the other side hangs up."""
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                writer.write(name.encode() + b" " + line)
        writer.close()

    server = await asyncio.start_server(repeat, "127.0.1.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        server.close()


async def said(connection: Connection) -> str:
    """Say something; return who answers, or nothing where the connection has ended."""
    reader, writer = connection
    try:
        writer.write(b"hello\n")
        answer = (await reader.readline()).decode()
    except ConnectionError:
        return ""
    return answer.partition(" ")[0]


async def connected(proxy: Haproxy) -> Connection:
    """Connect."""
    return await asyncio.open_connection("127.0.0.1", proxy.ports["tcp"])


async def test_connections_outlive_a_drain(
    driver: HaproxyDriver, proxy: Haproxy
) -> None:
    """What is established goes on and is counted; what is new goes elsewhere.

    The drain is over when the last connection is closed.
    """
    lb_info = an_identity(proxy, backend="tcp")
    async with repeating("old") as old, repeating("new") as new:
        await driver.ensure_backend(an_ensure(lb_info, old, "old"))
        kept = await connected(proxy)
        first = await said(kept)
        await driver.ensure_backend(an_ensure(lb_info, new, "new"))

        going_on = await driver.drain_backend(a_drain(lb_info, "old"))
        others = [await connected(proxy) for _ in range(4)]
        elsewhere = {await said(one) for one in others}
        again = await said(kept)
        kept[1].close()
        await until_drained(driver, lb_info, "old")
        gone = await driver.deregister_backend(a_deregister(lb_info, "old"))
        for _, writer in others:
            writer.close()

    assert isinstance(going_on, Running)
    assert 1 == going_on.active_connections
    assert ("old", "old", {"new"}) == (first, again, elsewhere)
    assert Succ(msg="") == gone


async def test_at_the_deadline_connections_are_ended(
    driver: HaproxyDriver, proxy: Haproxy
) -> None:
    """An idle connection could last for days: it ends with its member's time."""
    lb_info = an_identity(proxy, backend="tcp")
    async with repeating("old") as old:
        await driver.ensure_backend(an_ensure(lb_info, old, "old"))
        kept = await connected(proxy)
        first = await said(kept)

        gone = await driver.deregister_backend(
            a_deregister(lb_info, "old", drained=False)
        )
        after = await said(kept)
        kept[1].close()

    assert ("old", Succ(msg=""), "") == (first, gone, after)


async def test_an_ipv6_member_serves(
    driver: HaproxyDriver,
    proxy: Haproxy,
    start_server: StartServer,
    client: ClientSession,
) -> None:
    """A member whose address is IPv6 serves, and goes as any other."""
    lb_info = an_identity(proxy)
    server = await start_server("six", "::1")
    await driver.ensure_backend(an_ensure(lb_info, server.address, "six"))

    answer = await ask(client, proxy.url)
    await until_drained(driver, lb_info, "six")
    gone = await driver.deregister_backend(a_deregister(lb_info, "six"))

    assert ("six", Succ(msg="")) == (answer, gone)
