"""The driver dies at each of its lines to HAProxy; a new one makes everything right."""

import pytest

from lbcf.sdk import Succ
from tests.haproxy.conftest import StartServer
from tests.haproxy.crash import Crashed, Fuse, a_crashing_driver, fuses
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import (
    QUICK_CHECK,
    a_deregister,
    an_ensure,
    an_identity,
    until_drained,
)
from tests.haproxy.web import Traffic
from tests.webhooks.requests import RECORD
from webhooks.haproxy.driver import HaproxyDriver


pytestmark = pytest.mark.haproxy

NAME = f"lbcf-{RECORD}"


async def ensured(driver: HaproxyDriver, proxy: Haproxy, address: str) -> None:
    """Ensure the member, with a health check."""
    lb_info = an_identity(proxy)
    await driver.ensure_backend(an_ensure(lb_info, address, parameters=QUICK_CHECK))


async def taken_out(driver: HaproxyDriver, proxy: Haproxy) -> None:
    """Drain the member until nothing is left, then deregister it."""
    lb_info = an_identity(proxy)
    await until_drained(driver, lb_info, RECORD)
    assert isinstance(await driver.deregister_backend(a_deregister(lb_info)), Succ)


async def survived(driver: HaproxyDriver, proxy: Haproxy, address: str) -> bool:
    """Lead the member through its life; tell whether the driver lived as long."""
    try:
        await ensured(driver, proxy, address)
        await taken_out(driver, proxy)
    except Crashed:
        return False
    return True


def _endless() -> Fuse:
    """Return a fuse that does not blow."""
    return Fuse(lines=10**9, sent=False)


async def test_killed_at_any_line_and_deregistered(
    proxy: Haproxy, start_server: StartServer
) -> None:
    """Whatever was left behind is taken out; others and their requests feel nothing."""
    lb_info = an_identity(proxy)
    stays, comes = await start_server("stays"), await start_server("comes")
    healthy = a_crashing_driver(_endless())
    await healthy.ensure_backend(an_ensure(lb_info, stays.address, "stays"))
    before = await proxy.foreign()
    traffic = Traffic(proxy.url)

    async with traffic.flowing(people=4):
        crashes = 0
        for fuse in fuses():
            if await survived(a_crashing_driver(fuse), proxy, comes.address):
                break
            crashes += 1
            await taken_out(healthy, proxy)
            assert ["lbcf-stays"] == await proxy.ours(), fuse

    assert crashes >= 20
    assert before == await proxy.foreign()
    assert 0 == traffic.failed, traffic.answers


async def test_killed_at_any_line_and_ensured(
    proxy: Haproxy, start_server: StartServer
) -> None:
    """Whatever was left behind, an ensure after it brings the member into service."""
    server = await start_server("comes")
    healthy = a_crashing_driver(_endless())
    before = await proxy.foreign()

    crashes = 0
    for fuse in fuses():
        alive = await survived(a_crashing_driver(fuse), proxy, server.address)
        await ensured(healthy, proxy, server.address)
        assert "0" == (await proxy.rows())[NAME]["srv_admin_state"], fuse
        await taken_out(healthy, proxy)
        if alive:
            break
        crashes += 1

    assert crashes >= 20
    assert before == await proxy.foreign()
