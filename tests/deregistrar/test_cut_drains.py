"""Groups are told of drains that were cut, once for all within some seconds."""

import asyncio

from typing import cast

import attrs

from lbcf.core.lifecycle.deregistration import (
    DeregistrationState,
    DrainEnd,
    connections_left,
    end_of_drain,
)
from lbcf.core.model.resources import BackendRecord, DrainProgress
from lbcf.core.model.values import Uid
from lbcf.deregistrar.cut_drains import GATHERED, CutDrains
from lbcf.executor.object_events import reference_to
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder
from tests.builders import START, a_key, a_record, seconds
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import TinyApi
from tests.kube.tiny_rules import Json


WEB = "web-1:8080 at front"
FIRST = f"{WEB} (3), {WEB} (not told), {WEB} (2) and 2 more"
STATE = DeregistrationState(first_seen=0.0)
DRAIN = DrainProgress(START, START + seconds(30), connections=4)


def draining(record: BackendRecord, *, gone: bool = False) -> BackendRecord:
    """Let its drain have waited, and its backend be gone or not."""
    status = attrs.evolve(record.status, drain=DRAIN, backend_gone=gone)
    return attrs.evolve(record, status=status)


def test_many_cuts_of_a_group_are_one_event() -> None:
    """A node that is drained may cut hundreds; a later one is told again."""
    group = reference_to("BackendGroup", a_key("web"), Uid("uid-web"))
    lonely = reference_to("BackendRecord", a_key("lonely"), Uid("uid-lonely"))
    clock, api = VirtualClock(), TinyApi()
    recorder = EventRecorder(KubeClient(api), clock, controller="test", instance="test")

    async def play() -> list[tuple[object, ...]]:
        cuts = CutDrains(recorder, clock, None)
        cuts.start()
        for number, left in enumerate((3, None, 2, 1, 1)):
            cuts.add(a_record(f"web-{number}"), left)
        cuts.add(attrs.evolve(a_record("lonely"), group=None), None)
        await recorder.flush()
        assert not api.objects
        await asyncio.sleep(GATHERED.total_seconds() + 1)
        cuts.add(a_record("late"), 7)
        await cuts.stop(GATHERED)
        await recorder.flush()
        found = [cast("Json", dict(event)) for event in api.objects.values()]
        return [
            (one["type"], one["reason"], one["regarding"], one["note"]) for one in found
        ]

    told = [
        (group, "5 drains were cut at the deadline, with 7 connections left: " + FIRST),
        (lonely, f"1 drain was cut at the deadline: {WEB} (not told)"),
        (group, f"1 drain was cut at the deadline, with 7 connections left: {WEB} (7)"),
    ]
    assert [
        ("Warning", "DrainsCut", about.render(), note) for about, note in told
    ] == run_virtual(play())


def test_end_of_a_drain_is_what_was_waited_for() -> None:
    """One that is abandoned was not cut by us, and one that never waited is none."""
    record = draining(a_record(deleting=True))
    ordered = {"lbcf.tkestack.io/abandon": "scrapped"}
    abandoned = draining(a_record(deleting=True, annotations=ordered))
    drained = attrs.evolve(STATE, drained=True)

    assert DrainEnd.DEADLINE is end_of_drain(STATE, record)
    assert DrainEnd.EMPTY is end_of_drain(drained, record)
    gone = draining(a_record(deleting=True), gone=True)
    assert DrainEnd.BACKEND_GONE is end_of_drain(STATE, gone)
    assert end_of_drain(STATE, a_record(deleting=True)) is None
    assert end_of_drain(STATE, abandoned) is None


def test_connections_are_those_of_the_last_answer() -> None:
    """What is written may be ten seconds old; after a restart it is all there is."""
    record = draining(a_record(deleting=True))

    assert 4 == connections_left(STATE, record)
    assert 1 == connections_left(attrs.evolve(STATE, connections=1), record)
