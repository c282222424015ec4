"""What Envoys have under way and report no more: such a drain is never called finished.

A cluster that changes is another one to Envoy, with other hosts, whose counts begin at zero; so
is a host whose locality changes. Requests go on at those before.
"""

import asyncio

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from aiohttp import ClientSession

from lbcf.sdk import Running, Succ
from tests.envoy.conftest import StartServer
from tests.envoy.stage import Stage
from tests.haproxy.waiting import until
from tests.haproxy.web import WebServer, ask
from tests.webhooks.troubled import settled
from webhooks.envoy.balancers import Balancer, Member
from webhooks.envoy.driver import EnvoyDriver
from webhooks.envoy.resources import noted
from webhooks.envoy.store import Store


MEMBER = "198.18.0.1:80"

Change = Callable[[EnvoyDriver, Stage, WebServer], Awaitable[Succ]]


async def _otherwise(driver: EnvoyDriver, stage: Stage, _: WebServer) -> Succ:
    """Have members chosen otherwise."""
    return await driver.ensure_load_balancer(stage.remake(algorithm="leastrequest"))


async def _elsewhere(driver: EnvoyDriver, stage: Stage, server: WebServer) -> Succ:
    """Have the member be in another zone."""
    moved = stage.ensure(server.name, server.address, {"zone": "b"})
    return await driver.ensure_backend(moved)


async def _held(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> tuple[EnvoyDriver, WebServer, asyncio.Task[str]]:
    """Return a driver, and a member with a request under way."""
    driver = await stage.driver()
    await stage.envoy()
    await settled(partial(driver.create_load_balancer, stage.create()))
    server = await start_server("one")
    await settled(lambda: driver.ensure_backend(stage.ensure("one", server.address)))
    await stage.until_workers_know()
    slow = asyncio.create_task(ask(client, f"{stage.url}slow"))

    async def is_held() -> bool:
        return server.waiting == 1

    await until(is_held)
    return driver, server, slow


async def _until_unseen(
    driver: EnvoyDriver, stage: Stage, server: WebServer
) -> Running:
    """Drain until load reports that count say that nothing is left; return the answer then."""
    fleet = driver.keeper.fleets.fleet("edge")
    drain = stage.drain(server.name, server.address)
    answers: list[Running] = []

    async def is_unseen() -> bool:
        answer = await driver.drain_backend(drain)
        assert isinstance(answer, Running), (answer, server.waiting)
        answers.append(answer)
        return not fleet.left(f"lbcf/{stage.listen}", server.address, 0.25)

    await until(is_unseen)
    return answers[-1]


@pytest.mark.envoy
@pytest.mark.parametrize("change", [_otherwise, _elsewhere])
@pytest.mark.parametrize("drains_first", [True, False])
async def test_a_request_of_another_cluster_is_not_taken_for_over(
    stage: Stage,
    start_server: StartServer,
    client: ClientSession,
    change: Change,
    drains_first: bool,
) -> None:
    """The change comes while the member has a request, in its drain or before."""
    driver, server, slow = await _held(stage, start_server, client)
    drain = stage.drain("one", server.address)
    if drains_first:
        assert isinstance(await driver.drain_backend(drain), Running)

    await settled(lambda: change(driver, stage, server))
    answer = await _until_unseen(driver, stage, server)
    waiting = server.waiting
    server.release()

    assert 1 == waiting
    assert "requests or connections left: ? at envoy-1" in str(answer.msg)
    assert "changed" in str(answer.msg)
    assert answer.active_connections is None
    assert "one" == await slow
    await driver.deregister_backend(
        stage.deregister("one", server.address, drained=False)
    )
    await settled(lambda: driver.ensure_backend(stage.ensure("one", server.address)))
    await settled(lambda: driver.drain_backend(drain))


@pytest.mark.envoy
async def test_a_driver_that_restarts_knows_what_is_not_counted(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """The Envoy has the new cluster when it comes back, and says nothing of the one before."""
    driver, server, slow = await _held(stage, start_server, client)
    await settled(lambda: _otherwise(driver, stage, server))
    await driver.stop()

    again = await stage.driver()
    await settled(lambda: again.list_backends(stage.list()))
    answer = await _until_unseen(again, stage, server)
    server.release()

    assert "left: ? at envoy-1" in str(answer.msg)
    assert "one" == await slow


@pytest.mark.envoy
async def test_a_change_that_keeps_the_cluster_keeps_the_count(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """That of a listener, for instance, and a member that came later."""
    driver, server, slow = await _held(stage, start_server, client)

    await settled(partial(driver.ensure_load_balancer, stage.remake(idleTimeout="9m")))

    async def is_counted() -> bool:
        answer = await driver.drain_backend(stage.drain("one", server.address))
        assert isinstance(answer, Running), answer
        return answer.active_connections == 1

    await until(is_counted)
    server.release()
    await slow
    await settled(partial(driver.ensure_load_balancer, stage.remake(retries="1")))
    await settled(lambda: driver.drain_backend(stage.drain("one", server.address)))


def _balancer(listen: str = "10.0.0.1:80", **attributes: str) -> Balancer:
    """Return a load balancer with a member."""
    members = {"a": Member("a", MEMBER)}
    owners = frozenset({"lb"})
    return Balancer("edge", listen, "shop", owners, attributes, members)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"algorithm": "random"}, {MEMBER}),
        ({"connectTimeout": "2s"}, {MEMBER}),
        ({"stickyCookie": "LB"}, {MEMBER}),
        ({"algorithm": "roundrobin"}, set()),
        ({"requestTimeout": "9s"}, set()),
        ({}, set()),
    ],
)
def test_which_attributes_make_another_cluster(
    attributes: Mapping[str, str], said: set[str]
) -> None:
    """As the page of the driver has it."""
    before, after = _balancer(), _balancer(**attributes)

    found = noted(before, after)

    assert found is not None
    assert said == found.uncounted


def test_what_is_not_counted_stays_so_until_the_address_is_out() -> None:
    """Also where the change is undone: Envoys may have had it for a while."""
    before = _balancer()
    changed = noted(before, _balancer(algorithm="random"))
    assert changed is not None

    undone = noted(changed, changed.owned("lb", {}))
    assert undone is not None
    other = noted(undone, undone.having(Member("b", MEMBER)))
    assert other is not None
    shared = noted(other, other.without("a"))
    assert shared is not None
    out = noted(shared, shared.without("b"))
    assert out is not None
    back = noted(out, out.having(Member("b", MEMBER)))
    assert back is not None

    assert {MEMBER} == undone.uncounted == other.uncounted == shared.uncounted
    assert set() == out.uncounted == back.uncounted


def test_a_drain_of_datagrams_waits_for_no_count() -> None:
    """There is nothing that could be left."""
    udp = "10.0.0.1:53/udp"

    found = noted(_balancer(udp), _balancer(udp, algorithm="random"))

    assert found is not None
    assert set() == found.uncounted


def test_an_earlier_driver_can_read_what_has_no_such_address(tmp_path: Path) -> None:
    """It refuses fields that it does not know."""
    known = _balancer()
    store = Store(tmp_path)
    store.lock()
    store.save({known.identity: known})

    (path,) = (tmp_path / "balancers").iterdir()

    assert "uncounted" not in path.read_text()
    assert {known.identity: known} == store.load()
