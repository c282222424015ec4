"""Taking members out that still have requests on them, or are not there."""

import asyncio

import pytest

from aiohttp import ClientSession
from msgspec import structs

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
from tests.haproxy.waiting import until
from tests.haproxy.web import WebServer, ask
from tests.webhooks.requests import RECORD
from webhooks.haproxy.driver import HaproxyDriver


pytestmark = pytest.mark.haproxy

NAME = f"lbcf-{RECORD}"


async def held_request(
    driver: HaproxyDriver, proxy: Haproxy, server: WebServer, client: ClientSession
) -> asyncio.Task[str]:
    """Register the server and send a request that it holds."""
    await driver.ensure_backend(an_ensure(an_identity(proxy), server.address))
    held = asyncio.create_task(ask(client, f"{proxy.url}/slow"))

    async def arrived() -> bool:
        return server.waiting == 1

    await until(arrived)
    return held


async def test_past_the_deadline_what_is_left_is_cut(
    driver: HaproxyDriver,
    proxy: Haproxy,
    start_server: StartServer,
    client: ClientSession,
) -> None:
    """A member that was not drained to the end goes at once, and its requests fail."""
    held = await held_request(driver, proxy, await start_server("cut"), client)

    answer = await driver.deregister_backend(
        a_deregister(an_identity(proxy), drained=False)
    )

    assert isinstance(answer, Succ)
    assert [] == await proxy.ours()
    # Newer versions tell that the server has gone, not what it had answered.
    assert await held in {"502", "503"}


async def test_a_drained_member_is_not_cut(
    driver: HaproxyDriver,
    proxy: Haproxy,
    start_server: StartServer,
    client: ClientSession,
) -> None:
    """A request that came after all is let finish; the member goes after it."""
    server = await start_server("kept")
    held = await held_request(driver, proxy, server, client)
    request = a_deregister(an_identity(proxy), drained=True)

    going_on = await driver.deregister_backend(request)
    still_there = await proxy.ours()
    server.release()
    kept = await held

    async def is_out() -> bool:
        return isinstance(await driver.deregister_backend(request), Succ)

    await until(is_out)
    assert isinstance(going_on, Running)
    assert "1 left" in (going_on.msg or "")
    assert [NAME] == still_there
    assert "kept" == kept
    assert [] == await proxy.ours()


async def test_a_drain_leaves_a_member_in_maintenance_there(
    driver: HaproxyDriver,
    proxy: Haproxy,
    start_server: StartServer,
    client: ClientSession,
) -> None:
    """Draining what is in maintenance waits for its requests, and lets nobody in."""
    server = await start_server("resting")
    held = await held_request(driver, proxy, server, client)
    await proxy.ask(f"set server web/{NAME} state maint")

    going_on = await driver.drain_backend(a_drain(an_identity(proxy)))
    state = (await proxy.rows())[NAME]["srv_admin_state"]
    server.release()
    await held

    assert isinstance(going_on, Running)
    assert "1" == state
    await until_drained(driver, an_identity(proxy), RECORD)


async def test_a_dry_run_changes_nothing(driver: HaproxyDriver, proxy: Haproxy) -> None:
    """No operation of a dry run sends a command that changes something."""
    lb_info = an_identity(proxy)
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))
    before = await proxy.rows()
    ensure = an_ensure(lb_info, "127.0.1.1:80", "dry")

    await driver.ensure_backend(structs.replace(ensure, dry_run=True))
    await driver.drain_backend(structs.replace(a_drain(lb_info), dry_run=True))
    await driver.deregister_backend(
        structs.replace(a_deregister(lb_info), dry_run=True)
    )

    assert before == await proxy.rows()
