"""Reboots and restarts: what is lost, comes back, and is put right."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from lbcf.sdk import BackendState, Refusal, Running
from tests.f5.requests import MEMBER, WEB, an_ensure, an_identity
from tests.f5.server import Bigip
from tests.webhooks.requests import ADDRESS, RECORD, a_deregister, a_drain, a_list
from webhooks.f5.driver import F5Driver
from webhooks.f5.members import Wanted
from webhooks.f5.names import Mark
from webhooks.f5.parameters import Options
from webhooks.f5.pool import Pool
from webhooks.shared.outcomes import Finished


SOON = timedelta(milliseconds=400)
"""A save period, in the time of a clock that runs twenty times as fast."""


def _members(bigip: Bigip) -> list[str]:
    """Return the members of the pool."""
    return list(bigip.unit.running.pool(WEB).members)


class TestDisk:
    """What survives a reboot."""

    async def test_changes_are_saved(
        self, make_driver: Callable[..., F5Driver], bigip: Bigip
    ) -> None:
        """Soon after they were made, without anybody's asking."""
        driver, lb_info = make_driver(save_period=SOON), an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        while not bigip.unit.saved.pools[WEB].members:
            await driver.list_backends(a_list(lb_info))

        bigip.reboot()
        assert [MEMBER] == _members(bigip)

    async def test_a_change_is_noted_when_it_is_live(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """A save between the note and the change would be taken for its save."""
        balancer = driver.load_balancers.find(an_identity(bigip))
        unit = await driver.load_balancers.units.active(balancer.identity.devices)
        noted: list[list[str]] = []
        pool = Pool(
            unit.api,
            balancer.identity.pool,
            Mark(),
            lambda: noted.append(_members(bigip)),
        )

        await pool.ensure(Wanted(balancer.address(ADDRESS), "lbcf:r1", Options()))

        assert ([], [MEMBER]) == (noted[0], noted[-1])

    async def test_a_node_that_went_is_noted_when_it_is_gone(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """Else it would be back after a reboot, and nobody's."""
        await driver.ensure_backend(an_ensure(an_identity(bigip)))
        balancer = driver.load_balancers.find(an_identity(bigip))
        unit = await driver.load_balancers.units.active(balancer.identity.devices)
        noted: list[int] = []
        pool = Pool(
            unit.api,
            balancer.identity.pool,
            Mark(),
            lambda: noted.append(len(bigip.unit.running.nodes)),
        )

        await pool.deregister(balancer.address(ADDRESS), RECORD)

        assert (1, 0) == (noted[0], noted[-1])

    async def test_a_rollout_is_saved_once(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """Many changes are one save; what is left when the driver ends is saved."""
        lb_info = an_identity(bigip)
        for last in range(1, 6):
            await driver.ensure_backend(an_ensure(lb_info, f"198.18.0.{last}:80"))
        await driver.stop()

        bigip.reboot()
        assert (5, 1) == (len(_members(bigip)), bigip.unit.saves)

    async def test_a_restarted_driver_saves_what_another_left(
        self, make_driver: Callable[..., F5Driver], bigip: Bigip
    ) -> None:
        """One that was killed may have left changes unsaved; nobody knows which."""
        lb_info = an_identity(bigip)
        await make_driver().ensure_backend(an_ensure(lb_info))
        another = make_driver()
        await another.list_backends(a_list(lb_info))
        await another.stop()

        bigip.reboot()
        assert [MEMBER] == _members(bigip)

    async def test_a_reboot_that_loses_members(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """The epoch changes; ensuring puts them back; the unit's start is told."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        before = (await driver.list_backends(a_list(lb_info))).epoch

        bigip.reboot(pages=99)
        with pytest.raises(Refusal, match="Starting up"):
            await driver.list_backends(a_list(lb_info))
        bigip.faults.pages = 0

        after = (await driver.list_backends(a_list(lb_info))).epoch
        assert before != after
        assert after == (await driver.list_backends(a_list(lb_info))).epoch
        await driver.ensure_backend(an_ensure(lb_info))
        assert [MEMBER] == _members(bigip)

    async def test_a_quick_restart_that_loses_members(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """A unit that does not know our token any more may have lost the rest, too."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        before = (await driver.list_backends(a_list(lb_info))).epoch

        bigip.reboot()
        assert before != (await driver.list_backends(a_list(lb_info))).epoch

    async def test_a_restart_that_loses_nothing(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """The epoch stays while all members are there."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        before = (await driver.list_backends(a_list(lb_info))).epoch

        bigip.unit.save()
        bigip.reboot()
        assert before == (await driver.list_backends(a_list(lb_info))).epoch

    async def test_a_reboot_that_brings_members_back(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """What was taken out, and not saved, is taken out again."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        bigip.unit.save()
        await driver.deregister_backend(a_deregister(lb_info))

        bigip.reboot()
        assert [MEMBER] == _members(bigip)
        listed = await driver.list_backends(a_list(lb_info))

        assert [] == list(listed.backends)
        assert ([], {}) == (_members(bigip), bigip.unit.running.nodes)

    async def test_a_member_that_is_wanted_again_stays(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """A record that was taken out and ensured anew is not taken for the old one."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        await driver.deregister_backend(a_deregister(lb_info))
        await driver.ensure_backend(an_ensure(lb_info))

        assert 1 == len((await driver.list_backends(a_list(lb_info))).backends)
        assert [MEMBER] == _members(bigip)

    async def test_a_member_that_is_wanted_meanwhile_stays(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """Who takes out again what came back looks once more before each change."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        balancer = driver.load_balancers.find(lb_info)
        unit = await driver.load_balancers.units.active(balancer.identity.devices)
        pool = Pool(unit.api, balancer.identity.pool, Mark(), lambda: None)

        outcome = await pool.deregister(
            balancer.address(ADDRESS), RECORD, still=lambda: False
        )

        assert Finished("it is wanted again") == outcome
        assert "user-enabled" == bigip.unit.member(WEB, MEMBER)["session"]

    async def test_a_reboot_in_a_drain(self, driver: F5Driver, bigip: Bigip) -> None:
        """A member that came up in service is disabled again."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        bigip.unit.save()
        await driver.drain_backend(a_drain(lb_info))
        bigip.reboot()

        assert isinstance(await driver.drain_backend(a_drain(lb_info)), Running)
        assert "user-disabled" == bigip.unit.member(WEB, MEMBER)["session"]


async def test_looks_are_shared(
    make_driver: Callable[..., F5Driver], bigip: Bigip
) -> None:
    """Listing again and again asks the unit once; a change is seen at once."""
    driver = make_driver(look_period=timedelta(hours=1))
    lb_info = an_identity(bigip)
    await driver.ensure_backend(an_ensure(lb_info))
    for _ in range(5):
        await driver.list_backends(a_list(lb_info))
    asked = bigip.seen.count("GET /mgmt/tm/ltm/pool/~Common~web/members")
    await driver.drain_backend(a_drain(lb_info))
    draining = (await driver.list_backends(a_list(lb_info))).backends
    await driver.deregister_backend(a_deregister(lb_info))

    assert [BackendState.DRAINING] == [one.state for one in draining]
    assert [] == list((await driver.list_backends(a_list(lb_info))).backends)
    assert 3 > asked
