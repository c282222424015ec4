"""The recorder tells people what happened, and harms nobody by it.

Aspects: what is written, series, limits per object, a full queue, failures; and that the
real API server takes it.
"""

import asyncio
import re

from datetime import timedelta
from typing import cast

import msgspec
import pytest

from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import Reason
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EVENTS, EventRecorder, Limits, Reference
from lbcf.kube.list_watch import Selection
from lbcf.runtime.clock import SystemClock
from tests.fakes.clock import VirtualClock
from tests.kube.builders import CONFIG_MAPS
from tests.kube.tiny_api import Fault, Json, TinyApi


GROUP = Reference(
    "lbcf.tkestack.io/v1beta1", "BackendGroup", ObjectKey("shop", "web"), Uid("u1")
)
POD = Reference("v1", "Pod", ObjectKey("shop", "web-1"), Uid("u2"))


@pytest.fixture(name="api")
def _api() -> TinyApi:
    """Takes what is written."""
    return TinyApi()


@pytest.fixture(name="clock")
def _clock() -> VirtualClock:
    """Moves by hand."""
    return VirtualClock()


@pytest.fixture(name="recorder")
def _recorder(api: TinyApi, clock: VirtualClock) -> EventRecorder:
    """Writes three Events about an object in a row, and takes five at a time."""
    return EventRecorder(
        KubeClient(api),
        clock,
        controller="lbcf.tkestack.io/controller",
        instance="controller-0",
        limits=Limits(queue=5, burst=3),
    )


def tell(recorder: EventRecorder, note: str = "3 registered") -> None:
    """Record something about the group."""
    recorder.record(GROUP, reason=Reason.REGISTERED, action="Register", note=note)


def written(api: TinyApi) -> list[Json]:
    """Return the Events that the server has."""
    return list(api.objects.values())


async def test_event_says_what_happened(api: TinyApi, recorder: EventRecorder) -> None:
    """All of it is in the Event, and it lives in the object's namespace."""
    recorder.record(
        GROUP,
        reason=Reason.DRIVER_REFUSED,
        action="Register",
        note="no answer",
        warning=True,
        related=POD,
    )
    await recorder.flush()

    (event,) = written(api)
    metadata = cast("Json", event.pop("metadata"))
    assert str(metadata["name"]).startswith("web.")
    assert "shop" == metadata["namespace"]
    # In a real loop the clock tells the machine's uptime since its epoch: any day.
    moment = r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{6}Z"
    assert re.fullmatch(moment, str(event.pop("eventTime")))
    expected = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "type": "Warning",
        "reason": Reason.DRIVER_REFUSED,
        "action": "Register",
        "note": "no answer",
        "regarding": {
            "apiVersion": "lbcf.tkestack.io/v1beta1",
            "kind": "BackendGroup",
            "namespace": "shop",
            "name": "web",
            "uid": "u1",
        },
        "related": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "shop",
            "name": "web-1",
            "uid": "u2",
        },
        "reportingController": "lbcf.tkestack.io/controller",
        "reportingInstance": "controller-0",
    }
    assert expected == event


class TestSeries:
    """The same thing again."""

    async def test_repetition_raises_the_counter(
        self, api: TinyApi, recorder: EventRecorder
    ) -> None:
        """One Event, which says how often."""
        for _ in range(3):
            tell(recorder)
        await recorder.flush()

        (event,) = written(api)
        assert 3 == cast("Json", event["series"])["count"]

    async def test_another_note_is_another_event(
        self, api: TinyApi, recorder: EventRecorder
    ) -> None:
        """Facts are the same only if all of them is."""
        tell(recorder, "one")
        tell(recorder, "two")
        await recorder.flush()

        assert ["one", "two"] == [event["note"] for event in written(api)]

    async def test_series_ends_after_its_window(
        self, api: TinyApi, recorder: EventRecorder, clock: VirtualClock
    ) -> None:
        """What happens again much later is news."""
        for minutes in (5, 5, 7):
            tell(recorder)
            await recorder.flush()
            clock.advance(timedelta(minutes=minutes))
        tell(recorder)
        await recorder.flush()

        first, second = written(api)
        assert 3 == cast("Json", first["series"])["count"]
        assert "series" not in second

    async def test_expired_event_is_written_anew(
        self, api: TinyApi, recorder: EventRecorder
    ) -> None:
        """The server forgets Events; the count goes on."""
        tell(recorder)
        await recorder.flush()
        api.objects.clear()
        tell(recorder)
        await recorder.flush()

        (event,) = written(api)
        assert 2 == cast("Json", event["series"])["count"]


