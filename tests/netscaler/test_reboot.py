"""Reboots: what is not on disk is lost with one, and what was taken out comes back."""

import asyncio

from datetime import timedelta
from pathlib import Path

import attrs
import pytest
import trustme

from lbcf.sdk import Refusal, Running, Succ
from tests.haproxy.waiting import until
from tests.netscaler.appliances import Site, a_site
from tests.netscaler.errors import NOT_AUTHORIZED, NitroRefusal
from tests.netscaler.nitro import Held, Trouble, busy, html, refused
from tests.netscaler.requests import an_ensure, until_done, until_said
from tests.netscaler.test_faults import is_save
from tests.netscaler.test_life import KEY, the_member
from tests.webhooks.requests import a_deregister, a_drain, a_list
from webhooks.netscaler.driver import NetscalerDriver


async def test_a_change_is_saved(site: Site, driver: NetscalerDriver) -> None:
    """Soon, and once for several of them."""
    await driver.ensure_backend(an_ensure(site.lb_info))

    await driver.stop()

    assert [KEY] == list(site.unit.saved.members)


async def test_an_appliance_that_hangs_holds_up_no_other(
    tmp_path: Path, authority: trustme.CA
) -> None:
    """A driver that ends saves all of them side by side."""
    async with (
        a_site(tmp_path, authority) as slow,
        a_site(tmp_path, authority) as other,
    ):
        both = attrs.evolve(slow, served=[*slow.served, *other.served])
        driver = both.driver(timedelta(hours=1))
        for one in (slow, other):
            await driver.ensure_backend(an_ensure(one.lb_info))
        held = Held(is_save)
        slow.nitro.holds.append(held)
        stopping = asyncio.create_task(driver.stop())

        async def is_other_saved() -> bool:
            return bool(other.unit.saves)

        await until(is_other_saved)
        held.go.set()
        await stopping

        assert [KEY] == list(slow.unit.saved.members) == list(other.unit.saved.members)


async def test_a_reboot_that_loses_a_member(
    site: Site, driver: NetscalerDriver
) -> None:
    """It is told while it lasts; then the epoch is new, and ensuring puts it back."""
    site.nitro.troubles.append(Trouble(busy, 10**6, is_save))
    await driver.ensure_backend(an_ensure(site.lb_info))
    before = await driver.list_backends(a_list(site.lb_info))
    site.unit.reboot()
    site.nitro.troubles[:] = [Trouble(html, 10**6)]

    with pytest.raises(Refusal, match=r"503 without NITRO .*is its management rest"):
        await driver.list_backends(a_list(site.lb_info))
    site.nitro.troubles.clear()
    after = await driver.list_backends(a_list(site.lb_info))
    await driver.ensure_backend(an_ensure(site.lb_info))

    assert (1, 0) == (len(before.backends), len(after.backends))
    assert before.epoch != after.epoch
    assert [KEY] == list(site.unit.running.members)


async def test_a_removal_is_done_when_it_is_saved(
    site: Site, driver: NetscalerDriver
) -> None:
    """While saving fails it is Running, and says why; a reboot brings it back."""
    await driver.ensure_backend(an_ensure(site.lb_info))
    site.unit.save()
    no = NitroRefusal(NOT_AUTHORIZED, "Not authorized to execute this command")
    site.nitro.troubles.append(Trouble(lambda: refused(no), 10**6, is_save))
    asked = a_deregister(site.lb_info)

    said = await until_said(
        lambda: driver.deregister_backend(asked), "error 2138, .*command policy"
    )
    site.unit.reboot()
    back = list(site.unit.running.members)
    site.nitro.troubles.clear()
    await until_done(lambda: driver.deregister_backend(asked))

    assert said.startswith("taken out, and waits for `save ns config`")
    assert [KEY] == back
    assert {} == site.unit.saved.members == site.unit.running.members


async def test_ensured_while_its_removal_waits(
    site: Site, driver: NetscalerDriver
) -> None:
    """Its server object is made again, and goes with it again."""
    await driver.ensure_backend(an_ensure(site.lb_info))
    site.nitro.troubles.append(Trouble(busy, 10**6, is_save))
    asked = a_deregister(site.lb_info)
    waiting = await driver.deregister_backend(asked)
    between = list(site.unit.running.servers)
    await driver.ensure_backend(an_ensure(site.lb_info))
    again = list(site.unit.running.servers)
    site.nitro.troubles.clear()
    await until_done(lambda: driver.deregister_backend(asked))

    assert isinstance(waiting, Running)
    assert ([], ["lbcf-198.18.0.1"]) == (between, again)
    assert {} == site.unit.running.servers == site.unit.saved.servers


async def test_a_driver_that_died_before_it_saved(site: Site) -> None:
    """The next one saves what it finds unsaved before it says that it is done."""
    dying, next_one = site.driver(timedelta(hours=1)), site.driver()
    await dying.ensure_backend(an_ensure(site.lb_info))
    site.unit.save()
    site.unit.change(lambda config: config.delete_server("lbcf-198.18.0.1"))

    asked = a_deregister(site.lb_info)
    said = await until_done(lambda: next_one.deregister_backend(asked))

    assert ["taken out, and waits for `save ns config`"] == said
    assert {} == site.unit.saved.members
    await dying.stop()
    await next_one.stop()


async def test_nothing_unsaved_is_not_waited_for(
    site: Site, driver: NetscalerDriver
) -> None:
    """Where the appliance says that all is on disk, what is gone is gone."""
    assert Succ(msg="") == await driver.deregister_backend(a_deregister(site.lb_info))
    assert 0 == site.unit.saves


async def test_rebooted_after_its_drain(site: Site, driver: NetscalerDriver) -> None:
    """A member that came back into service is drained once more, for a while."""
    await driver.ensure_backend(an_ensure(site.lb_info))
    site.unit.save()
    site.nitro.troubles.append(Trouble(busy, 10**6, is_save))
    await driver.drain_backend(a_drain(site.lb_info))
    site.unit.reboot()
    connection = site.unit.traffic.open(KEY, 3600)
    asked = a_deregister(site.lb_info)

    answer = await driver.deregister_backend(asked)
    delay = the_member(site).delay
    site.unit.traffic.finish(KEY)
    site.nitro.troubles.clear()
    await until_done(lambda: driver.deregister_backend(asked))

    assert isinstance(answer, Running)
    assert "it got connections after its drain (1 left)" == answer.msg
    assert (30, None) == (delay, connection.cut_at)
    assert {} == site.unit.running.members


async def test_not_drained_is_cut(site: Site, driver: NetscalerDriver) -> None:
    """Past its deadline a member goes with what is left on it."""
    await driver.ensure_backend(an_ensure(site.lb_info))
    connection = site.unit.traffic.open(KEY, 3600)
    asked = a_deregister(site.lb_info, drained=False)

    await until_done(lambda: driver.deregister_backend(asked))

    assert connection.cut_at is not None
