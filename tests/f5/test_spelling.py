"""Addresses that a unit writes otherwise than they were said: they are values, no texts."""

from collections.abc import Awaitable, Callable

import attrs
import pytest

from lbcf.sdk import Running, Succ
from tests.f5.requests import WEB, an_ensure, an_identity
from tests.f5.server import Bigip
from tests.webhooks.requests import a_deregister, a_drain, a_list
from webhooks.f5.driver import F5Driver


Life = Callable[[F5Driver, dict[str, str], Bigip], Awaitable[None]]

RECORDS = {"r-1": "198.18.0.1:80", "r-2": "[2001:db8::1]:80"}


@attrs.frozen
class Case:
    """A unit, and a load balancer on it.

    Attributes:
        said: the route domain of the load balancer.
        default: that of the pool's partition.
        hides: whether the unit leaves out the default, in place of 0.
        shown: what it writes behind an address.
    """

    said: str
    default: int
    hides: bool
    shown: str


CASES = {
    "0 is not shown": Case("0", 0, hides=False, shown=""),
    "0 is not shown as 0": Case("00", 0, hides=False, shown=""),
    "the default is shown": Case("", 7, hides=False, shown="%7"),
    "the default is not shown": Case("7", 7, hides=True, shown=""),
    "0 is shown": Case("0", 7, hides=True, shown="%0"),
}


@pytest.fixture(name="case", params=CASES)
def _case(request: pytest.FixtureRequest, bigip: Bigip) -> Case:
    """Have the unit spell addresses in one way."""
    case = CASES[request.param]
    bigip.unit.running.domains["Common"] = case.default
    bigip.unit.hides_default = case.hides
    return case


@pytest.fixture(name="lb_info")
def _lb_info(case: Case, bigip: Bigip) -> dict[str, str]:
    """Return the load balancer."""
    return an_identity(bigip, routeDomain=case.said)


@pytest.fixture(name="at_nodes")
def _at_nodes(bigip: Bigip, lb_info: dict[str, str]) -> None:
    """Have nodes of the operator's at the addresses, under names of their own."""
    domain = lb_info["routeDomain"]
    for number, host in enumerate(("198.18.0.1", "2001:db8::1")):
        address = f"{host}%{domain}" if domain else host
        bigip.unit.running.add_node({"name": f"web{number}", "address": address})


def _shown(bigip: Bigip) -> list[str]:
    """Return the addresses of the members as the unit writes them."""
    items = bigip.unit.members(WEB).get("items", [])
    assert isinstance(items, list)
    return sorted(one["address"] for one in items)


async def _live(driver: F5Driver, lb_info: dict[str, str], bigip: Bigip) -> None:
    """Have members come, stay, be listed, drain and go, one by one."""
    for _ in range(2):
        for record, address in RECORDS.items():
            ensured = await driver.ensure_backend(an_ensure(lb_info, address, record))
            assert isinstance(ensured, Succ)
    assert ["added", "added"] == [event.what for event in bigip.unit.events]
    listed = (await driver.list_backends(a_list(lb_info))).backends
    assert RECORDS == {one.record_id: one.backend_addr for one in listed}
    for path in bigip.unit.running.pool(WEB).members:
        bigip.unit.connections[WEB, path] = 3
    for record, address in RECORDS.items():
        for _ in range(2):
            drained = await driver.drain_backend(a_drain(lb_info, address, record))
            assert isinstance(drained, Running)
            assert 3 == drained.active_connections
    for record, address in RECORDS.items():
        gone = await driver.deregister_backend(a_deregister(lb_info, address, record))
        assert isinstance(gone, Succ)
        assert "left alone" not in str(gone)


async def _live_together(
    driver: F5Driver, lb_info: dict[str, str], bigip: Bigip
) -> None:
    """Have members come, stay, drain and go together."""
    ensures = [an_ensure(lb_info, address, one) for one, address in RECORDS.items()]
    drains = [a_drain(lb_info, address, one) for one, address in RECORDS.items()]
    ends = [a_deregister(lb_info, address, one) for one, address in RECORDS.items()]
    for _ in range(2):
        ensured = await driver.ensure_backends(ensures)
        assert [Succ, Succ] == [type(one) for one in ensured.values()]
    assert ["added", "added"] == [event.what for event in bigip.unit.events]
    for path in bigip.unit.running.pool(WEB).members:
        bigip.unit.connections[WEB, path] = 3
    await driver.drain_backends(drains)
    drained = await driver.drain_backends(drains)
    assert [3, 3] == [
        getattr(one, "active_connections", None) for one in drained.values()
    ]
    gone = await driver.deregister_backends(ends)
    assert [Succ, Succ] == [type(one) for one in gone.values()]
    assert "left alone" not in str(gone)


async def test_units_spell_so(
    driver: F5Driver, bigip: Bigip, case: Case, lb_info: dict[str, str]
) -> None:
    """What the cases say of the unit holds there."""
    for record, address in RECORDS.items():
        await driver.ensure_backend(an_ensure(lb_info, address, record))

    hosts = ("198.18.0.1", "2001:db8::1")
    assert [f"{one}{case.shown}" for one in hosts] == _shown(bigip)


@pytest.mark.parametrize("live", [_live, _live_together])
async def test_members_are_known_again(
    driver: F5Driver, bigip: Bigip, lb_info: dict[str, str], live: Life
) -> None:
    """They are registered, drained and taken out, with their nodes."""
    await live(driver, lb_info, bigip)

    assert [] == _shown(bigip)
    assert {} == bigip.unit.running.nodes


