"""Which LoadBalancers a listener is of: one of each, and one will where it is of several."""

import contextlib

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial

import msgspec
import pytest

from lbcf.sdk import (
    CreateLoadBalancerRequest,
    DeleteLoadBalancerRequest,
    EnsureLoadBalancerRequest,
    RetryAfter,
    Succ,
)
from tests.envoy.node import Node
from tests.envoy.rig import BRIEF, QUICK
from tests.envoy.stage import Stage
from tests.lab.cluster.ports import free_ports
from tests.webhooks.troubled import settled, told
from webhooks.envoy.balancers import Balancer, parse_identity
from webhooks.envoy.driver import EnvoyDriver


FIRST, SECOND = "127.0.0.2", "127.0.0.3"


def _listeners(driver: EnvoyDriver) -> Mapping[str, frozenset[str]]:
    """Return what there is, by where it listens, and whose it is."""
    found = driver.keeper.store.load().values()
    return {one.listen: one.owners for one in found}


def _at(stage: Stage, address: str) -> CreateLoadBalancerRequest:
    """Return a request to make it at an address that a pool has given."""
    return stage.create(address=address)


@pytest.fixture(name="anywhere")
def _anywhere(stage: Stage) -> Stage:
    """Have the stage's load balancer listen on all addresses, unless it has one of a pool."""
    (port,) = free_ports(1)
    stage.listen = f"0.0.0.0:{port}"
    return stage


@pytest.mark.envoy
async def test_the_address_that_was_given_up_is_free(anywhere: Stage) -> None:
    """The first creation was not answered; the second one is, and its deletion leaves nothing."""
    driver = await anywhere.driver(patience=BRIEF)
    with pytest.raises(RetryAfter, match="no Envoy"):
        await driver.create_load_balancer(_at(anywhere, FIRST))
    envoy = await anywhere.envoy()

    await settled(partial(driver.create_load_balancer, _at(anywhere, SECOND)))
    between = await envoy.listeners()
    port = anywhere.listen.rpartition(":")[2]
    delete = DeleteLoadBalancerRequest(
        record_id="lb", lb_info={"fleet": "edge", "listen": f"{SECOND}:{port}"}
    )
    await settled(partial(driver.delete_load_balancer, delete))

    assert [f"lbcf/{SECOND}:{port}"] == between
    assert [] == await envoy.listeners()
    assert {} == _listeners(driver)


@pytest.mark.envoy
async def test_all_addresses_are_given_up_for_one(anywhere: Stage) -> None:
    """What an earlier attempt has made is not in the way of the next one."""
    driver = await anywhere.driver(patience=BRIEF)
    with pytest.raises(RetryAfter, match="no Envoy"):
        await driver.create_load_balancer(anywhere.create())
    envoy = await anywhere.envoy()

    await settled(partial(driver.create_load_balancer, _at(anywhere, SECOND)))

    port = anywhere.listen.rpartition(":")[2]
    assert [f"lbcf/{SECOND}:{port}"] == await envoy.listeners()


@pytest.mark.envoy
async def test_what_is_anothers_too_stays(anywhere: Stage) -> None:
    """Only the one who went elsewhere has it no more; asking what would be changes nothing."""
    driver = await anywhere.driver(patience=BRIEF)
    envoy = await anywhere.envoy()
    other = msgspec.structs.replace(_at(anywhere, FIRST), record_id="other")
    elsewhere = _at(anywhere, SECOND)
    await settled(partial(driver.create_load_balancer, other))
    await settled(partial(driver.create_load_balancer, _at(anywhere, FIRST)))

    asked = msgspec.structs.replace(elsewhere, dry_run=True)
    await driver.create_load_balancer(asked)
    between = _listeners(driver)
    await settled(partial(driver.create_load_balancer, elsewhere))

    port = anywhere.listen.rpartition(":")[2]
    first, second = f"{FIRST}:{port}", f"{SECOND}:{port}"
    assert {first: {"lb", "other"}} == between
    assert {first: {"other"}, second: {"lb"}} == _listeners(driver)
    assert [f"lbcf/{first}", f"lbcf/{second}"] == await envoy.listeners()