class TestLimits:
    """Nobody is flooded."""

    async def test_object_has_so_many_in_a_row(
        self, api: TinyApi, recorder: EventRecorder
    ) -> None:
        """Then the others still have theirs."""
        for number in range(5):
            tell(recorder, str(number))
        await recorder.flush()
        recorder.record(POD, reason=Reason.REGISTERED, action="Register", note="x")
        await recorder.flush()

        assert ["0", "1", "2", "x"] == [event["note"] for event in written(api)]
        assert 2 == recorder.dropped

    async def test_it_has_more_after_a_while(
        self, api: TinyApi, recorder: EventRecorder, clock: VirtualClock
    ) -> None:
        """One for each period."""
        for number in range(4):
            tell(recorder, str(number))
        await recorder.flush()
        clock.advance(timedelta(minutes=5))
        tell(recorder, "later")
        tell(recorder, "too soon")
        await recorder.flush()

        assert "later" == written(api)[-1]["note"]

    async def test_counter_goes_on_unwritten(
        self, api: TinyApi, recorder: EventRecorder, clock: VirtualClock
    ) -> None:
        """What was not written is in the next number."""
        for _ in range(5):
            tell(recorder)
        await recorder.flush()
        clock.advance(timedelta(minutes=5))
        tell(recorder)
        await recorder.flush()

        (event,) = written(api)
        assert 6 == cast("Json", event["series"])["count"]

    async def test_full_queue_drops(
        self, api: TinyApi, recorder: EventRecorder
    ) -> None:
        """Recording never waits, and memory stays bounded."""
        for _ in range(7):
            tell(recorder)
        assert 2 == recorder.dropped
        assert [] == written(api)

    @pytest.mark.parametrize("character", ["x", "\u00e9", "\u20ac"])
    async def test_long_note_is_cut(
        self, api: TinyApi, recorder: EventRecorder, character: str
    ) -> None:
        """At 1 kB, and between characters."""
        tell(recorder, character * 2000)
        await recorder.flush()

        (event,) = written(api)
        note = str(event["note"])
        assert 1020 < len(note.encode()) <= 1024
        assert note.endswith(character + "...")


@pytest.mark.parametrize("fault", [Fault.UNSENT, Fault.CUT])
async def test_failure_harms_nobody(
    api: TinyApi, recorder: EventRecorder, fault: Fault
) -> None:
    """An Event that cannot be written is counted, and the next one is tried."""
    api.fault = fault
    tell(recorder, "lost")
    await recorder.flush()
    api.fault = None
    tell(recorder, "found")
    await recorder.flush()

    assert ["found"] == [event["note"] for event in written(api)]
    assert 1 == recorder.dropped


async def test_it_writes_in_the_background(
    api: TinyApi, recorder: EventRecorder
) -> None:
    """What is recorded while it runs is written without anybody waiting."""
    task = asyncio.create_task(recorder.run())
    for note in ("one", "two"):
        tell(recorder, note)
        for _ in range(10):
            await asyncio.sleep(0)
    task.cancel()

    assert ["one", "two"] == [event["note"] for event in written(api)]


@pytest.mark.cluster
async def test_real_server_takes_it(real: KubeClient, namespace: str) -> None:
    """A new Event, a raised counter, and one about an object of the whole cluster."""
    created = await real.create(
        CONFIG_MAPS, namespace, {"metadata": {"name": "a" * 253}}
    )
    recorder = EventRecorder(
        real,
        SystemClock(),
        controller="lbcf.tkestack.io/controller",
        instance="controller-0",
    )
    about = Reference("v1", "ConfigMap", created.meta.key, created.meta.uid)
    node = Reference("v1", "Node", ObjectKey("", namespace))
    for regarding in (about, about, node):
        recorder.record(
            regarding,
            reason=Reason.REGISTERED,
            action="Test",
            note="\u20ac" * 1000,
            related=node,
        )
    await recorder.flush()

    assert 0 == recorder.dropped
    (event,) = (await real.list(EVENTS, Selection(namespace))).objects
    raw = msgspec.json.decode(await real.get_raw(EVENTS, event.meta.key))
    assert 2 == raw["series"]["count"]


async def test_replica_that_does_not_lead_tells_nothing(
    api: TinyApi, recorder: EventRecorder
) -> None:
    """It sees what the leader sees; what it saw is not told later either."""
    recorder.is_silent = True
    tell(recorder)
    recorder.is_silent = False
    await recorder.flush()

    assert [] == written(api)
