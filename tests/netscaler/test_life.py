"""A member's life on an appliance: bound, changed, drained, unbound, saved."""

from datetime import timedelta
from pathlib import Path

import pytest
import trustme

from msgspec.structs import replace

from lbcf.sdk import BackendState, Drain, DrainBackendRequest, Fail, Running, Succ
from tests.netscaler.appliances import GROUP, Site, SteppedClock, a_site
from tests.netscaler.configuration import Member
from tests.netscaler.requests import an_ensure, until_done
from tests.webhooks.requests import ADDRESS, RECORD, a_deregister, a_drain, a_list
from webhooks.netscaler.driver import NetscalerDriver
from webhooks.netscaler.members import Mark


KEY = (GROUP, "lbcf-198.18.0.1", 8080)


def the_member(site: Site) -> Member:
    """Return the member that tests make."""
    return site.unit.running.members[KEY]


async def test_ensured_member(site: Site, driver: NetscalerDriver) -> None:
    """It is bound and enabled, with our mark, on a server object of ours."""
    answer = await driver.ensure_backend(an_ensure(site.lb_info, weight="7"))

    member = the_member(site)
    server = site.unit.running.servers["lbcf-198.18.0.1"]
    assert Succ(msg="") == answer
    mark = Mark.read("lbcf", member.customserverid)
    assert mark is not None
    assert (RECORD, 7) == (mark.record_id, member.weight)
    assert "UP" == site.unit.svrstate(member)
    assert "198.18.0.1" == server.ipaddress
    assert "made by lbcf, removed with its last member" == server.comment


async def test_whole_life(site: Site, driver: NetscalerDriver) -> None:
    """A drain is Running while connections are left; nothing remains in the end."""
    await driver.ensure_backend(an_ensure(site.lb_info))
    site.unit.traffic.open(KEY, 3600)

    going = await driver.drain_backend(a_drain(site.lb_info))
    site.unit.traffic.finish(KEY)
    drained = await driver.drain_backend(a_drain(site.lb_info))
    await until_done(lambda: driver.deregister_backend(a_deregister(site.lb_info)))

    assert isinstance(going, Running)
    assert 1 == going.active_connections
    assert "going out of service: connections are to end (1 left)" == going.msg
    assert Succ(msg="") == drained
    assert {} == site.unit.saved.members == site.unit.running.members
    assert {} == site.unit.saved.servers


async def test_drain_ends_with_the_deadline(
    tmp_path: Path, authority: trustme.CA
) -> None:
    """The appliance is given the time until the deadline, in whole seconds."""
    clock = SteppedClock()
    started = clock.now()
    drain = Drain(started_at=started, deadline=started + timedelta(seconds=29.5))
    async with a_site(tmp_path, authority, clock=clock) as site:
        driver = site.driver()
        await driver.ensure_backend(an_ensure(site.lb_info))
        site.unit.traffic.open(KEY, 3600)

        await driver.drain_backend(replace(a_drain(site.lb_info), drain=drain))
        await driver.stop()

    member = the_member(site)
    assert ("YES", True) == (member.graceful, member.delay in {29, 30})


async def test_drain_without_deadline_waits(
    site: Site, driver: NetscalerDriver
) -> None:
    """Without a deadline in the request the appliance waits for the last connection."""
    await driver.ensure_backend(an_ensure(site.lb_info))
    request = DrainBackendRequest(
        record_id=RECORD, lb_info=site.lb_info, backend_addr=ADDRESS
    )

    await driver.drain_backend(request)

    assert ("YES", 0) == (the_member(site).graceful, the_member(site).delay)


async def test_idle_connections_to_the_server_do_not_count(
    site: Site, driver: NetscalerDriver
) -> None:
    """What the appliance keeps for later is no reason to wait."""
    await driver.ensure_backend(an_ensure(site.lb_info))
    site.unit.traffic.pooled[KEY] = 8

    assert isinstance(await driver.drain_backend(a_drain(site.lb_info)), Succ)


async def test_back_into_service(site: Site, driver: NetscalerDriver) -> None:
    """Ensuring a member that goes out of service puts it back."""
    await driver.ensure_backend(an_ensure(site.lb_info))
    site.unit.traffic.open(KEY, 3600)
    await driver.drain_backend(a_drain(site.lb_info))

    await driver.ensure_backend(an_ensure(site.lb_info))

    assert "UP" == site.unit.svrstate(the_member(site))
    assert 1 == site.unit.traffic.count(KEY)


async def test_parameters_change_in_place(site: Site, driver: NetscalerDriver) -> None:
    """Weight and state follow the parameters, with no connection cut."""
    await driver.ensure_backend(an_ensure(site.lb_info))
    connection = site.unit.traffic.open(KEY, 3600)

    await driver.ensure_backend(an_ensure(site.lb_info, weight="100", state="disabled"))
    member = the_member(site)
    put_off = (member.weight, site.unit.svrstate(member), connection.cut_at)
    await driver.ensure_backend(an_ensure(site.lb_info, weight="1"))

    assert (100, "GOING OUT OF SERVICE", None) == put_off
    assert (1, "UP") == (member.weight, site.unit.svrstate(member))


async def test_bound_disabled(site: Site, driver: NetscalerDriver) -> None:
    """A member that is to be disabled never serves, not even at first."""
    await driver.ensure_backend(an_ensure(site.lb_info, state="disabled"))

    assert ["bound"] == [event.what for event in site.unit.events]
    assert "OUT OF SERVICE" == site.unit.svrstate(the_member(site))


async def test_member_that_its_monitors_hold_back(
    site: Site, driver: NetscalerDriver
) -> None:
    """It counts as registered, and the answer and the list say how it is."""
    site.unit.traffic.failing.add(KEY)

    answer = await driver.ensure_backend(an_ensure(site.lb_info))

    (listed,) = (await driver.list_backends(a_list(site.lb_info))).backends
    assert Succ(msg="DOWN: the group's monitors decide when it serves") == answer
    assert (BackendState.DOWN, "DOWN") == (listed.state, listed.reason)


async def test_ipv6(site: Site, driver: NetscalerDriver) -> None:
    """An IPv6 address is taken in one form, and known in whatever form it comes back."""
    lb_info = site.lb_info
    await driver.ensure_backend(an_ensure(lb_info, "[2001:db8::1]:80"))
    before = site.nitro.changes()
    with pytest.raises(Fail, match=r"backendAddr: write .* as \[2001:db8::1\]:80"):
        await driver.ensure_backend(an_ensure(lb_info, "[2001:0db8:0::1]:80"))
    assert before == site.nitro.changes()

    answer = await driver.list_backends(a_list(lb_info))
    assert ["[2001:db8::1]:80"] == [one.backend_addr for one in answer.backends]
    await until_done(
        lambda: driver.deregister_backend(a_deregister(lb_info, "[2001:0db8:0::1]:80"))
    )
    assert {} == site.unit.running.servers
