"""Members in slots: where HAProxy takes no servers at run time."""

import asyncio
import itertools

from typing import ClassVar

import attrs
import hypothesis
import pytest

from aiohttp import ClientSession
from hypothesis import strategies

from lbcf.sdk import (
    BackendState,
    BackendType,
    CreateLoadBalancerRequest,
    DeregisterBackendRequest,
    Fail,
    Running,
    Succ,
    ValidateBackendRequest,
)
from tests.haproxy.conftest import ANYWHERE, HERE, PATIENT, StartServer
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import an_ensure, an_identity
from tests.haproxy.waiting import until
from tests.haproxy.web import Traffic, WebServer, ask
from tests.webhooks.requests import RECORD, a_deregister, a_drain, a_list
from webhooks.haproxy import commands
from webhooks.haproxy.load_balancers import LoadBalancers, parse_identity
from webhooks.haproxy.members import SlotName, parse_address
from webhooks.haproxy.replies import FORCED_MAINTENANCE, Server
from webhooks.haproxy.runtime_api import RuntimeApi
from webhooks.haproxy.slot_driver import SlotDriver
from webhooks.haproxy.slots import FREE, Slot, next_to_ensure


NOWHERE = "127.0.1.9:9"
"""An address that nobody listens at."""

THEIRS = ("foreign-1", "lbcf.x")
"""Servers of somebody else; the name of one nearly is that of a slot."""


@pytest.fixture(name="driver")
def _driver() -> SlotDriver:
    """Return a driver that has never done anything."""
    balancers = LoadBalancers(ANYWHERE, PATIENT, addresses=HERE)
    return SlotDriver(balancers, patience=PATIENT.patience)


@pytest.fixture(name="lb_info")
def _lb_info(proxy: Haproxy) -> dict[str, str]:
    """Return the identity of a load balancer with three slots."""
    return an_identity(proxy, backend="slots")


async def ensured(driver: SlotDriver, lb_info: dict[str, str], address: str) -> Succ:
    """Ensure a member."""
    return await driver.ensure_backend(an_ensure(lb_info, address, parameters={}))


async def taken(proxy: Haproxy) -> dict[str, str]:
    """Return where the slots are that somebody has."""
    rows = await proxy.rows("slots")
    where = {
        name: f"{row['srv_addr']}:{row['srv_port']}"
        for name, row in rows.items()
        if name not in THEIRS
    }
    return {name: place for name, place in where.items() if place != "127.0.0.1:1"}


