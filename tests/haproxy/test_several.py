"""Several HAProxys behind one load balancer, and many operations at once."""

import asyncio

import pytest

from aiohttp import ClientSession

from lbcf.sdk import BackendState, Fail, Running
from tests.haproxy.conftest import StartProxy, StartServer
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import (
    a_deregister,
    a_drain,
    an_ensure,
    an_identity,
    until_drained,
)
from tests.haproxy.waiting import until
from tests.haproxy.web import ask
from tests.webhooks.requests import RECORD, a_list
from webhooks.haproxy.driver import HaproxyDriver


pytestmark = pytest.mark.haproxy

NAME = f"lbcf-{RECORD}"


async def test_each_operation_is_for_all(
    driver: HaproxyDriver,
    start_proxy: StartProxy,
    start_server: StartServer,
    client: ClientSession,
) -> None:
    """A member serves at both HAProxys, its requests are summed, it leaves both."""
    first, second = await start_proxy(), await start_proxy()
    lb_info = an_identity(first, second)
    server = await start_server("both")
    await driver.ensure_backend(an_ensure(lb_info, server.address))
    held = [
        asyncio.create_task(ask(client, f"{proxy.url}/slow"))
        for proxy in (first, second, second)
    ]

    async def arrived() -> bool:
        return server.waiting == 3

    await until(arrived)
    going_on = await driver.drain_backend(a_drain(lb_info))
    listed = await driver.list_backends(a_list(lb_info))
    server.release()
    answers = await asyncio.gather(*held)
    await until_drained(driver, lb_info, RECORD)
    await driver.deregister_backend(a_deregister(lb_info))

    assert isinstance(going_on, Running)
    assert 3 == going_on.active_connections == listed.backends[0].active_connections
    assert ["both"] * 3 == answers
    assert [[], []] == [await first.ours(), await second.ours()]


async def test_a_request_on_one_of_two(
    driver: HaproxyDriver,
    start_proxy: StartProxy,
    start_server: StartServer,
    client: ClientSession,
) -> None:
    """What one HAProxy still has holds the drain, whatever the other one says."""
    first, second = await start_proxy(), await start_proxy()
    lb_info = an_identity(first, second)
    server = await start_server("busy")
    await driver.ensure_backend(an_ensure(lb_info, server.address))
    held = asyncio.create_task(ask(client, f"{second.url}/slow"))

    async def arrived() -> bool:
        return server.waiting == 1

    await until(arrived)
    answer = await driver.drain_backend(a_drain(lb_info))
    server.release()
    await held

    assert isinstance(answer, Running)
    assert 1 == answer.active_connections


async def test_one_of_two_is_down(
    driver: HaproxyDriver, start_proxy: StartProxy
) -> None:
    """All that can be done is done, and the answer fails with the one that is down.

    Once it is up, the next ensure brings the member to both.
    """
    up, down = await start_proxy(), await start_proxy()
    lb_info = an_identity(up, down)
    await down.stop()
    broken = f"1 of 2 HAProxys failed: HAProxy at {down.socket}"

    with pytest.raises(Fail, match=broken):
        await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))
    ensured = await up.ours()
    with pytest.raises(Fail, match=broken):
        await driver.list_backends(a_list(lb_info))
    with pytest.raises(Fail, match=broken):
        await driver.drain_backend(a_drain(lb_info))
    with pytest.raises(Fail, match=broken):
        await driver.deregister_backend(a_deregister(lb_info))

    taken_out = await up.ours()
    await down.restart()
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))

    assert ([NAME], []) == (ensured, taken_out)
    assert [[NAME], [NAME]] == [await up.ours(), await down.ours()]


async def test_lost_by_one_of_two(
    driver: HaproxyDriver, start_proxy: StartProxy
) -> None:
    """A member that one HAProxy lost is Down, in a new epoch; an ensure repairs it."""
    kept, lost = await start_proxy(), await start_proxy()
    lb_info = an_identity(kept, lost)
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))
    before = await driver.list_backends(a_list(lb_info))

    await lost.reload()
    after = await driver.list_backends(a_list(lb_info))
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))
    repaired = await driver.list_backends(a_list(lb_info))

    states = [a.backends[0].state for a in (before, after, repaired)]
    assert [BackendState.ACTIVE, BackendState.DOWN, BackendState.ACTIVE] == states
    assert before.epoch != after.epoch == repaired.epoch


async def test_over_tcp(driver: HaproxyDriver, proxy: Haproxy) -> None:
    """A HAProxy is as well reached over TCP, under its address and port."""
    lb_info = {"sockets": f"127.0.0.1:{proxy.runtime_port}", "backend": "web"}

    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))

    assert [NAME] == await proxy.ours()


async def test_an_ipv6_member(driver: HaproxyDriver, proxy: Haproxy) -> None:
    """A member with an IPv6 address is registered, ensured again and listed."""
    lb_info = an_identity(proxy)
    address = "[2001:db8::7]:8080"
    for _ in range(2):
        await driver.ensure_backend(an_ensure(lb_info, address))

    listed = await driver.list_backends(a_list(lb_info))

    assert [address] == [one.backend_addr for one in listed.backends]


async def test_many_members_at_once(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer
) -> None:
    """A hundred members are led through their lives side by side; none is left."""
    lb_info = an_identity(proxy)
    address = (await start_server("crowd")).address
    before = await proxy.foreign()

    async def life(record: str) -> None:
        await driver.ensure_backend(an_ensure(lb_info, address, record))
        await driver.drain_backend(a_drain(lb_info, record))
        await driver.deregister_backend(a_deregister(lb_info, record))

    await asyncio.gather(*(life(f"crowd-{number}") for number in range(100)))

    assert [] == await proxy.ours()
    assert before == await proxy.foreign()
