"""Pairs: the primary is asked, whichever unit that is just now."""

import asyncio

from datetime import timedelta

import pytest

from lbcf.sdk import Fail, RetryAfter, Running, Succ
from tests.netscaler.appliances import Site
from tests.netscaler.nitro import Held, Trouble, busy
from tests.netscaler.pair import HaPair
from tests.netscaler.requests import an_ensure, until_done
from tests.netscaler.test_faults import is_login, is_save
from tests.netscaler.test_life import KEY
from tests.patience import PATIENT
from tests.webhooks.requests import a_deregister, a_drain, a_list
from webhooks.netscaler import pair as asking
from webhooks.netscaler.driver import NetscalerDriver


def the_pair(site: Site) -> HaPair:
    """Return the two units."""
    assert site.pair is not None
    return site.pair


@pytest.mark.parametrize("swapped", [False, True])
async def test_only_the_primary_is_changed(
    pair: Site, pair_driver: NetscalerDriver, *, swapped: bool
) -> None:
    """Whatever the order in which the units are named."""
    if swapped:
        the_pair(pair).fail_over()

    await pair_driver.ensure_backend(an_ensure(pair.lb_info))

    changed = [bool(one.nitro.changes()) for one in pair.served]
    assert [not swapped, swapped] == changed
    assert KEY in the_pair(pair).secondary.running.members


async def test_failover_during_a_drain(
    pair: Site, pair_driver: NetscalerDriver
) -> None:
    """The other unit goes on with it."""
    await pair_driver.ensure_backend(an_ensure(pair.lb_info))
    pair.unit.traffic.open(KEY, 3600)
    await pair_driver.drain_backend(a_drain(pair.lb_info))
    the_pair(pair).fail_over()

    assert isinstance(await pair_driver.drain_backend(a_drain(pair.lb_info)), Succ)
    asked = a_deregister(pair.lb_info)
    await until_done(lambda: pair_driver.deregister_backend(asked))

    for unit in (the_pair(pair).first, the_pair(pair).second):
        assert {} == unit.running.members == unit.saved.members


async def test_failover_to_an_older_configuration(
    pair: Site, pair_driver: NetscalerDriver
) -> None:
    """A member that the other unit still has is taken out there, too."""
    await pair_driver.ensure_backend(an_ensure(pair.lb_info))
    the_pair(pair).synchronised = False
    pair.nitro.troubles.append(Trouble(busy, 10**6, is_save))
    asked = a_deregister(pair.lb_info)
    first = await pair_driver.deregister_backend(asked)
    the_pair(pair).fail_over()

    await until_done(lambda: pair_driver.deregister_backend(asked))

    assert isinstance(first, Running)
    assert {} == pair.unit.running.members == pair.unit.saved.members


async def test_the_epoch_changes(pair: Site, pair_driver: NetscalerDriver) -> None:
    """A failover and a reboot may have lost members: all are ensured again."""
    epochs = [(await pair_driver.list_backends(a_list(pair.lb_info))).epoch]
    the_pair(pair).fail_over()
    epochs.append((await pair_driver.list_backends(a_list(pair.lb_info))).epoch)
    pair.unit.reboot()
    epochs.append((await pair_driver.list_backends(a_list(pair.lb_info))).epoch)

    assert 3 == len(set(epochs))