@pytest.mark.haproxy
class TestLife:
    """A member takes a slot, drains, and leaves it to the next."""

    async def test_no_request_fails_while_members_come_and_go(
        self,
        driver: SlotDriver,
        proxy: Haproxy,
        lb_info: dict[str, str],
        start_server: StartServer,
    ) -> None:
        """Six members replace each other in three slots, with health checks."""
        before = {name: (await proxy.rows("slots"))[name] for name in THEIRS}
        servers = [await start_server(f"server-{number}") for number in range(6)]
        traffic = Traffic(proxy.url_of("slots"))
        await ensured(driver, lb_info, servers[0].address)
        await until(lambda: _serves(driver, lb_info, servers[0].address))

        async with traffic.flowing():
            for old, new in itertools.pairwise(servers):
                await ensured(driver, lb_info, new.address)
                await until(lambda: _is_drained(driver, lb_info, old.address))  # noqa: B023
                request = a_deregister(lb_info, old.address)
                await until(lambda: _is_gone(driver, request))  # noqa: B023

        assert 0 == traffic.failed, traffic.answers
        assert {server.name for server in servers} <= set(traffic.answers)
        assert [servers[-1].address] == list((await taken(proxy)).values())
        after = {name: (await proxy.rows("slots"))[name] for name in THEIRS}
        assert before == after

    async def test_a_drain_waits_for_what_runs(
        self,
        driver: SlotDriver,
        proxy: Haproxy,
        lb_info: dict[str, str],
        start_server: StartServer,
        client: ClientSession,
    ) -> None:
        """A request in progress holds the drain, and the slot keeps its address."""
        server = await start_server("old")
        held = await _held(driver, lb_info, server, client, proxy.url_of("slots"))

        going_on = await driver.drain_backend(a_drain(lb_info, server.address))
        early = await driver.deregister_backend(a_deregister(lb_info, server.address))
        during = await taken(proxy)
        server.release()
        answer = await held
        request = a_deregister(lb_info, server.address)
        await until(lambda: _is_gone(driver, request))

        assert isinstance(going_on, Running)
        assert 1 == going_on.active_connections
        assert isinstance(early, Running)
        assert [server.address] == list(during.values())
        assert ("old", {}) == (answer, await taken(proxy))

    async def test_past_the_deadline_what_is_left_is_cut(
        self,
        driver: SlotDriver,
        proxy: Haproxy,
        lb_info: dict[str, str],
        start_server: StartServer,
        client: ClientSession,
    ) -> None:
        """A member that was not drained to the end goes, and its requests fail."""
        server = await start_server("cut")
        held = await _held(driver, lb_info, server, client, proxy.url_of("slots"))

        answer = await driver.deregister_backend(
            a_deregister(lb_info, server.address, drained=False)
        )

        assert isinstance(answer, Succ)
        assert {} == await taken(proxy)
        assert await held in {"502", "503"}

    async def test_a_dead_member_gets_no_request(
        self,
        driver: SlotDriver,
        proxy: Haproxy,
        lb_info: dict[str, str],
        start_server: StartServer,
    ) -> None:
        """One that nobody listens at waits for its checks, and others serve."""
        alive = await start_server("alive")
        await ensured(driver, lb_info, alive.address)
        await until(lambda: _serves(driver, lb_info, alive.address))
        traffic = Traffic(proxy.url_of("slots"))

        async with traffic.flowing():
            answer = await ensured(driver, lb_info, NOWHERE)
            await until(lambda: traffic.has_served(100))

        assert "first health checks" in (answer.msg or "")
        assert {"alive"} == set(traffic.answers)

    async def test_ensuring_again_ends_a_drain(
        self, driver: SlotDriver, proxy: Haproxy, lb_info: dict[str, str]
    ) -> None:
        """It keeps its slot, however often it is ensured."""
        await ensured(driver, lb_info, NOWHERE)
        first = await taken(proxy)
        await driver.drain_backend(a_drain(lb_info, NOWHERE))

        await asyncio.gather(*(ensured(driver, lb_info, NOWHERE) for _ in range(5)))

        (name,) = first
        assert first == await taken(proxy)
        # What is left is that it was `disabled` in the configuration.
        assert "4" == (await proxy.rows("slots"))[name]["srv_admin_state"]


class CountingApi(RuntimeApi):
    """The real client, and the lines that it was given."""

    lines: ClassVar[list[str]] = []

    async def ask(self, line: str) -> str:
        """Send the line."""
        self.lines.append(line)
        return await super().ask(line)


@pytest.mark.haproxy
async def test_a_listing_takes_as_many_lines_for_many_as_for_one(
    proxy: Haproxy, start_server: StartServer, client: ClientSession
) -> None:
    """HAProxy answers nobody else of the driver meanwhile; and each is told its own load."""
    balancers = LoadBalancers(ANYWHERE, PATIENT, addresses=HERE, connect=CountingApi)
    driver = SlotDriver(balancers, patience=PATIENT.patience)
    lb_info = an_identity(proxy, backend="slots")
    server = await start_server("busy")
    held = await _held(driver, lb_info, server, client, proxy.url_of("slots"))
    asked: list[int] = []
    loads: dict[str, int | None] = {}
    for address in (server.address, NOWHERE, "127.0.1.9:10"):
        await ensured(driver, lb_info, address)
        CountingApi.lines.clear()
        listed = (await driver.list_backends(a_list(lb_info))).backends
        asked.append(len(CountingApi.lines))
        loads = {one.backend_addr: one.active_connections for one in listed}

    server.release()
    await held

    assert {server.address: 1, NOWHERE: 0, "127.0.1.9:10": 0} == loads
    assert 1 == len(set(asked)), asked


