"""A member's life on a unit: added, changed, drained, taken out."""

import asyncio

import pytest

from lbcf.sdk import BackendState, Fail, Running, Succ
from tests.f5.requests import MEMBER, NODE, WEB, an_ensure, an_identity
from tests.f5.server import Bigip
from tests.webhooks.requests import ADDRESS, RECORD, a_deregister, a_drain, a_list
from webhooks.f5.driver import F5Driver


def _events(bigip: Bigip) -> list[str]:
    """Return what happened to members."""
    return [event.what for event in bigip.unit.events]


async def test_a_member_is_added_enabled_and_marked(
    driver: F5Driver, bigip: Bigip
) -> None:
    """It says whose it is, and so does its node."""
    lb_info = an_identity(bigip)

    answer = await driver.ensure_backend(
        an_ensure(lb_info, parameters={"weight": "3", "connectionLimit": "10"})
    )

    member = bigip.unit.member(WEB, MEMBER)
    assert isinstance(answer, Succ)
    owner = driver.load_balancers.find(lb_info).owner(RECORD)
    assert (f"lbcf:{RECORD}/{owner.pool}", 3, 10, "user-enabled", "unchecked") == tuple(
        member[name]
        for name in ("description", "ratio", "connectionLimit", "session", "state")
    )
    assert "lbcf:node" == bigip.unit.node(NODE)["description"]


async def test_parameters_change_in_place(driver: F5Driver, bigip: Bigip) -> None:
    """A member takes other parameters without leaving; unsaid ones are defaults."""
    lb_info = an_identity(bigip)
    await driver.ensure_backend(
        an_ensure(lb_info, parameters={"ratio": "3", "monitor": "/Common/http"})
    )

    await driver.ensure_backend(an_ensure(lb_info, parameters={"priorityGroup": "2"}))

    member = bigip.unit.member(WEB, MEMBER)
    assert (1, "default", 2) == tuple(
        member[name] for name in ("ratio", "monitor", "priorityGroup")
    )
    assert ["added"] == _events(bigip)


@pytest.mark.parametrize(
    ("monitor", "session"),
    [
        ("none", "user-enabled"),
        ("/Common/tcp and /Common/http", "monitor-enabled"),
        ("default", "monitor-enabled"),
    ],
)
async def test_monitors_are_known_again(
    driver: F5Driver, bigip: Bigip, monitor: str, session: str
) -> None:
    """However a unit writes them back, they are not written a second time."""
    bigip.unit.add_pool("/Common/api", "/Common/http")
    lb_info = an_identity(bigip, pool="api")
    for _ in range(2):
        await driver.ensure_backend(an_ensure(lb_info, parameters={"monitor": monitor}))

    assert session == bigip.unit.member("/Common/api", MEMBER)["session"]
    assert 3 == bigip.unit.running.generation


async def test_a_drain_counts_down(driver: F5Driver, bigip: Bigip) -> None:
    """Disabled first; done once a later look finds no connection."""
    lb_info = an_identity(bigip)
    await driver.ensure_backend(an_ensure(lb_info))
    bigip.unit.connections[WEB, MEMBER] = 2

    first = await driver.drain_backend(a_drain(lb_info))
    assert "user-disabled" == bigip.unit.member(WEB, MEMBER)["session"]
    second = await driver.drain_backend(a_drain(lb_info))
    bigip.unit.connections[WEB, MEMBER] = 0
    third = await driver.drain_backend(a_drain(lb_info))

    assert [2, 2] == [
        one.active_connections for one in (first, second) if isinstance(one, Running)
    ]
    assert isinstance(third, Succ)
    assert ["added", "disabled"] == _events(bigip)


async def test_the_first_zero_is_not_believed(driver: F5Driver, bigip: Bigip) -> None:
    """What was let in a moment before the change may not be counted yet."""
    lb_info = an_identity(bigip)
    await driver.ensure_backend(an_ensure(lb_info))

    first = await driver.drain_backend(a_drain(lb_info))
    second = await driver.drain_backend(a_drain(lb_info))

    assert isinstance(first, Running)
    assert isinstance(second, Succ)


