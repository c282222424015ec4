"""A member's life, the same with each shipped driver; with what follows each step."""

import asyncio

import pytest

from lbcf.sdk import BackendState, Fail, Succ
from tests.webhooks.requests import RECORD
from tests.webhooks.rig import Rig, State
from tests.webhooks.rigs import those
from tests.webhooks.troubled import settled


async def test_listed_through_its_life(rig: Rig) -> None:
    """Active, Draining and not at all, with its record, under one epoch."""
    driver, lists = rig.start(), []
    await driver.ensure_backend(rig.ensure())
    lists.append(await rig.listed(driver))
    await settled(lambda: driver.drain_backend(rig.drain()))
    drained = await rig.state()
    lists.append(await rig.listed(driver))
    await settled(lambda: driver.deregister_backend(rig.deregister()))
    lists.append(await rig.listed(driver))

    is_there = drained is State.OUT
    record = RECORD if rig.names_records else ""
    assert rig.at_last["drain"] is drained
    assert [[rig.unchecked], [BackendState.DRAINING] * is_there, []] == [
        [one.state for one in answer.backends] for answer in lists
    ]
    assert [(rig.address, record)] * (1 + is_there) == [
        (one.backend_addr, one.record_id) for answer in lists for one in answer.backends
    ]
    assert 1 == len({answer.epoch for answer in lists})
    assert [] == await rig.left()


async def test_ensuring_again_changes_nothing(rig: Rig) -> None:
    """What is as it should be is only read."""
    driver = rig.start()
    await driver.ensure_backend(rig.ensure())
    before = await rig.trace()

    await driver.ensure_backend(rig.ensure())

    assert before == await rig.trace()


async def test_ensuring_ends_a_drain(rig: Rig) -> None:
    """A member that is wanted again serves again."""
    driver = rig.start()
    await driver.ensure_backend(rig.ensure())
    await driver.drain_backend(rig.drain())
    drained = await rig.state()

    await driver.ensure_backend(rig.ensure())

    assert (rig.at_last["drain"], State.IN) == (drained, await rig.state())


async def test_what_is_not_there_is_gone(rig: Rig) -> None:
    """Draining and deregistering it is Succ, and changes nothing."""
    driver, before = rig.start(), await rig.trace()

    answers = [
        await driver.drain_backend(rig.drain()),
        await driver.deregister_backend(rig.deregister()),
        await driver.deregister_backend(rig.deregister(drained=False)),
    ]

    assert [Succ] * 3 == [type(one) for one in answers]
    assert before == await rig.trace()


async def test_a_pool_that_is_gone(rig: Rig) -> None:
    """Its members are drained and gone with it; nothing can be put into it."""
    driver, nowhere = rig.start(), rig.lb_info | dict(rig.gone)

    answers = [
        await driver.drain_backend(rig.drain(lb_info=nowhere)),
        await driver.deregister_backend(rig.deregister(lb_info=nowhere)),
        await driver.deregister_backend(rig.deregister(lb_info=nowhere, drained=False)),
    ]
    with pytest.raises(Fail, match=rig.no_pool):
        await driver.ensure_backend(rig.ensure(lb_info=nowhere))

    assert [Succ] * 3 == [type(one) for one in answers]


@those(lambda kind: kind.is_shared)
async def test_several_processes_at_once(rig: Rig) -> None:
    """Whoever comes too late finds what it wanted: there is one member."""
    drivers = [rig.start() for _ in range(4)]
    await drivers[0].ensure_backend(rig.ensure())
    once = await rig.left()
    await settled(lambda: drivers[0].deregister_backend(rig.deregister()))

    answers = await asyncio.gather(
        *(driver.ensure_backend(rig.ensure()) for driver in drivers)
    )

    assert [Succ] * 4 == [type(one) for one in answers]
    assert once == await rig.left()
    assert State.IN is await rig.state()
