"""Clients that HAProxy sends to the server they know, while that server goes.

A drain lets them come; the end of the member sends them elsewhere, and cuts nothing.
"""

import asyncio

from collections.abc import Mapping
from datetime import timedelta

import attrs
import pytest

from aiohttp import ClientSession, CookieJar

from lbcf.core.lifecycle.deregistration import DeregistrationState, next_step
from lbcf.core.lifecycle.steps import CallDriver, Permission
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import DrainProgress, RecordStatus
from lbcf.sdk import CreateLoadBalancerRequest, Fail, Running, Succ
from tests.builders import START, a_driver, a_record, a_spec, at
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
from tests.haproxy.web import ANSWERED, WebServer
from tests.webhooks.requests import RECORD
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.load_balancers import parse_identity


pytestmark = pytest.mark.haproxy

KINDS = ["cookies", "sticky"]
"""Frontends: one knows clients by a dynamic cookie, one by a stick table."""


def a_load_balancer(proxy: Haproxy, kind: str) -> dict[str, str]:
    """Return the identity of a load balancer whose clients are persistent."""
    cookies = {"dynamicCookies": "true"} if kind == "cookies" else {}
    return an_identity(proxy, backend=kind) | cookies


@attrs.define(eq=False)
class Client:
    """Somebody who is known again, by name and by the cookies that he keeps."""

    url: str
    session: ClientSession
    headers: Mapping[str, str]

    async def ask(self, path: str = "") -> str:
        """Send a request on a connection of its own; return who answered."""
        async with self.session.get(
            f"{self.url}{path}", headers=self.headers, timeout=ANSWERED
        ) as response:
            text = await response.text()
            return text if response.ok else str(response.status)


def a_session() -> ClientSession:
    """Return a session that keeps cookies of an address."""
    return ClientSession(cookie_jar=CookieJar(unsafe=True))


async def strangers(url: str, count: int) -> list[str]:
    """Return who answers clients that nobody knows."""
    answers = []
    for number in range(count):
        async with a_session() as session:
            answers.append(
                await Client(url, session, {"x-user": f"new-{number}"}).ask()
            )
    return answers


@pytest.mark.parametrize("kind", KINDS)
async def test_who_is_known_comes_until_the_end(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer, kind: str
) -> None:
    """In a drain known clients are served where they were, others elsewhere.

    What a known client has in progress holds the drain. When the member is gone, the
    same client is served by another, and no request has failed.
    """
    lb_info, url = a_load_balancer(proxy, kind), proxy.url_of(kind)
    servers = {name: await start_server(name) for name in ("one", "two")}
    for name, server in servers.items():
        await driver.ensure_backend(an_ensure(lb_info, server.address, name))
    async with a_session() as session:
        client = Client(url, session, {"x-user": "alice"})
        mine = await client.ask()
        (other,) = set(servers) - {mine}
        held = asyncio.create_task(client.ask("/slow"))
        await until(lambda: _holds(servers[mine]))

        going_on = await driver.drain_backend(a_drain(lb_info, mine))
        known = [await client.ask() for _ in range(4)]
        new = await strangers(url, 4)
        servers[mine].release()
        finished = await held
        await until_drained(driver, lb_info, mine)
        gone = await driver.deregister_backend(a_deregister(lb_info, mine))
        after = [await client.ask() for _ in range(4)]

    assert isinstance(going_on, Running)
    assert ([mine] * 4, [other] * 4) == (known, new)
    assert (mine, Succ(msg=""), [other] * 4) == (finished, gone, after)


@pytest.mark.parametrize("kind", KINDS)
async def test_at_the_deadline_they_are_sent_elsewhere(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer, kind: str
) -> None:
    """Clients that never stay away do not keep a member for ever, nor see an error."""
    lb_info, url = a_load_balancer(proxy, kind), proxy.url_of(kind)
    for name in ("one", "two"):
        server = await start_server(name)
        await driver.ensure_backend(an_ensure(lb_info, server.address, name))
    answers: list[str] = []
    enough = asyncio.Event()

    async def come_again() -> None:
        """Send one request after the other."""
        while not enough.is_set():
            answers.append(await client.ask())

    async with a_session() as session:
        client = Client(url, session, {"x-user": "alice"})
        mine = await client.ask()
        (other,) = {"one", "two"} - {mine}
        coming = asyncio.create_task(come_again())
        await driver.drain_backend(a_drain(lb_info, mine))
        before = len(answers)
        await until(lambda: _reaches(answers, before + 10))
        drained = answers[before:]
        for _ in range(2):
            await driver.deregister_backend(a_deregister(lb_info, mine))
        since = len(answers)
        await until(lambda: _reaches(answers, since + 10))
        enough.set()
        await coming

    assert {mine} == set(drained)
    assert {other} == set(answers[since + 1 :])
    assert {mine, other} == set(answers)


