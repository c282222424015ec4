"""What the controller tells of the deregistrar's Lease."""

import asyncio

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import attrs
import msgspec

from lbcf.controller.deregistrar_lease import AWAY, DeregistrarLease
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Unavailable
from lbcf.kube.events import EventRecorder
from lbcf.kube.leases import parse_lease
from lbcf.kube.requests import ApiRequest
from tests.controller.exchanges import Nobody
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual


SYSTEM = "lbcf-system"
LATE = AWAY.total_seconds() + 1


class OneLease(Nobody):
    """An API server that has one Lease, and keeps the Events that it gets."""

    def __init__(self) -> None:
        self.lease = b""
        self.is_silent = False
        self.reads = 0
        self.events: list[tuple[str, str]] = []

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Answer."""
        if self.is_silent:
            raise Unavailable(f"{request} {within}: silent", sent=None)
        if request.method == "GET":
            self.reads += 1
            return self.lease
        assert request.body is not None
        event = msgspec.json.decode(request.body)
        self.events.append((event["type"], event["reason"]))
        return request.body


@attrs.define
class Stage:
    """A controller that follows the Lease."""

    api: OneLease = attrs.Factory(OneLease)
    renewals: int = 0
    lease: DeregistrarLease = attrs.field(init=False)
    recorder: EventRecorder = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        clock, client = VirtualClock(), KubeClient(self.api)
        self.recorder = EventRecorder(client, clock, controller="test", instance="test")
        self.lease = DeregistrarLease(client, clock, SYSTEM, self.recorder)

    def renew(self, holder: str = "pod-a_uid", *, is_seen: bool = True) -> None:
        """Let somebody write the Lease; the watch may lag."""
        self.renewals += 1
        meta = {
            "namespace": SYSTEM,
            "name": "lbcf-deregistrar",
            "uid": "uid-l",
            "resourceVersion": str(self.renewals),
        }
        body = {"metadata": meta, "spec": {"holderIdentity": holder}}
        self.api.lease = msgspec.json.encode(body)
        if is_seen:
            self.lease.informer.store.observe(parse_lease(self.api.lease))


def follow(stage: Stage, play: Coroutine[Any, Any, None]) -> list[tuple[str, str]]:
    """Play while the Lease is followed; answer which Events were written."""

    async def both() -> None:
        watching = asyncio.create_task(stage.lease.run())
        await play
        watching.cancel()
        await stage.recorder.flush()

    run_virtual(both())
    return stage.api.events


def test_who_stops_and_comes_back_is_told_once_each() -> None:
    """However long it is away; a renewal in time tells nothing."""
    stage = Stage()

    async def play() -> None:
        for _ in range(10):
            stage.renew()
            await asyncio.sleep(2.2)
        await asyncio.sleep(5 * LATE)
        stage.renew("pod-b_uid")
        await asyncio.sleep(2.2)

    told = [("Warning", "DeregistrarAway"), ("Normal", "DeregistrarBack")]
    assert told == follow(stage, play())


def test_lease_that_is_let_go_is_told() -> None:
    """Somebody scaled it to nothing: the Lease is there, and nobody's."""
    stage = Stage()

    async def play() -> None:
        stage.renew()
        await asyncio.sleep(1)
        stage.renew("")
        await asyncio.sleep(LATE)

    assert [("Warning", "DeregistrarAway")] == follow(stage, play())


def test_watch_that_lags_is_no_end_of_the_deregistrar() -> None:
    """The Lease itself is asked before anything is told."""
    stage = Stage()

    async def play() -> None:
        stage.renew()
        await asyncio.sleep(1)
        stage.renew(is_seen=False)
        await asyncio.sleep(3 * LATE)

    assert [] == follow(stage, play())


def test_nobody_is_told_away_by_who_cannot_ask() -> None:
    """Nor of a Lease that was never there, which is not even asked for."""
    stage, none = Stage(), Stage()

    async def play() -> None:
        stage.renew()
        stage.api.is_silent = True
        await asyncio.sleep(3 * LATE)
        stage.api.is_silent = False
        stage.renew()

    assert [] == follow(stage, play())
    assert [] == follow(none, asyncio.sleep(3 * LATE))
    assert 0 == none.api.reads