@pytest.mark.haproxy
class TestLimits:
    """Slots are few, and may be missing."""

    async def test_all_are_taken(
        self, driver: SlotDriver, proxy: Haproxy, lb_info: dict[str, str]
    ) -> None:
        """The fourth of three is told what to do, and takes nobody's."""
        addresses = [f"127.0.1.9:{port}" for port in range(2, 6)]
        answers = await asyncio.gather(
            *(ensured(driver, lb_info, one) for one in addresses),
            return_exceptions=True,
        )

        (refused,) = [one for one in answers if isinstance(one, Fail)]
        assert "all 3 are taken: let the backend's `server-template`" in refused.msg
        assert 3 == len(set((await taken(proxy)).values()))

    async def test_a_backend_without_slots(
        self, driver: SlotDriver, proxy: Haproxy
    ) -> None:
        """It is refused when it is created, with the line that is missing."""
        request = CreateLoadBalancerRequest(
            record_id=RECORD, lb_spec=an_identity(proxy, backend="fixed")
        )

        with pytest.raises(Fail, match="has no slots: say `server-template lbcf"):
            await driver.create_load_balancer(request)

    async def test_a_backend_with_slots(
        self, driver: SlotDriver, proxy: Haproxy, lb_info: dict[str, str]
    ) -> None:
        """It is let pass without a change."""
        before = await proxy.rows("slots")
        request = CreateLoadBalancerRequest(record_id=RECORD, lb_spec=lb_info)

        key = parse_identity(lb_info).lock_key
        wanted = Succ(lb_info=lb_info, lock_key=key)
        assert wanted == await driver.create_load_balancer(request)
        assert before == await proxy.rows("slots")

    async def test_a_socket_that_is_not_admin(
        self, driver: SlotDriver, proxy: Haproxy, lb_info: dict[str, str]
    ) -> None:
        """It is found when the load balancer is created."""
        user = lb_info | {"sockets": str(proxy.folder / "user.sock")}

        with pytest.raises(Fail, match="level admin"):
            await driver.create_load_balancer(
                CreateLoadBalancerRequest(record_id=RECORD, lb_spec=user)
            )

    async def test_parameters_are_the_templates(self, driver: SlotDriver) -> None:
        """A parameter that would mean nothing is refused."""
        with pytest.raises(Fail, match="'weight' cannot be set with --slots"):
            await driver.validate_backend(
                ValidateBackendRequest(
                    backend_type=BackendType.POD, parameters={"weight": "2"}
                )
            )

    async def test_a_reload_empties_all_slots(
        self, driver: SlotDriver, proxy: Haproxy, lb_info: dict[str, str]
    ) -> None:
        """The epoch is new and the list empty; an ensure brings the member back."""
        await ensured(driver, lb_info, NOWHERE)
        before = await driver.list_backends(a_list(lb_info))
        await proxy.reload()
        lost = await driver.list_backends(a_list(lb_info))
        await ensured(driver, lb_info, NOWHERE)
        after = await driver.list_backends(a_list(lb_info))

        assert (1, 0, 1) == tuple(len(one.backends) for one in (before, lost, after))
        assert before.epoch != lost.epoch == after.epoch

    async def test_a_slot_that_serves_without_a_member(
        self, driver: SlotDriver, proxy: Haproxy, lb_info: dict[str, str]
    ) -> None:
        """As a state file brings it back: it rests before it is given away."""
        for number in range(1, 4):
            await proxy.ask(f"set server slots/lbcf.{number} state ready")

        await ensured(driver, lb_info, NOWHERE)

        assert [NOWHERE] == list((await taken(proxy)).values())


