"""A member's whole life: registered, drained, deregistered, while requests flow."""

import asyncio

import pytest

from aiohttp import ClientSession

from lbcf.sdk import BackendState, Running, Succ
from tests.haproxy.conftest import StartServer
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import (
    NO_CHECK,
    QUICK_CHECK,
    a_deregister,
    a_drain,
    an_ensure,
    an_identity,
    until_drained,
)
from tests.haproxy.waiting import until
from tests.haproxy.web import Traffic, WebServer, ask
from tests.webhooks.requests import RECORD, a_list
from webhooks.haproxy.driver import HaproxyDriver


pytestmark = pytest.mark.haproxy


async def test_no_request_fails_while_members_come_and_go(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer
) -> None:
    """Ten members replace each other, with health checks; no request fails."""
    lb_info = an_identity(proxy)
    servers = [await start_server(f"server-{n}".lower()) for n in range(10)]
    traffic = Traffic(proxy.url)
    await driver.ensure_backend(
        an_ensure(lb_info, servers[0].address, "r-0", QUICK_CHECK)
    )
    await until(lambda: _is_up(proxy, "lbcf-r-0"))

    async with traffic.flowing():
        for number in range(1, 10):
            address = servers[number].address
            await driver.ensure_backend(
                an_ensure(lb_info, address, f"r-{number}", QUICK_CHECK)
            )
            await until_drained(driver, lb_info, f"r-{number - 1}")
            await driver.deregister_backend(a_deregister(lb_info, f"r-{number - 1}"))

    assert 0 == traffic.failed, traffic.answers
    assert {server.name for server in servers} <= set(traffic.answers)
    assert ["lbcf-r-9"] == await proxy.ours()


async def _is_up(proxy: Haproxy, name: str) -> bool:
    """Tell whether a server gets requests."""
    return (await proxy.rows())[name]["srv_op_state"] == "2"


async def test_a_dead_member_gets_no_request(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer
) -> None:
    """A member that nobody listens on is never sent a request, not even at first."""
    lb_info = an_identity(proxy)
    alive = await start_server("alive")
    dead = await start_server("dead", listens=False)
    await driver.ensure_backend(an_ensure(lb_info, alive.address, "alive"))
    traffic = Traffic(proxy.url)

    async with traffic.flowing():
        answer = await driver.ensure_backend(
            an_ensure(lb_info, dead.address, "dead", QUICK_CHECK)
        )
        await until(lambda: traffic.has_served(100))

    assert "first health checks" in (answer.msg or "")
    assert False is answer.in_service
    assert {"alive"} == set(traffic.answers)


@pytest.mark.parametrize("together", [False, True])
async def test_a_member_is_in_service_once_its_checks_pass(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer, together: bool
) -> None:
    """Each answer says so, alone and in a batch, as the list does; at once without checks."""
    lb_info, server = an_identity(proxy), await start_server("up", listens=False)
    checked = an_ensure(lb_info, server.address, "checked", QUICK_CHECK)
    unchecked = an_ensure(lb_info, server.address, "unchecked", NO_CHECK)

    async def in_service() -> list[object]:
        """Ensure both, and return what is said of them."""
        asked = [checked, unchecked]
        if together:
            said = await driver.ensure_backends(asked)
            found = [said[one.record_id] for one in asked]
        else:
            found = [await driver.ensure_backend(one) for one in asked]
        return [one.in_service for one in found if isinstance(one, Succ)]

    async def is_up() -> bool:
        """Look at the list."""
        listed = (await driver.list_backends(a_list(lb_info))).backends
        return all(one.state is BackendState.ACTIVE for one in listed)

    first = await in_service()
    await server.listen()
    await until(is_up)

    assert [False, True] == first
    assert [True, True] == await in_service()


async def test_a_drain_waits_for_what_runs(
    driver: HaproxyDriver,
    proxy: Haproxy,
    start_server: StartServer,
    client: ClientSession,
) -> None:
    """A request in progress holds the drain; nothing new comes; it ends with it."""
    lb_info = an_identity(proxy)
    server = await start_server("old")
    await driver.ensure_backend(an_ensure(lb_info, server.address))
    held = asyncio.create_task(ask(client, f"{proxy.url}/slow"))
    await until(lambda: _holds(server, 1))

    going_on = await driver.drain_backend(a_drain(lb_info))
    refused = await ask(client, proxy.url)
    server.release()
    answer = await held
    await until_drained(driver, lb_info, RECORD)

    assert isinstance(going_on, Running)
    assert 1 == going_on.active_connections
    assert ("503", "old") == (refused, answer)


async def _holds(server: WebServer, count: int) -> bool:
    """Tell whether so many requests are held by the server."""
    return server.waiting == count


async def test_the_last_one_stays_until_another_serves(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer
) -> None:
    """A drain begins once another member has passed its checks; no request fails."""
    lb_info = an_identity(proxy)
    old, new = await start_server("old"), await start_server("new", listens=False)
    await driver.ensure_backend(an_ensure(lb_info, old.address, "old"))
    traffic = Traffic(proxy.url)

    async with traffic.flowing():
        await driver.ensure_backend(an_ensure(lb_info, new.address, "new", QUICK_CHECK))
        going_on = await driver.drain_backend(a_drain(lb_info, "old"))
        before = (await proxy.rows())["lbcf-old"]["srv_admin_state"]
        await new.listen()
        await until(lambda: _is_up(proxy, "lbcf-new"))
        await until_drained(driver, lb_info, "old")
        await until(lambda: _has_answered(traffic, "new"))

    assert isinstance(going_on, Running)
    assert "another member" in (going_on.msg or "")
    assert "0" == before
    assert {"old", "new"} == set(traffic.answers)


