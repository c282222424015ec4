"""The driver puts back what a reload or a restart of HAProxy has lost, by itself."""

import asyncio

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import ClassVar

import attrs
import pytest

from structlog.testing import capture_logs

from lbcf.sdk import (
    CreateLoadBalancerRequest,
    DeleteLoadBalancerRequest,
    EnsureLoadBalancerRequest,
    Fail,
    Running,
    Succ,
)
from tests.fakes.clock import VirtualClock
from tests.haproxy.conftest import ANYWHERE, HERE, StartProxy, StartServer, patient
from tests.haproxy.driver_process import HERE as LOOPBACK
from tests.haproxy.driver_process import serving
from tests.haproxy.proxy import Haproxy
from tests.haproxy.reloads import SteadyTraffic, members, register, reload_under
from tests.haproxy.requests import (
    QUICK_CHECK,
    a_deregister,
    a_drain,
    an_ensure,
    an_identity,
)
from tests.haproxy.waiting import until
from tests.webhooks.requests import RECORD, a_list
from tests.webhooks.troubled import settled
from webhooks.haproxy.connection import Limits
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.errors import NoAnswer
from webhooks.haproxy.load_balancers import LoadBalancers
from webhooks.haproxy.memory import LATE, TRUST
from webhooks.haproxy.runtime_api import RuntimeApi


pytestmark = pytest.mark.haproxy


@pytest.fixture(name="driver")
async def _driver() -> AsyncIterator[HaproxyDriver]:
    """Return a driver that looks for reloads."""
    limits = Limits(patience=timedelta(seconds=2))
    driver = HaproxyDriver(LoadBalancers(ANYWHERE, limits, True, addresses=HERE))
    await driver.start()
    try:
        yield driver
    finally:
        await driver.stop()


async def reloaded(proxy: Haproxy) -> None:
    """Have the members lost while HAProxy serves on."""
    await proxy.reload()


async def restarted(proxy: Haproxy) -> None:
    """Have them lost with everything else."""
    await proxy.stop()
    await proxy.restart()


async def until_back(proxy: Haproxy, *names: str, backend: str = "web") -> None:
    """Wait until these servers are there again, asking HAProxy alone."""

    async def are_back() -> bool:
        return set(names) <= set(await proxy.rows(backend))

    await until(are_back)


@pytest.mark.parametrize("lose", [reloaded, restarted])
async def test_members_come_back_without_any_call(
    driver: HaproxyDriver,
    proxy: Haproxy,
    lose: Callable[[Haproxy], Awaitable[None]],
) -> None:
    """Address, weight and state are as they were; the servers of others, too."""
    lb_info = an_identity(proxy)
    for number in range(30):
        parameters = {"check": "false", "weight": str(number)}
        ensure = an_ensure(lb_info, f"127.0.1.{number + 1}:80", f"{number}", parameters)
        await driver.ensure_backend(ensure)
    before = await proxy.rows()

    await lose(proxy)
    await until_back(proxy, *before)

    assert before == await proxy.rows()


async def test_a_member_that_is_drained_stays_drained(
    driver: HaproxyDriver, proxy: Haproxy
) -> None:
    """It comes back for the clients that know it, and for nobody else."""
    lb_info = an_identity(proxy)
    for record, address in (("goes", "127.0.1.1:80"), ("stays", "127.0.1.2:80")):
        await driver.ensure_backend(an_ensure(lb_info, address, record))
    await driver.drain_backend(a_drain(lb_info, "goes"))
    before = await proxy.rows()

    await proxy.reload()
    await until_back(proxy, "lbcf-goes", "lbcf-stays")

    assert before == await proxy.rows()