@pytest.mark.parametrize("drained", [True, False])
async def test_deregistering_ends_persistence_first(
    driver: F5Driver, bigip: Bigip, *, drained: bool
) -> None:
    """Forced offline, then out; the node that came with it goes, too."""
    lb_info = an_identity(bigip)
    await driver.ensure_backend(an_ensure(lb_info))

    answer = await driver.deregister_backend(a_deregister(lb_info, drained=drained))

    assert isinstance(answer, Succ)
    assert ["added", "offline", "removed"] == _events(bigip)
    assert {} == bigip.unit.running.nodes


async def test_ensuring_ends_a_drain(driver: F5Driver, bigip: Bigip) -> None:
    """A member that is draining, or forced offline by hand, serves again."""
    lb_info = an_identity(bigip)
    await driver.ensure_backend(an_ensure(lb_info))
    for state in ("user-up", "user-down"):
        body = {"state": state, "session": "user-disabled"}
        bigip.unit.modify_member(WEB, MEMBER, body)

        await driver.ensure_backend(an_ensure(lb_info))

        member = bigip.unit.member(WEB, MEMBER)
        assert ("unchecked", "user-enabled") == (member["state"], member["session"])


async def test_a_node_stays_while_it_is_needed(driver: F5Driver, bigip: Bigip) -> None:
    """The node goes with the last member of any pool."""
    bigip.unit.add_pool("/Common/api")
    web, api = an_identity(bigip), an_identity(bigip, pool="api")
    for lb_info in (web, api):
        await driver.ensure_backend(an_ensure(lb_info))

    await driver.deregister_backend(a_deregister(web))
    assert [NODE] == list(bigip.unit.running.nodes)
    await driver.deregister_backend(a_deregister(api))

    assert {} == bigip.unit.running.nodes


async def test_the_operators_node_is_used_and_left(
    driver: F5Driver, bigip: Bigip
) -> None:
    """An address that has a node under another name keeps it, in any partition."""
    node = {"name": "web1", "partition": "Tenant", "address": "198.18.0.1"}
    bigip.unit.running.add_node(node)
    lb_info = an_identity(bigip)

    await driver.ensure_backend(an_ensure(lb_info))
    await driver.ensure_backend(an_ensure(lb_info))
    answer = await driver.list_backends(a_list(lb_info))

    assert ["/Tenant/web1:8080"] == list(bigip.unit.running.pool(WEB).members)
    assert [ADDRESS] == [one.backend_addr for one in answer.backends]
    await driver.deregister_backend(a_deregister(lb_info))
    assert {} == bigip.unit.running.pool(WEB).members
    assert ["/Tenant/web1"] == list(bigip.unit.running.nodes)


async def test_the_operators_node_of_that_name_is_left(
    driver: F5Driver, bigip: Bigip
) -> None:
    """A node that is called as ours would be, and was there before, stays."""
    bigip.unit.running.add_node({"name": "198.18.0.1", "address": "198.18.0.1"})
    lb_info = an_identity(bigip)

    await driver.ensure_backend(an_ensure(lb_info))
    await driver.deregister_backend(a_deregister(lb_info))

    assert {} == bigip.unit.running.pool(WEB).members
    assert [NODE] == list(bigip.unit.running.nodes)


async def test_a_node_that_is_called_after_another_address(
    driver: F5Driver, bigip: Bigip
) -> None:
    """It is not used: requests would go elsewhere. What to do is told."""
    bigip.unit.running.add_node({"name": "198.18.0.1", "address": "198.18.0.77"})

    with pytest.raises(Fail, match=f"{NODE} and has another address: rename it"):
        await driver.ensure_backend(an_ensure(an_identity(bigip)))

    assert {} == bigip.unit.running.pool(WEB).members


