"""Two units, of which one is active: which of them is changed, and what a failover does."""

import asyncio

from collections.abc import Callable
from datetime import timedelta

import pytest

from lbcf.sdk import (
    CreateLoadBalancerRequest,
    EnsureLoadBalancerRequest,
    Fail,
    RetryAfter,
    Running,
    Succ,
)
from tests.f5.requests import MEMBER, WEB, an_ensure, an_identity
from tests.f5.server import GROUP, Bigip, fail_over
from tests.webhooks.requests import ADDRESS, RECORD, a_deregister, a_drain, a_list
from webhooks.device.devices import Device
from webhooks.device.errors import DeviceError, Refused
from webhooks.f5.driver import F5Driver
from webhooks.f5.memory import Memory
from webhooks.f5.names import parse_address
from webhooks.f5.units import Unit


Pair = tuple[Bigip, Bigip]
OTHER = "/Common/other"
"""A device group that is tried before that of the pair: they go by their names."""

SECOND = "198.18.0.2:80"
SOON = timedelta(milliseconds=400)
"""A save period, in the time of a clock that runs twenty times as fast."""


def _members(bigip: Bigip) -> list[str]:
    """Return the members of the pool."""
    return list(bigip.unit.running.pool(WEB).members)


async def _active(driver: F5Driver, lb_info: dict[str, str]) -> Unit:
    """Return what the driver has of the active unit."""
    balancer = driver.load_balancers.find(lb_info)
    return await driver.load_balancers.units.active(balancer.identity.devices)


async def test_the_active_unit_is_changed(driver: F5Driver, pair: Pair) -> None:
    """Whichever of them it is."""
    first, second = pair
    fail_over(first, second)

    await driver.ensure_backend(an_ensure(an_identity(first, second)))

    assert ([], [MEMBER]) == (_members(first), _members(second))


async def test_the_other_is_brought_up_to_date(
    make_driver: Callable[..., F5Driver], pair: Pair
) -> None:
    """After changes the device group is synchronized, and the active unit saved."""
    first, second = pair
    driver = make_driver()
    await driver.ensure_backend(an_ensure(an_identity(first, second, syncGroup=GROUP)))
    await driver.stop()

    assert ([MEMBER], [MEMBER]) == (_members(first), _members(second))
    assert {GROUP} == set(first.unit.syncs)
    assert 0 < first.unit.saves


async def test_a_save_that_is_cut_short(
    make_driver: Callable[..., F5Driver], pair: Pair
) -> None:
    """A driver that ends while it saves does it again, all of it."""
    first, second = pair
    lb_info = an_identity(first, second, syncGroup=GROUP)
    driver = make_driver(save_period=timedelta(milliseconds=100))
    first.faults.slow_saves = 60
    await driver.ensure_backend(an_ensure(lb_info))
    await first.save_begun.wait()
    first.faults.slow_saves = 0
    await driver.stop()

    assert [MEMBER] == _members(second)


async def test_a_synchronization_that_is_cut_short(
    driver: F5Driver, pair: Pair
) -> None:
    """A driver that ends meanwhile does it again."""
    first, second = pair
    lb_info = an_identity(first, second, syncGroup=GROUP)
    await driver.ensure_backend(an_ensure(lb_info))
    unit = await _active(driver, lb_info)
    first.faults.slow_syncs = 60
    kept = asyncio.create_task(unit.keep())
    await first.sync_begun.wait()
    kept.cancel()
    first.faults.slow_syncs = 0
    await driver.stop()

    assert [MEMBER] == _members(second)


async def test_a_failover_before_the_save(driver: F5Driver, pair: Pair) -> None:
    """The unit that is not active any more overwrites nobody; the other one does."""
    first, second = pair
    lb_info = an_identity(first, second, syncGroup=GROUP)
    await driver.ensure_backend(an_ensure(lb_info))
    fail_over(first, second)
    await driver.ensure_backend(an_ensure(lb_info))
    await driver.ensure_backend(an_ensure(lb_info, SECOND, "second"))
    await driver.stop()

    assert ([], [GROUP]) == (first.unit.syncs, second.unit.syncs)
    assert [MEMBER, f"/Common/{SECOND}"] == _members(first) == _members(second)