async def test_what_is_deregistered_never_comes_back(
    driver: HaproxyDriver, proxy: Haproxy
) -> None:
    """Not after it, nor where a reload falls into it: the driver forgets it first."""
    lb_info = an_identity(proxy)
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80", "stays"))
    for number in range(10):
        record = f"goes-{number}"
        ensure = an_ensure(lb_info, "127.0.1.2:80", record)
        await settled(lambda: driver.ensure_backend(ensure))  # noqa: B023
        async with asyncio.TaskGroup() as group:
            group.create_task(proxy.reload())
            await asyncio.sleep(number * 0.02)
            request = a_deregister(lb_info, record)
            await settled(lambda: driver.deregister_backend(request))  # noqa: B023
            assert f"lbcf-{record}" not in await proxy.ours()
        await until_back(proxy, "lbcf-stays")

        assert ["lbcf-stays"] == await proxy.ours()


async def test_members_that_serve_come_back_in_service(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer
) -> None:
    """One whose checks passed waits for none; one whose checks failed serves nobody."""
    lb_info = an_identity(proxy)
    slow = {"inter": "60s", "downinter": "100ms"}
    up = (await start_server("up")).address
    await driver.ensure_backend(an_ensure(lb_info, up, "up", slow))
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.9:9", "down", slow))

    async def is_known_to_be_up() -> bool:
        return "2" == (await proxy.rows())["lbcf-up"]["srv_op_state"] and all(
            one.passed == (str(one.target.name) == "lbcf-up")
            for api in driver.load_balancers.remembered()
            for one in api.memory.members
        )

    await until(is_known_to_be_up)

    await proxy.reload()
    await until_back(proxy, "lbcf-up", "lbcf-down")
    rows = await proxy.rows()

    assert "2" == rows["lbcf-up"]["srv_op_state"]
    assert "0" == rows["lbcf-down"]["srv_op_state"]


async def test_members_come_back_over_tcp(
    driver: HaproxyDriver, proxy: Haproxy
) -> None:
    """Where lines are short, it takes several of them."""
    lb_info = {"sockets": f"127.0.0.1:{proxy.runtime_port}", "backend": "tcp"}
    for number in range(20):
        ensure = an_ensure(
            lb_info, f"127.0.1.{number + 1}:80", f"{number}", QUICK_CHECK
        )
        await driver.ensure_backend(ensure)
    names = list(await proxy.rows("tcp"))

    await proxy.reload()
    await until_back(proxy, *names, backend="tcp")

    assert set(names) == set(await proxy.rows("tcp"))


async def test_what_somebody_else_takes_out_is_not_put_back(
    driver: HaproxyDriver, proxy: Haproxy
) -> None:
    """A server that was seen to be missing is forgotten; by listBackends it is told."""
    lb_info = an_identity(proxy)
    for record, address in (("goes", "127.0.1.1:80"), ("stays", "127.0.1.2:80")):
        await driver.ensure_backend(an_ensure(lb_info, address, record))
    await proxy.ask("set server web/lbcf-goes state maint;del server web/lbcf-goes")

    async def is_forgotten() -> bool:
        return [1] == [api.memory.count for api in driver.load_balancers.remembered()]

    await until(is_forgotten)
    await proxy.reload()
    await until_back(proxy, "lbcf-stays")

    assert ["lbcf-stays"] == await proxy.ours()


async def test_a_backend_that_is_gone_keeps_no_other_from_its_members(
    driver: HaproxyDriver, proxy: Haproxy
) -> None:
    """The operator has taken it out of the configuration: the others come back."""
    for backend in ("consistent", "web"):
        lb_info = an_identity(proxy, backend=backend)
        await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))
    text = (proxy.folder / "haproxy.cfg").read_text()
    kept, _, _ = text.partition("backend consistent")
    (proxy.folder / "haproxy.cfg").write_text(kept)

    await proxy.reload()
    await until_back(proxy, f"lbcf-{RECORD}")

    async def is_forgotten() -> bool:
        return [["web"]] == [
            api.memory.backends for api in driver.load_balancers.remembered()
        ]

    await until(is_forgotten)