@pytest.mark.usefixtures("at_nodes")
@pytest.mark.parametrize("live", [_live, _live_together])
async def test_the_operators_nodes_are_used(
    driver: F5Driver, bigip: Bigip, lb_info: dict[str, str], live: Life
) -> None:
    """However the unit writes their addresses, they are found, and left."""
    await live(driver, lb_info, bigip)

    assert [] == _shown(bigip)
    assert ["/Common/web0", "/Common/web1"] == sorted(bigip.unit.running.nodes)


async def test_a_node_of_another_pool_is_used(
    driver: F5Driver, bigip: Bigip, lb_info: dict[str, str]
) -> None:
    """Two pools have members at one node that the driver made; it goes with the last one."""
    bigip.unit.add_pool("/Common/api")
    address = RECORDS["r-1"]
    both = (lb_info, lb_info | {"pool": "/Common/api"})
    for one in both:
        await driver.ensure_backend(an_ensure(one, address, "r-1"))
    assert 1 == len(bigip.unit.running.nodes)
    for one in both:
        await driver.deregister_backend(a_deregister(one, address, "r-1"))

    assert {} == bigip.unit.running.nodes


@pytest.mark.parametrize("batch", [False, True])
async def test_another_route_domain_is_another_address(
    driver: F5Driver, bigip: Bigip, *, batch: bool
) -> None:
    """Members of other people there are no obstacle, are not listed, and stay."""
    bigip.unit.running.domains["Common"] = 7
    theirs = [f"198.18.0.1%{domain}:80" for domain in (8, 9)]
    for name in theirs:
        bigip.unit.running.add_member(WEB, {"name": name, "description": "theirs"})
    lb_info, address = an_identity(bigip), RECORDS["r-1"]
    ensure = an_ensure(lb_info, address, "r-1")
    end = a_deregister(lb_info, address, "r-1")
    if batch:
        await driver.ensure_backends([ensure])
    else:
        await driver.ensure_backend(ensure)
    inside = _shown(bigip)
    listed = (await driver.list_backends(a_list(lb_info))).backends
    if batch:
        await driver.deregister_backends([end])
    else:
        await driver.deregister_backend(end)

    assert ["198.18.0.1%7", "198.18.0.1%8", "198.18.0.1%9"] == inside
    assert ["r-1"] == [one.record_id for one in listed]
    assert {f"/Common/{name}" for name in theirs} == set(
        bigip.unit.running.pool(WEB).members
    )


async def test_a_node_elsewhere_is_in_another_route_domain(
    driver: F5Driver, bigip: Bigip
) -> None:
    """A node of Common without a domain is none of a partition that has a default."""
    bigip.unit.add_pool("/Tenant/web")
    bigip.unit.running.domains["Tenant"] = 7
    bigip.unit.running.add_node({"name": "other", "address": "198.18.0.1"})
    lb_info = an_identity(bigip, pool="/Tenant/web")

    await driver.ensure_backends([an_ensure(lb_info, RECORDS["r-1"], "r-1")])

    assert ["/Tenant/198.18.0.1"] == [
        one.node for one in bigip.unit.running.pool("/Tenant/web").members.values()
    ]


@pytest.mark.parametrize("batch", [False, True])
async def test_what_is_marked_as_a_records_goes_with_it(
    driver: F5Driver, bigip: Bigip, *, batch: bool
) -> None:
    """In whatever route domain it is by now: it is not told as gone while it is there."""
    lb_info, address = an_identity(bigip), RECORDS["r-1"]
    bigip.unit.running.add_node({"name": "web1", "address": "198.18.0.1"})
    await driver.ensure_backend(an_ensure(lb_info, address, "r-1"))
    for there in bigip.unit.running.pool(WEB).members.values():
        there.address = "198.18.0.1%8"
    end = a_deregister(lb_info, address, "r-1")
    if batch:
        await driver.deregister_backends([end])
    else:
        await driver.deregister_backend(end)

    assert [] == _shown(bigip)


@pytest.mark.parametrize("batch", [False, True])
async def test_who_may_not_read_partitions(
    driver: F5Driver, bigip: Bigip, *, batch: bool
) -> None:
    """What is ours is known by where it is: for its record, and for the one after it."""
    bigip.unit.add_pool("/Common/api")
    bigip.unit.running.domains["Common"] = 7
    bigip.faults.forbidden = ("GET /mgmt/tm/auth",)
    lb_info, address = an_identity(bigip), RECORDS["r-1"]
    other = an_identity(bigip, pool="/Common/api")
    listed = list[str]()
    for record in ("r-1", "r-1", "r-2"):
        ensure = an_ensure(lb_info, address, record)
        if batch:
            await driver.ensure_backends([ensure])
        else:
            await driver.ensure_backend(ensure)
        answer = await driver.list_backends(a_list(lb_info))
        listed += [one.record_id for one in answer.backends]
    await driver.ensure_backend(an_ensure(other, address, "r-3"))
    nodes = len(bigip.unit.running.nodes)
    await driver.deregister_backend(a_deregister(lb_info, address, "r-2"))
    await driver.deregister_backend(a_deregister(other, address, "r-3"))

    assert ["r-1", "r-1", "r-2"] == listed
    assert ["added", "added"] == [
        event.what for event in bigip.unit.events if event.what == "added"
    ]
    assert 1 == nodes
    assert [] == _shown(bigip)
    assert {} == bigip.unit.running.nodes