async def test_a_failover_in_the_save(
    make_driver: Callable[..., F5Driver], pair: Pair
) -> None:
    """Saving takes long: who is active is asked after it."""
    first, second = pair
    lb_info = an_identity(first, second, syncGroup=GROUP)
    driver = make_driver(save_period=SOON)
    first.faults.slow_saves = 60
    await driver.ensure_backend(an_ensure(lb_info))
    await first.save_begun.wait()
    fail_over(first, second)
    await driver.ensure_backend(an_ensure(lb_info, SECOND, "second"))
    first.faults.slow_saves = 0
    while not (first.unit.saves and second.unit.syncs):
        await driver.list_backends(a_list(lb_info))
    await driver.stop()

    assert [] == first.unit.syncs
    assert [f"/Common/{SECOND}"] == _members(second)


async def test_nobody_knows_whether_it_is_active(driver: F5Driver, pair: Pair) -> None:
    """A unit that cannot be asked is asked again, and does nothing meanwhile."""
    first, second = pair
    lb_info = an_identity(first, second, syncGroup=GROUP)
    await driver.ensure_backend(an_ensure(lb_info))
    unit = await _active(driver, lb_info)
    first.unit.stuck = {GROUP}
    with pytest.raises(Refused, match="01071488"):
        await unit.keep()
    await first.stop()
    with pytest.raises(DeviceError, match=r"hung up|cannot be reached"):
        await unit.keep()
    first.unit.stuck = set()
    await first.start()
    await unit.keep()

    assert [GROUP] == first.unit.syncs


async def test_a_unit_that_takes_over_again(
    make_driver: Callable[..., F5Driver], pair: Pair
) -> None:
    """It brings the other up to date each time, which may have anything."""
    first, second = pair
    lb_info = an_identity(first, second, syncGroup=GROUP)
    driver = make_driver(save_period=SOON)
    await driver.ensure_backend(an_ensure(lb_info))
    for loser, winner in [(first, second), (second, first)]:
        while not loser.unit.syncs:
            await driver.list_backends(a_list(lb_info))
        fail_over(loser, winner)
    first.unit.syncs.clear()
    await driver.list_backends(a_list(lb_info))
    await driver.stop()

    assert [GROUP] == first.unit.syncs


async def test_one_wrong_group_holds_up_no_other(driver: F5Driver, pair: Pair) -> None:
    """It is not tried again while nobody uses it; the others are synchronized."""
    first, second = pair
    wrong = an_identity(first, second, syncGroup="/Common/a-typo")
    right = an_identity(first, second, syncGroup=GROUP)
    await driver.ensure_backend(an_ensure(wrong))
    await driver.ensure_backend(an_ensure(right, SECOND, "second"))
    unit = await _active(driver, right)
    await unit.keep()
    await unit.keep()

    assert [GROUP] == first.unit.syncs
    assert 2 == len(_members(second))
    assert 2 == first.seen.count("POST /mgmt/tm/cm")


async def test_a_group_that_is_made_later(driver: F5Driver, pair: Pair) -> None:
    """It is synchronized as long as somebody uses it, without more saves."""
    first, second = pair
    lb_info = an_identity(first, second, syncGroup=OTHER)
    await driver.ensure_backend(an_ensure(lb_info))
    unit = await _active(driver, lb_info)
    await unit.keep()
    first.unit.groups.append(OTHER)
    await driver.list_backends(a_list(lb_info))
    await unit.keep()

    assert ([OTHER], 1) == (first.unit.syncs, first.unit.saves)
    assert [MEMBER] == _members(second)


