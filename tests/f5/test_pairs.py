"""Two units, of which one is active: which of them is changed, and what a failover does."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from lbcf.sdk import RetryAfter, Running, Succ
from tests.f5.requests import MEMBER, WEB, an_ensure, an_identity
from tests.f5.server import Bigip, fail_over
from tests.webhooks.requests import a_deregister, a_drain, a_list
from webhooks.f5.driver import F5Driver


Pair = tuple[Bigip, Bigip]
GROUP = "/Common/pair"


def _members(bigip: Bigip) -> list[str]:
    """Return the members of the pool."""
    return list(bigip.unit.running.pool(WEB).members)


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