async def test_a_dead_unit_is_not_waited_for(
    pair: Site, pair_driver: NetscalerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unit that took over is enough, and the driver ends without the other."""
    monkeypatch.setattr("webhooks.device.logins.LAST", timedelta(milliseconds=50))
    the_pair(pair).fail_over()
    pair.served[0].nitro.silent = True

    answer = await pair_driver.ensure_backend(an_ensure(pair.lb_info))
    await pair_driver.stop()

    assert Succ(msg="") == answer
    assert {} == pair.unit.sessions


async def test_the_other_units_login_is_slow(
    pair: Site, pair_driver: NetscalerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is not waited for, it has one session, which is given back."""
    monkeypatch.setattr(asking, "OTHER", timedelta(milliseconds=50))
    login, other = Held(is_login, late=True), pair.served[1]
    other.nitro.holds.append(login)
    for _ in range(4):
        await pair_driver.list_backends(a_list(pair.lb_info))
    await login.begun.wait()
    login.go.set()
    await pair_driver.list_backends(a_list(pair.lb_info))
    logins = len(list(filter(is_login, other.nitro.heard)))
    monkeypatch.setattr("webhooks.device.logins.LAST", PATIENT)
    await pair_driver.stop()

    assert 1 == logins
    assert [{}, {}] == [one.unit.sessions for one in pair.served]


async def test_connections_are_those_of_the_unit_that_took_over(
    pair: Site, pair_driver: NetscalerDriver
) -> None:
    """Put back into service there after its drain, a member is drained once more."""
    await pair_driver.ensure_backend(an_ensure(pair.lb_info))
    await pair_driver.drain_backend(a_drain(pair.lb_info))
    the_pair(pair).fail_over()
    pair.unit.enable(pair.unit.running.members[KEY])
    pair.unit.traffic.open(KEY, 3600)

    answers = await pair_driver.deregister_backends([a_deregister(pair.lb_info)])

    (answer,) = answers.values()
    assert isinstance(answer, Running)
    assert "it got connections after its drain" in str(answer.msg)
    assert 1 == pair.unit.traffic.count(KEY)


async def test_a_server_is_not_removed_beneath_another_load_balancers_member(
    pair: Site, pair_driver: NetscalerDriver
) -> None:
    """A unit alone, and the pair that it is in, have one change at a time there."""
    alone = pair.lb_info | {"devices": pair.served[0].url}
    other = pair.lb_info | {"serviceGroup": "other"}
    await pair_driver.ensure_backend(an_ensure(alone))
    removal = Held(lambda one: (one.method, one.resource) == ("DELETE", "server"))
    pair.nitro.holds.append(removal)
    leave = a_deregister(alone)
    leaving = asyncio.create_task(pair_driver.deregister_backend(leave))
    await removal.begun.wait()
    come = an_ensure(other, "198.18.0.1:9090", "another")
    coming = asyncio.create_task(pair_driver.ensure_backend(come))
    # More requests than it takes to bind a member, each after the one before.
    for _ in range(20):
        if not coming.done():
            await pair_driver.list_backends(a_list(alone))
    removal.go.set()
    await asyncio.gather(leaving, coming)

    assert [("other", "lbcf-198.18.0.1", 9090)] == list(pair.unit.running.members)


async def test_nobody_is_primary(pair: Site, pair_driver: NetscalerDriver) -> None:
    """While the units change places nothing is changed, and the answer says so."""
    for one in pair.served:
        one.unit.role = "Secondary"

    with pytest.raises(RetryAfter, match=r"no single unit is primary .*a failover\?"):
        await pair_driver.ensure_backend(an_ensure(pair.lb_info))
    the_pair(pair).second.role = "Primary"
    await pair_driver.ensure_backend(an_ensure(pair.lb_info))

    assert KEY in the_pair(pair).second.running.members


async def test_both_say_that_they_are_primary(
    pair: Site, pair_driver: NetscalerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is changed on units that do not know of each other."""
    the_pair(pair).second.role = "Primary"
    # A slow machine may need longer for the second answer than an appliance does.
    monkeypatch.setattr(asking, "OTHER", PATIENT)

    with pytest.raises(RetryAfter, match="no single unit is primary"):
        await pair_driver.ensure_backend(an_ensure(pair.lb_info))

    assert [[], []] == [one.nitro.changes() for one in pair.served]


async def test_the_primary_is_dead_and_nobody_took_over_yet(
    pair: Site, pair_driver: NetscalerDriver
) -> None:
    """What each unit says is told, until the other one takes over."""
    pair.nitro.troubles.append(Trouble(None, 10**6))

    with pytest.raises(RetryAfter, match=r"primary now \(.* is 'Secondary'; .*hung up"):
        await pair_driver.ensure_backend(an_ensure(pair.lb_info))
    the_pair(pair).fail_over()
    await pair_driver.ensure_backend(an_ensure(pair.lb_info))

    assert KEY in the_pair(pair).second.running.members


async def test_only_a_secondary_is_named(
    pair: Site, pair_driver: NetscalerDriver
) -> None:
    """What is changed there would be lost: it is refused, with what to do."""
    lb_info = pair.lb_info | {"devices": pair.served[1].url}

    with pytest.raises(Fail, match="is 'Secondary': name both units in `devices`"):
        await pair_driver.ensure_backend(an_ensure(lb_info))

    assert [] == pair.served[1].nitro.changes()


async def test_no_unit_is_reached(pair: Site, pair_driver: NetscalerDriver) -> None:
    """The reason of the first unit is told."""
    for one in pair.served:
        one.unit.password = "another"  # noqa: S105  (nobody's)

    with pytest.raises(Fail, match="error 354"):
        await pair_driver.ensure_backend(an_ensure(pair.lb_info))
