"""Other people work on the load balancer, too: what each driver does and says then."""

import re

import pytest

from lbcf.sdk import Fail, Succ
from tests.webhooks.requests import a_deregister, a_drain, a_list
from tests.webhooks.rig import Rig, State
from tests.webhooks.rigs import those
from tests.webhooks.troubled import settled


@those(lambda kind: kind.has_hands)
async def test_removed_by_hand_is_done(rig: Rig) -> None:
    """Nothing is left to drain; what came with the member goes."""
    driver = rig.start()
    await driver.ensure_backend(rig.ensure())
    await rig.remove()

    assert isinstance(await driver.drain_backend(rig.drain()), Succ)
    await settled(lambda: driver.deregister_backend(rig.deregister()))
    assert [] == await rig.left()


@those(lambda kind: kind.has_hands)
async def test_removed_while_it_should_be_there(rig: Rig) -> None:
    """It is listed no more; the next ensure puts it back.

    The epoch stays where nothing else can have been lost with it.
    """
    driver = rig.start()
    await driver.ensure_backend(rig.ensure())
    before = await rig.listed(driver)
    await rig.remove()

    after = await rig.listed(driver)
    await driver.ensure_backend(rig.ensure())
    if rig.has_sessions:
        rig.end_sessions()
    again = await rig.listed(driver)

    assert [1, 0, 1] == [len(one.backends) for one in (before, after, again)]
    assert rig.removal_is_loss == (before.epoch != after.epoch)
    assert after.epoch == again.epoch
    assert State.IN is await rig.state()


@those(lambda kind: kind.replaces_records)
async def test_another_records_member(rig: Rig) -> None:
    """A late word of a record that is gone does not touch its successor."""
    driver = rig.start()
    await driver.ensure_backend(rig.ensure("old"))
    await driver.ensure_backend(rig.ensure("new"))

    answers = [
        await driver.drain_backend(rig.drain("old")),
        await driver.deregister_backend(rig.deregister("old")),
    ]

    assert [Succ] * 2 == [type(one) for one in answers]
    assert all(re.search(rig.superseded, str(one.msg)) for one in answers)
    assert State.IN is await rig.state()
    if rig.names_records:
        assert ["new"] == [one.record_id for one in (await rig.listed(driver)).backends]


@those(lambda kind: kind.taken)
async def test_somebody_elses_member(rig: Rig) -> None:
    """It is neither changed nor taken out; ensuring says what to do."""
    driver = rig.start()
    await rig.occupy(rig.address)
    before = [await rig.strangers(), await rig.trace()]

    with pytest.raises(Fail) as refused:
        await driver.ensure_backend(rig.ensure())
    drained = await driver.drain_backend(rig.drain())
    await settled(lambda: driver.deregister_backend(rig.deregister()))

    assert re.search(rig.taken, refused.value.msg)
    assert isinstance(drained, Succ)
    assert rig.left_alone in str(drained.msg)
    assert before == [await rig.strangers(), await rig.trace()]
    assert [] == await rig.left()


async def test_strangers_are_not_listed(rig: Rig) -> None:
    """Only our members are, in a pool that others use, too; none of them leaves."""
    driver = rig.start()
    await rig.occupy("198.18.0.9:80")
    await driver.ensure_backend(rig.ensure())
    before = await rig.strangers()

    answer = await driver.list_backends(a_list(rig.lb_info))
    for address in (rig.address, "198.18.0.9:80"):
        drain = a_drain(rig.lb_info, address, "x")
        await driver.drain_backend(drain)
        await driver.deregister_backend(a_deregister(rig.lb_info, address, "x"))

    assert [rig.address] == [one.backend_addr for one in answer.backends]
    assert before == await rig.strangers()