@pytest.mark.parametrize("kind", KINDS)
async def test_known_clients_do_not_follow_an_address_to_its_next_owner(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer, kind: str
) -> None:
    """A pod is gone with a request that hangs, and another application has its address.

    As long as the drain goes on, whoever was the pod's is the other application's. What
    the deregistrar does next of a record that says that its backend is gone ends that.
    """
    lb_info, url = a_load_balancer(proxy, kind), proxy.url_of(kind)
    servers = {name: await start_server(name) for name in ("one", "two")}
    for name, server in servers.items():
        await driver.ensure_backend(an_ensure(lb_info, server.address, name))
    async with a_session() as session:
        client = Client(url, session, {"x-user": "alice"})
        mine = await client.ask()
        (other,) = set(servers) - {mine}
        held = asyncio.create_task(client.ask("/slow"))
        await until(lambda: _holds(servers[mine]))
        going_on = await driver.drain_backend(a_drain(lb_info, mine))
        await servers[mine].leave()
        host, _, port = servers[mine].address.rpartition(":")
        async with WebServer.running("stranger", host, int(port)):
            drained = [await client.ask() for _ in range(20)]
            assert Operation.DRAIN_BACKEND is _next_call(backend_gone=False)
            assert Operation.DEREGISTER_BACKEND is _next_call(backend_gone=True)
            await driver.deregister_backend(a_deregister(lb_info, mine, drained=False))
            after = [await client.ask() for _ in range(60)]
        # By all: who was cut is sent elsewhere by the client's library, once more.
        for server in servers.values():
            server.release()
        await asyncio.gather(held, return_exceptions=True)

    assert isinstance(going_on, Running)
    assert "stranger" in drained
    assert [other] * 60 == after


def _next_call(*, backend_gone: bool) -> Operation:
    """Say what a deregistrar calls next of a record whose drain has to wait."""
    progress = DrainProgress(START, START + timedelta(seconds=300))
    status = RecordStatus(drain=progress, backend_gone=backend_gone)
    spec = a_spec(drain_timeout=timedelta(seconds=300))
    record = a_record(spec=spec, status=status, registered=True, deleting=True)
    ending = DeregistrationState(first_seen=0.0, permission=Permission(record, 0.0))
    step = next_step(attrs.evolve(ending, driver=a_driver(drains=True)), at(0.0))
    assert isinstance(step, CallDriver)
    return step.operation


async def test_a_member_has_its_cookie_from_its_first_request_on(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer
) -> None:
    """Whoever was answered once comes back to the same member, after a reload too."""
    lb_info, url = a_load_balancer(proxy, "cookies"), proxy.url_of("cookies")
    addresses = [(await start_server(name)).address for name in ("one", "two")]
    async with a_session() as session:
        client = Client(url, session, {})
        seen = []
        for _ in range(2):
            for number, address in enumerate(addresses):
                await driver.ensure_backend(an_ensure(lb_info, address, str(number)))
            seen += [await client.ask() for _ in range(4)]
            await proxy.reload()

    assert 1 == len(set(seen))


async def test_a_backend_without_a_cookie(
    driver: HaproxyDriver, proxy: Haproxy
) -> None:
    """What cannot work is refused when it is created, with what to do."""
    lb_spec = an_identity(proxy) | {"dynamicCookies": "true"}

    with pytest.raises(Fail, match="has no cookie: say `cookie NAME insert"):
        await driver.create_load_balancer(
            CreateLoadBalancerRequest(record_id=RECORD, lb_spec=lb_spec)
        )


async def test_a_backend_with_a_cookie(driver: HaproxyDriver, proxy: Haproxy) -> None:
    """What can work is let pass, and stays known as it was said."""
    lb_spec = a_load_balancer(proxy, "cookies")

    answer = await driver.create_load_balancer(
        CreateLoadBalancerRequest(record_id=RECORD, lb_spec=lb_spec)
    )

    key = parse_identity(lb_spec).lock_key
    assert Succ(lb_info=lb_spec, lock_key=key) == answer


async def _holds(server: WebServer) -> bool:
    """Tell whether a request is held by the server."""
    return server.waiting == 1


async def _reaches(answers: list[str], count: int) -> bool:
    """Tell whether so many requests were answered."""
    return len(answers) >= count