@pytest.mark.envoy
async def test_a_deletion_leaves_nothing_that_an_earlier_driver_left(
    anywhere: Stage,
) -> None:
    """It kept the listeners of both attempts; each deletion takes all of them away."""
    driver = await anywhere.driver(patience=BRIEF)
    envoy = await anywhere.envoy()
    port = anywhere.listen.rpartition(":")[2]
    for address in (FIRST, SECOND):
        await settled(partial(driver.create_load_balancer, _at(anywhere, address)))
    await driver.stop()
    left = parse_identity({"fleet": "edge", "listen": f"{FIRST}:{port}"})
    owned = Balancer("edge", left.listener, "", frozenset({"lb"}), QUICK)
    assert driver.keeper.store.lock()
    driver.keeper.store.save({left: owned})
    driver.keeper.store.release()

    again = await anywhere.driver(patience=BRIEF)
    delete = DeleteLoadBalancerRequest(
        record_id="lb", lb_info={"fleet": "edge", "listen": f"{SECOND}:{port}"}
    )
    await settled(partial(again.delete_load_balancer, delete))

    assert {} == _listeners(again)
    assert [] == await envoy.listeners()


def _of(
    owner: str, request: CreateLoadBalancerRequest | EnsureLoadBalancerRequest
) -> Callable[[EnvoyDriver], Awaitable[Succ]]:
    """Return how a LoadBalancer asks a driver for something."""
    mine = msgspec.structs.replace(request, record_id=owner)
    if isinstance(mine, CreateLoadBalancerRequest):
        return lambda driver: driver.create_load_balancer(mine)
    return lambda driver: driver.ensure_load_balancer(mine)


def _algorithm(driver: EnvoyDriver, stage: Stage) -> str | None:
    """Return what there is at a driver, and on disk."""
    known = parse_identity(stage.lb_info)
    found = driver.keeper.find(known)
    assert found is not None
    assert found == driver.keeper.store.load()[known]
    return found.attributes.get("algorithm")


@contextlib.asynccontextmanager
async def _shared(stage: Stage) -> AsyncIterator[EnvoyDriver]:
    """Have a listener of two LoadBalancers for a block."""
    driver = await stage.driver()
    async with Node.running(stage.port, "a"):
        for owner in ("lb", "other"):
            ask = _of(owner, stage.create(algorithm="random"))
            await settled(partial(ask, driver))
        yield driver


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"algorithm": "maglev"}, "algorithm is 'random' there, and 'maglev' here"),
        ({}, "algorithm is 'random' there, and 'roundrobin' here"),
        (
            {"algorithm": "random", "protocol": "tcp"},
            "protocol is 'http' there, and 'tcp' here",
        ),
    ],
)
async def test_who_comes_with_other_attributes_is_refused(
    stage: Stage, attributes: Mapping[str, str], said: str
) -> None:
    """It is told whose they are, and leaves no trace."""
    async with _shared(stage) as driver:
        for is_dry in (True, False):
            late = msgspec.structs.replace(stage.create(**attributes), dry_run=is_dry)
            words = await told(partial(_of("late", late), driver))
            assert said in words
            assert "LoadBalancer lb (its UID)" in words
        assert "random" == _algorithm(driver, stage)
        assert {stage.listen: {"lb", "other"}} == _listeners(driver)


async def test_attributes_change_when_all_owners_want_it(stage: Stage) -> None:
    """The first one to say so is refused, and nothing changes; the last one has it done."""
    changed = stage.remake(algorithm="maglev")
    async with _shared(stage) as driver:
        asked = msgspec.structs.replace(changed, dry_run=True)
        dry = await told(lambda: _of("lb", asked)(driver))
        first = await told(lambda: _of("lb", changed)(driver))
        between = _algorithm(driver, stage)
        await settled(lambda: _of("other", stage.remake(algorithm="random"))(driver))
        await settled(lambda: _of("other", changed)(driver))
        after = _algorithm(driver, stage)
        await settled(lambda: _of("lb", changed)(driver))

    assert dry == first
    assert "LoadBalancer other (its UID)" in first
    assert ("random", "maglev") == (between, after)


async def test_who_wants_what_is_there_again_holds_up_nobody(stage: Stage) -> None:
    """A change that was refused, and taken back, is forgotten."""
    async with _shared(stage) as driver:
        await told(lambda: _of("lb", stage.remake(algorithm="maglev"))(driver))
        for owner in ("lb", "other"):
            ask = _of(owner, stage.remake(algorithm="random"))
            await settled(partial(ask, driver))


async def test_the_last_owner_has_what_it_wants(stage: Stage) -> None:
    """Also what was refused while there was another one."""
    async with _shared(stage) as driver:
        await told(lambda: _of("lb", stage.remake(algorithm="maglev"))(driver))
        await settled(partial(driver.delete_load_balancer, stage.delete("other")))
        there = _algorithm(driver, stage)
        ask = _of("lb", stage.remake(algorithm="leastrequest"))
        await settled(partial(ask, driver))

        assert "maglev" == there
        assert "leastrequest" == _algorithm(driver, stage)