def test_a_slot_rests_before_it_is_moved() -> None:
    """In service it would serve a member that has passed no check; nor does it then."""
    target = commands.Target("web", SlotName("lbcf", 1))
    server = Server("lbcf.1", 1, 1, FREE.ip, FREE.port, 2, 0, 1, 6)
    address = parse_address(NOWHERE)

    first = next_to_ensure(Slot(target, server), address)
    resting = attrs.evolve(server, admin=FORCED_MAINTENANCE)
    second = next_to_ensure(Slot(target, resting), address)

    moved = attrs.evolve(resting, address=address.ip, port=address.port)
    third = next_to_ensure(Slot(target, moved), address)

    assert commands.rest(target) == first
    assert commands.move(target, address) == second
    assert commands.serve(target, check=True, fresh=True) == third


@hypothesis.given(
    server=strategies.text(max_size=20) | strategies.from_regex(r"lbcf[.-]?[0-9x]{0,3}")
)
@hypothesis.example("lbcf.1")
@hypothesis.example("lbcf.01")
@hypothesis.example("lbcf.0")
@hypothesis.example("lbcf.1\n")
@hypothesis.example("lbcf-1")
def test_only_numbered_servers_are_slots(server: str) -> None:
    """A server is a slot of ours if a template of our prefix could have made it."""
    name = SlotName.of_server("lbcf", server)

    assert (server == str(name)) if name else (server != "lbcf.1")


async def _held(
    driver: SlotDriver,
    lb_info: dict[str, str],
    server: WebServer,
    client: ClientSession,
    url: str,
) -> asyncio.Task[str]:
    """Register the server and send a request that it holds."""
    await ensured(driver, lb_info, server.address)
    await until(lambda: _serves(driver, lb_info, server.address))
    held = asyncio.create_task(ask(client, f"{url}/slow"))
    await until(lambda: _holds(server))
    return held


async def _holds(server: WebServer) -> bool:
    """Tell whether the server holds a request."""
    return server.waiting == 1


async def _serves(driver: SlotDriver, lb_info: dict[str, str], address: str) -> bool:
    """Tell whether a member gets requests."""
    listed = (await driver.list_backends(a_list(lb_info))).backends
    return (address, BackendState.ACTIVE) in [
        (one.backend_addr, one.state) for one in listed
    ]


async def _is_drained(
    driver: SlotDriver, lb_info: dict[str, str], address: str
) -> bool:
    """Ask once whether the drain is over."""
    return isinstance(await driver.drain_backend(a_drain(lb_info, address)), Succ)


async def _is_gone(driver: SlotDriver, request: DeregisterBackendRequest) -> bool:
    """Ask once for a deregistration."""
    return isinstance(await driver.deregister_backend(request), Succ)


class HeldBack(RuntimeApi):
    """A HAProxy to which another address for a slot is told only when the test says."""

    reached: asyncio.Event
    held: asyncio.Event

    async def ask(self, line: str) -> str:
        """Send the line, that one late."""
        if line.startswith("set server") and " addr " in line:
            self.reached.set()
            await self.held.wait()
        return await super().ask(line)


@pytest.mark.haproxy
async def test_member_that_another_process_displaced_is_put_back(
    driver: SlotDriver, lb_info: dict[str, str]
) -> None:
    """A command that was late took its slot away: the epoch changes, and it gets another."""
    HeldBack.reached, HeldBack.held = asyncio.Event(), asyncio.Event()
    balancers = LoadBalancers(ANYWHERE, PATIENT, addresses=HERE, connect=HeldBack)
    slow = SlotDriver(balancers, patience=PATIENT.patience)
    late = asyncio.create_task(ensured(slow, lb_info, NOWHERE))
    await HeldBack.reached.wait()
    await ensured(driver, lb_info, "127.0.1.2:80")
    before = await driver.list_backends(a_list(lb_info))

    HeldBack.held.set()
    await late
    displaced = await driver.list_backends(a_list(lb_info))
    await ensured(driver, lb_info, "127.0.1.2:80")
    after = await driver.list_backends(a_list(lb_info))

    assert [NOWHERE] == [m.backend_addr for m in displaced.backends]
    assert before.epoch != displaced.epoch == after.epoch
    assert {NOWHERE, "127.0.1.2:80"} == {m.backend_addr for m in after.backends}