async def _has_answered(traffic: Traffic, name: str) -> bool:
    """Tell whether a server has answered a request."""
    return name in traffic.answers


async def test_one_of_many_does_not_stay(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer
) -> None:
    """A drain begins at once where others serve, though one waits for its checks."""
    lb_info = an_identity(proxy)
    server = await start_server("any")
    for record in ("old", "other"):
        await driver.ensure_backend(an_ensure(lb_info, server.address, record))
    never = {"inter": "1m", "downinter": "1m"}
    await driver.ensure_backend(an_ensure(lb_info, server.address, "new", never))

    answer = await driver.drain_backend(a_drain(lb_info, "old"))

    assert isinstance(answer, Succ)


async def test_a_member_that_warms_up_serves(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer
) -> None:
    """With `slowstart` it gets less than its share at first: it is in, and none stays for it."""
    lb_info = an_identity(proxy)
    old, new = await start_server("old"), await start_server("new")
    slowly = QUICK_CHECK | {"slowstart": "1m"}
    await driver.ensure_backend(an_ensure(lb_info, old.address, "old"))
    ensure = an_ensure(lb_info, new.address, "new", slowly)
    await driver.ensure_backend(ensure)
    await until(lambda: _is_in_state(proxy, "lbcf-new", "1"))

    again = await driver.ensure_backend(ensure)
    listed = (await driver.list_backends(a_list(lb_info))).backends
    answer = await driver.drain_backend(a_drain(lb_info, "old"))
    row = (await proxy.rows())["lbcf-new"]

    assert isinstance(answer, Succ)
    assert again.in_service
    assert {BackendState.ACTIVE} == {one.state for one in listed}
    assert "1" == row["srv_op_state"]


async def _is_in_state(
    proxy: Haproxy, name: str, operation: str, backend: str = "web"
) -> bool:
    """Tell whether a server has this srv_op_state."""
    return (await proxy.rows(backend))[name]["srv_op_state"] == operation


async def test_nobody_stays_for_a_stranger_that_is_down(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer
) -> None:
    """A server of the configuration that never passes its checks holds up no drain."""
    lb_info = an_identity(proxy, backend="leaving")
    server = await start_server("last")
    await driver.ensure_backend(an_ensure(lb_info, server.address, "last"))
    await until(lambda: _is_in_state(proxy, "foreign-1", "0", "leaving"))

    answer = await driver.drain_backend(a_drain(lb_info, "last"))

    assert isinstance(answer, Succ)


async def test_a_member_that_leaves_by_its_checks(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer
) -> None:
    """It gets nobody new (`disable-on-404`): it is Down, and the last one does not stay."""
    lb_info = an_identity(proxy, backend="leaving")
    leaver, last = await start_server("leaver"), await start_server("last")
    ensure = an_ensure(lb_info, leaver.address, "leaver", QUICK_CHECK)
    await driver.ensure_backend(ensure)
    await driver.ensure_backend(an_ensure(lb_info, last.address, "last"))
    await until(lambda: _is_in_state(proxy, "lbcf-leaver", "2", "leaving"))
    leaver.leaves = True
    await until(lambda: _is_in_state(proxy, "lbcf-leaver", "3", "leaving"))

    again = await driver.ensure_backend(ensure)
    listed = (await driver.list_backends(a_list(lb_info))).backends
    answer = await driver.drain_backend(a_drain(lb_info, "last"))

    assert False is again.in_service
    assert {
        "leaver": (BackendState.DOWN, "NOLB"),
        "last": (BackendState.ACTIVE, ""),
    } == {one.record_id: (one.state, one.reason or "") for one in listed}
    assert isinstance(answer, Succ)


async def test_ensure_ends_a_drain(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer,
    client: ClientSession,
) -> None:  # fmt: skip
    """A member that was drained, and is ensured, serves again at once."""
    lb_info = an_identity(proxy)
    server = await start_server("back")
    request = an_ensure(lb_info, server.address, parameters=QUICK_CHECK)
    await driver.ensure_backend(request)
    await until(lambda: _is_up(proxy, f"lbcf-{RECORD}"))
    await until_drained(driver, lb_info, RECORD)

    await driver.ensure_backend(request)

    assert "back" == await ask(client, proxy.url)


async def test_the_same_address_twice(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer,
    client: ClientSession,
) -> None:  # fmt: skip
    """Two records hold one address; the end of one leaves the other in service."""
    lb_info = an_identity(proxy)
    server = await start_server("shared")
    for record in ("one", "two"):
        await driver.ensure_backend(an_ensure(lb_info, server.address, record))

    await driver.drain_backend(a_drain(lb_info, "one"))
    await driver.deregister_backend(a_deregister(lb_info, "one"))

    assert ["lbcf-two"] == await proxy.ours()
    assert "shared" == await ask(client, proxy.url)