async def test_no_unit_was_active_for_a_moment(driver: F5Driver, pair: Pair) -> None:
    """What was not synchronized then is when the unit is active and used again."""
    first, second = pair
    lb_info = an_identity(first, second, syncGroup=GROUP)
    await driver.ensure_backend(an_ensure(lb_info))
    unit = await _active(driver, lb_info)
    first.unit.failover = "standby"
    await unit.keep()
    meanwhile = _members(second)
    first.unit.failover = "active"
    await driver.list_backends(a_list(lb_info))
    await unit.keep()

    assert ([], [MEMBER]) == (meanwhile, _members(second))
    assert 1 == first.unit.saves


async def test_only_what_failed_is_done_again(driver: F5Driver, pair: Pair) -> None:
    """One device group that cannot be synchronized costs no saves, and no other group."""
    first, second = pair
    first.unit.groups.append(OTHER)
    first.unit.stuck = {OTHER}
    both = [an_identity(first, second, syncGroup=one) for one in (GROUP, OTHER)]
    for lb_info in both:
        await driver.ensure_backend(an_ensure(lb_info))
    unit = await _active(driver, both[0])
    with pytest.raises(Refused, match=r"01071488.*/Common/other"):
        await unit.keep()
    first.unit.stuck = set()
    await unit.keep()
    await unit.keep()

    assert ([GROUP, OTHER], 1) == (first.unit.syncs, first.unit.saves)


async def test_a_save_that_failed_is_made_again(driver: F5Driver, pair: Pair) -> None:
    """Before anything is synchronized."""
    first, second = pair
    lb_info = an_identity(first, second, syncGroup=GROUP)
    await driver.ensure_backend(an_ensure(lb_info))
    unit = await _active(driver, lb_info)
    first.faults.busy = 4
    with pytest.raises(DeviceError, match="is busy"):
        await unit.keep()
    before = (first.unit.saves, list(first.unit.syncs))
    await unit.keep()

    assert (0, []) == before
    assert (1, [GROUP]) == (first.unit.saves, first.unit.syncs)


async def test_a_group_that_is_not_there(driver: F5Driver, pair: Pair) -> None:
    """No load balancer is made with it, and one that was made says so."""
    fields = an_identity(*pair, syncGroup="/Common/a-typo")

    with pytest.raises(Fail, match="there is no device group /Common/a-typo"):
        await driver.create_load_balancer(
            CreateLoadBalancerRequest(record_id=RECORD, lb_spec=fields)
        )
    with pytest.raises(Fail, match="there is no device group /Common/a-typo"):
        await driver.ensure_load_balancer(
            EnsureLoadBalancerRequest(record_id=RECORD, lb_info=fields)
        )
    good = an_identity(*pair, syncGroup=GROUP)
    made = await driver.create_load_balancer(
        CreateLoadBalancerRequest(record_id=RECORD, lb_spec=good)
    )
    assert GROUP == (made.lb_info or {})["syncGroup"]


async def test_a_failover_and_back(driver: F5Driver, pair: Pair) -> None:
    """What the first unit never had is lost, and not taken out by somebody."""
    first, second = pair
    lb_info = an_identity(first, second)
    await driver.ensure_backend(an_ensure(lb_info))
    before = (await driver.list_backends(a_list(lb_info))).epoch
    fail_over(first, second)
    await driver.ensure_backend(an_ensure(lb_info, SECOND, "second"))
    fail_over(second, first)

    assert before != (await driver.list_backends(a_list(lb_info))).epoch


def test_a_failover_is_an_interruption() -> None:
    """Also where both units were away as often."""
    memory, address = Memory(), parse_address(ADDRESS)
    memory.compare(frozenset(), (), (Device("10.1.1.1"), 1))
    memory.has_put(address, RECORD)

    assert memory.compare(memory.expected(), (), (Device("10.1.1.2"), 1))
    memory.has_put(address, RECORD)
    assert not memory.compare(memory.expected(), (), (Device("10.1.1.2"), 1))