@pytest.mark.parametrize(
    ("address", "domain", "member"),
    [
        ("[2001:db8::1]:80", "", "/Common/2001:db8::1.80"),
        ("198.18.0.1:80", "10", "/Common/198.18.0.1%10:80"),
        ("[2001:db8::1]:80", "10", "/Common/2001:db8::1%10.80"),
    ],
)
async def test_other_kinds_of_addresses(
    driver: F5Driver, bigip: Bigip, address: str, domain: str, member: str
) -> None:
    """IPv6 has a dot before the port; route domains go with the address."""
    lb_info = an_identity(bigip, routeDomain=domain)

    await driver.ensure_backend(an_ensure(lb_info, address))
    listed = (await driver.list_backends(a_list(lb_info))).backends
    there = list(bigip.unit.running.pool(WEB).members)
    await driver.drain_backend(a_drain(lb_info, address))
    await driver.drain_backend(a_drain(lb_info, address))
    await driver.deregister_backend(a_deregister(lb_info, address))

    assert [member] == there
    assert [address] == [one.backend_addr for one in listed]
    assert {} == bigip.unit.running.pool(WEB).members
    assert {} == bigip.unit.running.nodes


async def test_states_are_listed(driver: F5Driver, bigip: Bigip) -> None:
    """What a unit tells of our members: in service, draining, down."""
    bigip.unit.add_pool("/Common/api", "/Common/http")
    lb_info = an_identity(bigip, pool="/Common/api")
    addresses = [f"198.18.0.{last}:80" for last in range(1, 5)]
    for address in addresses:
        await driver.ensure_backend(an_ensure(lb_info, address, f"r-{address}"))
    await driver.drain_backend(a_drain(lb_info, addresses[1], f"r-{addresses[1]}"))
    bigip.unit.health["198.18.0.3"] = "down"
    offline = {"state": "user-down", "session": "user-disabled"}
    bigip.unit.modify_member("/Common/api", f"/Common/{addresses[3]}", offline)
    bigip.unit.connections["/Common/api", f"/Common/{addresses[1]}"] = 7

    listed = (await driver.list_backends(a_list(lb_info))).backends

    assert [
        (addresses[0], BackendState.ACTIVE, 0, ""),
        (addresses[1], BackendState.DRAINING, 7, "user-disabled"),
        (addresses[2], BackendState.DOWN, 0, "down"),
        (addresses[3], BackendState.DOWN, 0, "user-down"),
    ] == [
        (one.backend_addr, one.state, one.active_connections, one.reason)
        for one in listed
    ]


async def test_what_is_there_goes_whatever_its_group(
    driver: F5Driver, bigip: Bigip
) -> None:
    """An earlier version let pass what is no device group: that keeps no member in."""
    lb_info = an_identity(bigip)
    await driver.ensure_backend(an_ensure(lb_info))
    older = lb_info | {"syncGroup": "/Common/pair force-full-load-push"}
    with pytest.raises(Fail, match="syncGroup"):
        await driver.ensure_backend(an_ensure(older))
    listed = (await driver.list_backends(a_list(older))).backends
    for _ in range(2):
        await driver.drain_backend(a_drain(older))
    drained = await driver.drain_backends([a_drain(older)])
    await driver.deregister_backend(a_deregister(older))
    gone = await driver.deregister_backends([a_deregister(older)])

    assert [RECORD] == [one.record_id for one in listed]
    assert [Succ, Succ] == [type(done[RECORD]) for done in (drained, gone)]
    assert [] == list(bigip.unit.running.pool(WEB).members)


async def test_changes_are_made_one_at_a_time(driver: F5Driver, bigip: Bigip) -> None:
    """A unit has few workers; changes side by side make it answer 503."""
    bigip.faults.slow = 0.001
    lb_info = an_identity(bigip)
    addresses = [f"198.18.0.{last}:80" for last in range(1, 11)]

    await asyncio.gather(
        *(driver.ensure_backend(an_ensure(lb_info, one)) for one in addresses)
    )

    assert 10 == len(bigip.unit.running.pool(WEB).members)
    assert 1 == bigip.writes_at_once
