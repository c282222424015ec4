"""What a deregistrar has noted of a record's end goes with the record, whoever ended it."""

import asyncio

import pytest

from tests.kube.tiny_rules import place_of
from tests.lab.sweep.loop import BusyLoop
from tests.lab.sweep.objects import BACKEND
from tests.lab.sweep.run import prepare
from tests.lab.sweep.stage import ONE, begin
from tests.lab.sweep.world import World


PAUSE = 10.2
"""Seconds after which the first call has had no answer, and none follows yet."""


async def noted(*, forced: bool) -> tuple[list[object], list[object]]:
    """End a record whose first call has no answer; return what is noted then, and at last."""
    world = World(BACKEND, {})
    prepare(world)
    world.put_group()
    world.start("controller")
    deregistrar = world.start("deregistrar")
    await begin(world, ONE)
    world.troubles["deregisterBackend"] = ["timeout-late"]
    world.drop_pod("web-1")
    await asyncio.sleep(PAUSE)
    before = deregistrar.journal.noted("call/")
    if forced:
        for path in list(world.api.objects):
            if place_of(path).plural == "backendrecords":
                world.drop(path)
    await asyncio.sleep(60)
    after = deregistrar.journal.noted("call/")
    await world.close()
    return before, after


@pytest.mark.parametrize("forced", [False, True], ids=["ours", "somebody's"])
def test_nothing_is_noted_of_a_record_that_has_ended(*, forced: bool) -> None:
    """By our own hand, or by that of somebody who takes its finalizer off."""
    loop = BusyLoop()
    try:
        before, after = loop.run_until_complete(noted(forced=forced))
    finally:
        loop.close()

    assert 1 == len(before)
    assert [] == after