async def test_nothing_comes_back_where_others_may_deregister(
    proxy: Haproxy,
) -> None:
    """Without `--restore` nothing is remembered."""
    driver = patient(HaproxyDriver, addresses=HERE)
    await driver.start()
    lb_info = an_identity(proxy)
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))

    await proxy.reload()
    listed = await driver.list_backends(a_list(lb_info))
    await driver.stop()

    assert [] == listed.backends
    assert [] == await proxy.ours()


async def test_a_listing_shows_another_epoch_and_the_members(
    driver: HaproxyDriver, proxy: Haproxy
) -> None:
    """They are back before anybody looks; the controller ensures all of them anyway."""
    lb_info = an_identity(proxy)
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))
    before = await driver.list_backends(a_list(lb_info))

    await proxy.reload()
    after = await driver.list_backends(a_list(lb_info))

    assert before.backends == after.backends
    assert before.epoch != after.epoch


@pytest.mark.parametrize(("dry_run", "remembered"), [(False, 0), (True, 1)])
async def test_a_deleted_load_balancer_leaves_nothing_to_put_back(
    driver: HaproxyDriver, proxy: Haproxy, dry_run: bool, remembered: int
) -> None:
    """What was abandoned in it goes with the next reload, unless it was a dry run."""
    lb_info = an_identity(proxy)
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))
    await driver.delete_load_balancer(
        DeleteLoadBalancerRequest(record_id=RECORD, lb_info=lb_info, dry_run=dry_run)
    )

    assert remembered == len(driver.load_balancers.remembered())


def created(
    driver: HaproxyDriver, name: str, lb_info: dict[str, str]
) -> Awaitable[Succ]:
    """Have a load balancer created."""
    return driver.create_load_balancer(
        CreateLoadBalancerRequest(record_id=name, lb_spec=lb_info)
    )


def ensured(
    driver: HaproxyDriver, name: str, lb_info: dict[str, str]
) -> Awaitable[Succ]:
    """Have a load balancer ensured that was created by an earlier process."""
    return driver.ensure_load_balancer(
        EnsureLoadBalancerRequest(record_id=name, lb_info=lb_info)
    )


@pytest.mark.parametrize("begin", [created, ensured])
@pytest.mark.parametrize("lost", [False, True])
async def test_members_outlive_another_load_balancer_of_their_pool(
    driver: HaproxyDriver,
    proxy: Haproxy,
    begin: Callable[[HaproxyDriver, str, dict[str, str]], Awaitable[Succ]],
    lost: bool,
) -> None:
    """They are put back as long as one that may have them is there, however it is spelled.

    The answer to its creation may have been lost: it is deleted by its lbSpec then.
    """
    lb_info = an_identity(proxy)
    for name in ("first", "second"):
        await begin(driver, name, lb_info)
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))

    known = {} if lost else lb_info
    await driver.delete_load_balancer(
        DeleteLoadBalancerRequest(record_id="first", lb_info=known, lb_spec=lb_info)
    )
    meanwhile = len(driver.load_balancers.remembered())
    await driver.delete_load_balancer(
        DeleteLoadBalancerRequest(record_id="second", lb_info=lb_info)
    )

    assert 1 == meanwhile
    assert [] == driver.load_balancers.remembered()


@attrs.define(eq=False)
class HangingApi(RuntimeApi):
    """The client of a real HAProxy which hangs as soon as members are put back."""

    async def ask(self, line: str) -> str:
        """Send no line with which members come back, and get no answer to it."""
        if line.count("add server") and self.memory.generation is not None:
            raise NoAnswer("HAProxy hangs")
        return await super().ask(line)


@attrs.define(eq=False)
class BrokenApi(RuntimeApi):
    """The client of a real HAProxy which breaks down at the next look.

    Attributes:
        breaks: where, and how; None: no more.
    """

    breaks: ClassVar[tuple[str, BaseException] | None] = None

    async def look(self) -> bool:
        """Break down, by a fault of ours or of a library's."""
        if self.breaks is not None and self.breaks[0] == str(self.endpoint):
            _, error = self.breaks
            type(self).breaks = None
            raise error
        return await super().look()


