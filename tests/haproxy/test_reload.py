"""A reload, a restart or a hand loses members; it is told, and an ensure repairs."""

from collections.abc import Awaitable, Callable
from typing import ClassVar

import pytest

from aiohttp import ClientSession

from lbcf.sdk import Fail, Succ
from tests.haproxy.conftest import StartServer
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import a_deregister, a_drain, an_ensure, an_identity
from tests.haproxy.web import ask
from tests.webhooks.requests import RECORD, a_list
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.endpoints import Endpoint
from webhooks.haproxy.errors import Unreachable
from webhooks.haproxy.runtime_api import RELOAD_STEPS, RuntimeApi


pytestmark = pytest.mark.haproxy


async def reloaded(_driver: HaproxyDriver, proxy: Haproxy) -> None:
    """Have the members lost while HAProxy serves on."""
    await proxy.reload()


async def restarted(driver: HaproxyDriver, proxy: Haproxy) -> None:
    """Have them lost with everything else; while HAProxy is down that is said."""
    await proxy.stop()
    with pytest.raises(Fail, match=r"cannot be reached .*: is it running"):
        await driver.list_backends(a_list(an_identity(proxy)))
    await proxy.restart()


Lose = Callable[[HaproxyDriver, Haproxy], Awaitable[None]]


@pytest.mark.parametrize("lose", [reloaded, restarted])
async def test_lost_members_are_put_back(
    driver: HaproxyDriver,
    proxy: Haproxy,
    start_server: StartServer,
    client: ClientSession,
    lose: Lose,
) -> None:
    """The epoch is new then and the list empty; an ensure brings them back."""
    lb_info = an_identity(proxy)
    ensure = an_ensure(lb_info, (await start_server("again")).address)
    await driver.ensure_backend(ensure)
    before = await driver.list_backends(a_list(lb_info))

    await lose(driver, proxy)
    lost = await driver.list_backends(a_list(lb_info))
    await driver.ensure_backend(ensure)
    after = await driver.list_backends(a_list(lb_info))

    assert (1, 0, 1) == tuple(len(a.backends) for a in (before, lost, after))
    assert before.epoch != lost.epoch == after.epoch
    assert "again" == await ask(client, proxy.url)


@pytest.mark.parametrize("lose", [reloaded, restarted])
async def test_what_was_lost_can_be_taken_out(
    driver: HaproxyDriver, proxy: Haproxy, lose: Lose
) -> None:
    """A drain and a deregistration find nothing that is left."""
    lb_info = an_identity(proxy)
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))
    await lose(driver, proxy)

    assert isinstance(await driver.drain_backend(a_drain(lb_info)), Succ)
    assert isinstance(await driver.deregister_backend(a_deregister(lb_info)), Succ)
    assert [] == await proxy.ours()


async def test_ensuring_during_reloads(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer
) -> None:
    """Members that are ensured again after each change of epoch are all there."""
    lb_info = an_identity(proxy)
    address = (await start_server("many")).address
    records = [f"{RECORD}-{number}" for number in range(5)]

    for _ in range(3):
        await proxy.reload()
        for record in records:
            await driver.ensure_backend(an_ensure(lb_info, address, record))
    listed = await driver.list_backends(a_list(lb_info))

    assert set(records) == {one.record_id for one in listed.backends}


class TwoWorkers(RuntimeApi):
    """During a reload: each question is answered by the next of these processes."""

    workers: ClassVar[list[int]] = []

    async def ask(self, _: str) -> str:
        """Answer as the process would."""
        pid = self.workers.pop(0)
        head = f"Pid: {pid}\nStart_time_sec: 1\nStopping: 0\n\n1\n"
        return f"{head}# be_id srv_name\n\n"


async def test_an_old_worker_is_not_believed() -> None:
    """Once the new worker was seen, answers of the old one are asked for again."""
    api = TwoWorkers(Endpoint(path="/nowhere"))
    api.workers[:] = [1, 2, 1, 1, 2, 3, 2, 3]

    generations = [(await api.snapshot("web")).generation.pid for _ in range(5)]

    assert [1, 2, 2, 3, 3] == generations


async def test_a_reload_without_end_is_told() -> None:
    """Where the old worker alone goes on answering, that is said."""
    api = TwoWorkers(Endpoint(path="/nowhere"))
    api.workers[:] = [1, 2, *[1] * RELOAD_STEPS]
    for _ in range(2):
        await api.snapshot("web")

    with pytest.raises(Unreachable, match="/nowhere is being reloaded: ask again"):
        await api.snapshot("web")