async def test_a_failover_without_the_latest(driver: F5Driver, pair: Pair) -> None:
    """The epoch changes, and what is ensured is put into the unit that took over."""
    first, second = pair
    lb_info = an_identity(first, second)
    await driver.ensure_backend(an_ensure(lb_info))
    before = (await driver.list_backends(a_list(lb_info))).epoch

    fail_over(first, second)
    assert before != (await driver.list_backends(a_list(lb_info))).epoch
    await driver.ensure_backend(an_ensure(lb_info))

    assert [MEMBER] == _members(second)


async def test_a_failover_that_brings_members_back(
    driver: F5Driver, pair: Pair
) -> None:
    """What was taken out of one unit is taken out of the other, too."""
    first, second = pair
    lb_info = an_identity(first, second)
    await driver.ensure_backend(an_ensure(lb_info))
    first.unit.run({"command": "run", "utilCmdArgs": f"config-sync to-group {GROUP}"})
    await driver.deregister_backend(a_deregister(lb_info))

    fail_over(first, second)
    await driver.list_backends(a_list(lb_info))

    assert [] == _members(second)


async def test_a_dead_unit_is_left_out(driver: F5Driver, pair: Pair) -> None:
    """The other one is active, and does all."""
    first, second = pair
    lb_info = an_identity(first, second)
    await driver.ensure_backend(an_ensure(lb_info))
    await first.stop()
    second.unit.failover = "active"

    assert isinstance(await driver.ensure_backend(an_ensure(lb_info)), Succ)
    assert [MEMBER] == _members(second)


async def test_a_dead_standby_costs_nothing(driver: F5Driver, pair: Pair) -> None:
    """The unit that was active last is asked first."""
    first, second = pair
    fail_over(first, second)
    lb_info = an_identity(first, second)
    await driver.ensure_backend(an_ensure(lb_info))
    asked = len(first.seen)

    await driver.ensure_backend(an_ensure(lb_info))

    assert asked == len(first.seen)


async def test_none_is_active(driver: F5Driver, pair: Pair) -> None:
    """In the middle of a failover nothing is changed; each unit's word is told.

    The one that takes over gets the member.
    """
    first, second = pair
    lb_info = an_identity(first, second)
    first.unit.failover = "standby"
    await second.stop()

    with pytest.raises(RetryAfter, match=r"is standby; .*cannot be reached"):
        await driver.ensure_backend(an_ensure(lb_info))
    meanwhile = _members(first)
    await second.start()
    second.unit.failover = "active"
    await driver.ensure_backend(an_ensure(lb_info))

    assert ([], [], [MEMBER]) == (meanwhile, _members(first), _members(second))


async def test_both_are_active(driver: F5Driver, pair: Pair) -> None:
    """Units that have lost each other: the one that was active before is changed."""
    first, second = pair
    lb_info = an_identity(first, second)
    fail_over(first, second)
    await driver.list_backends(a_list(lb_info))
    first.unit.failover = "active"

    await driver.ensure_backend(an_ensure(lb_info))

    assert ([], [MEMBER]) == (_members(first), _members(second))


async def test_a_failover_in_a_drain(driver: F5Driver, pair: Pair) -> None:
    """The unit that took over drains, whatever it was told of it, and lets it go."""
    first, second = pair
    lb_info = an_identity(first, second)
    await driver.ensure_backend(an_ensure(lb_info))
    first.unit.run({"command": "run", "utilCmdArgs": f"config-sync to-group {GROUP}"})
    first.unit.connections[WEB, MEMBER] = 3
    await driver.drain_backend(a_drain(lb_info))

    fail_over(first, second)
    second.unit.connections[WEB, MEMBER] = 2
    begun = await driver.drain_backend(a_drain(lb_info))
    session = second.unit.member(WEB, MEMBER)["session"]
    second.unit.connections.clear()
    drained = await driver.drain_backend(a_drain(lb_info))
    await driver.deregister_backend(a_deregister(lb_info))

    assert isinstance(begun, Running)
    assert (2, "user-disabled") == (begun.active_connections, session)
    assert isinstance(drained, Succ)
    assert [] == _members(second)