@pytest.mark.parametrize("error", [RuntimeError("odd"), asyncio.CancelledError()])
async def test_a_look_that_breaks_down_ends_no_other(
    start_proxy: StartProxy, error: BaseException
) -> None:
    """Neither that HAProxy nor another one is left without looks; the log tells."""
    proxies = await start_proxy(), await start_proxy()
    balancers = LoadBalancers(
        ANYWHERE, restores=True, connect=BrokenApi, addresses=HERE
    )
    driver = HaproxyDriver(balancers)
    for proxy in proxies:
        await driver.ensure_backend(an_ensure(an_identity(proxy), "127.0.1.1:80"))
    BrokenApi.breaks = (proxies[0].socket, error)

    with capture_logs() as logs:
        await driver.start()
        try:
            await until(lambda: _is_told(logs))
            for proxy in proxies:
                await proxy.reload()
                await until_back(proxy, f"lbcf-{RECORD}")
        finally:
            await driver.stop()


async def _is_told(logs: Sequence[Mapping[str, object]]) -> bool:
    return any(one["event"] == "haproxy.watch_failed" for one in logs)


async def test_what_may_come_back_yet_is_not_called_deregistered(
    proxy: Haproxy,
) -> None:
    """A line that nobody answered is in HAProxy's queue: until it is too old, Running."""
    balancers = LoadBalancers(
        ANYWHERE, restores=True, connect=HangingApi, addresses=HERE
    )
    driver = HaproxyDriver(balancers)
    lb_info = an_identity(proxy)
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))
    [api] = balancers.remembered()
    clock = api.memory.clock = VirtualClock()
    api.memory.confirm(api.generation)

    await proxy.reload()
    with pytest.raises(Fail, match="HAProxy hangs"):
        await driver.list_backends(a_list(lb_info))
    meanwhile = await driver.deregister_backend(a_deregister(lb_info))
    clock.advance(LATE + api.limits.patience)
    at_last = await driver.deregister_backend(a_deregister(lb_info))

    assert isinstance(meanwhile, Running)
    assert isinstance(at_last, Succ)


async def test_what_was_long_unseen_is_not_put_back(proxy: Haproxy) -> None:
    """The driver hung: another process may have taken its place meanwhile."""
    driver = patient(HaproxyDriver, restores=True, addresses=HERE)
    lb_info = an_identity(proxy)
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))
    [api] = driver.load_balancers.remembered()
    clock = api.memory.clock = VirtualClock()
    api.memory.confirm(api.generation)

    clock.advance(TRUST + timedelta(seconds=1))
    await proxy.reload()
    listed = await driver.list_backends(a_list(lb_info))

    assert [] == listed.backends
    assert [] == await proxy.ours()


async def test_no_request_fails_in_reloads(proxy: Haproxy) -> None:
    """With the configuration of the docs requests wait until the members are back."""
    flags = (*LOOPBACK, "--restore", "--allow-sockets", proxy.socket)
    async with serving(*flags) as running, members(8) as addresses:
        lb_info = an_identity(proxy, backend="waiting")
        names = await register(running.url, lb_info, addresses)
        traffic = SteadyTraffic(proxy.url_of("waiting"), rate=200)
        reloads = await reload_under(proxy, traffic, names, times=5)

    assert 5 == len(reloads)
    assert traffic.answers["member"] > 0
    assert 0 == traffic.failed, traffic.answers


async def test_a_server_that_has_requests_wait_serves_none(
    driver: HaproxyDriver, proxy: Haproxy
) -> None:
    """The last member that serves stays while another waits for its first check."""
    lb_info = an_identity(proxy, backend="waiting")
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80", "old"))
    dead = an_ensure(lb_info, "127.0.1.9:9", "new", QUICK_CHECK)
    await driver.ensure_backend(dead)

    answer = await driver.drain_backend(a_drain(lb_info, "old"))

    assert isinstance(answer, Running)
    assert "until another member has passed its first checks" in str(answer.msg)
