"""Who waits for an address is told when its holder has ended well, and nobody else."""

import math

from datetime import timedelta

import pytest

from lbcf.core.lifecycle.deregistration import LateCalls
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, Waiting
from lbcf.core.model.values import BootTime, MemberKey, ObjectKey, Uid
from lbcf.deregistrar.noted_calls import NotedCalls
from lbcf.deregistrar.successors import Successors, holder_of, is_waiting
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import RECORDS
from lbcf.kube.list_watch import Put
from lbcf.kube.store import Store
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, RequeueAfter
from tests.builders import a_driver
from tests.fakes.clock import VirtualClock
from tests.fakes.journal import FakeJournal
from tests.kube.tiny_api import TinyApi


HOLDER = Uid("uid-holder")
DRIVER = a_driver(member_key=MemberKey.ADDRESS)
SPEC = {"lbName": "front", "lbDriver": "memory", "staticAddr": "10.0.0.1:80"}


class Scene:
    """An API server in memory, and what a deregistrar has read of it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.client = KubeClient(TinyApi())
        self.records: Store[BackendRecord] = Store(
            {"holder": holder_of}, keep=is_waiting
        )
        self.queue: WorkQueue[ObjectKey] = WorkQueue("successors", self.clock)
        self.successors = Successors(
            self.records,
            self.queue,
            ObjectWriter(self.client, RECORDS, self.records),
            self.clock,
            NotedCalls(FakeJournal()),
        )
        self.records.on_change(self.successors.record_changed)

    async def waits(
        self, holder: str = HOLDER, gone_at: dict[str, object] | None = None
    ) -> BackendRecord:
        """Let a record wait for another one's end, and the watch tell of it."""
        body = {"metadata": {"name": "next"}, "spec": SPEC}
        record = await self.client.create(RECORDS, "shop", body)
        status = {"status": {"waitingFor": {"uid": holder, "goneAt": gone_at}}}
        record = await self.client.patch(
            RECORDS, record.meta.key, status, subresource="status"
        )
        self.records.apply(Put(record))
        return record

    async def told(self, record: BackendRecord) -> Waiting | None:
        """Do what is queued; return what the record says then."""
        while len(self.queue):
            key = await self.queue.get()
            assert Done() == await self.successors.reconcile(key)
            self.queue.done(key)
        return await self.stored(record)

    async def stored(self, record: BackendRecord) -> Waiting | None:
        """Return what the record says."""
        found = await self.client.get(RECORDS, record.meta.key)
        return found.status.waiting


@pytest.fixture(name="scene")
def _scene() -> Scene:
    """Nobody has ended, nobody waits."""
    return Scene()


async def test_who_waits_already_is_told(scene: Scene) -> None:
    """The end comes after the wish."""
    record = await scene.waits()

    scene.successors.ended(HOLDER, DRIVER)

    assert Waiting(HOLDER, is_over=True) == await scene.told(record)
    assert 0 == len(scene.records), "nobody has to be told again"


async def test_who_waits_is_told_when_late_calls_are_over(scene: Scene) -> None:
    """Each by the time of its own permission, or of the driver as it is, if longer."""
    record = await scene.waits()
    began = scene.clock.monotonic()
    longest = DRIVER.settling(Operation.DEREGISTER_BACKEND).total_seconds()

    scene.clock.advance(timedelta(seconds=4))
    scene.successors.ended(HOLDER, DRIVER, LateCalls(began, longest - 5))
    await scene.successors.reconcile(record.meta.key)
    result = await scene.successors.reconcile(record.meta.key)

    assert isinstance(result, RequeueAfter)
    assert longest - 4 == pytest.approx(result.delay.total_seconds(), abs=0.1)
    waiting = await scene.stored(record)
    assert waiting is not None
    assert not waiting.is_over

    scene.clock.advance(timedelta(seconds=longest - 4))

    told = await scene.told(record)
    assert told is not None
    assert told.is_over


async def test_wait_of_less_than_a_microsecond_is_none(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause that is too short to be one would be over at once, and again and again."""
    record = await scene.waits()
    longest = DRIVER.settling(Operation.DEREGISTER_BACKEND).total_seconds()
    now = scene.clock.monotonic()
    monkeypatch.setattr(scene.clock, "monotonic", lambda: now)

    scene.successors.ended(HOLDER, DRIVER, LateCalls(now - longest + 3e-7, longest))
    await scene.successors.reconcile(record.meta.key)

    told = await scene.stored(record)
    assert told is not None
    assert told.is_over


async def test_who_waits_is_told_since_when_calls_are_out(scene: Scene) -> None:
    """A process of this machine counts from there, whoever is killed meanwhile."""
    record = await scene.waits()
    scene.clock.advance(timedelta(seconds=4))
    since = scene.clock.monotonic()
    late = LateCalls(since, math.inf)
    scene.clock.advance(timedelta(seconds=4))

    scene.successors.ended(HOLDER, DRIVER, late)
    await scene.successors.reconcile(record.meta.key)

    known = BootTime("boot", math.ceil(since))
    assert Waiting(HOLDER, gone_at=known) == await scene.stored(record)

    scene.clock.advance(timedelta(hours=1))

    assert Done() == await scene.successors.reconcile(record.meta.key)
    assert Waiting(HOLDER, gone_at=known) == await scene.stored(record), "never over"


@pytest.mark.parametrize(
    ("boot", "seconds", "is_news"),
    [("boot", 2, False), ("boot", 100_000, True), ("another", 2, False)],
)
async def test_only_an_earlier_moment_is_news(
    scene: Scene, boot: str, seconds: int, *, is_news: bool
) -> None:
    """What the registrar has seen itself may be earlier, or be of another machine."""
    record = await scene.waits(gone_at={"boot": boot, "seconds": seconds})
    scene.clock.advance(timedelta(seconds=4))
    late = LateCalls(scene.clock.monotonic(), math.inf)

    scene.successors.ended(HOLDER, DRIVER, late)
    await scene.successors.reconcile(record.meta.key)

    waiting = await scene.stored(record)
    assert waiting is not None
    assert waiting.gone_at is not None
    assert is_news == (waiting.gone_at != BootTime(boot, seconds))


async def test_who_comes_later_is_told(scene: Scene) -> None:
    """The wish comes after the end: a pod that blinks."""
    scene.successors.ended(HOLDER, DRIVER)

    record = await scene.waits()

    assert Waiting(HOLDER, is_over=True) == await scene.told(record)


async def test_who_waits_for_another_is_not_told(scene: Scene) -> None:
    """Of that one nobody knows whether a call may still arrive."""
    record = await scene.waits("uid-another")

    scene.successors.ended(HOLDER, DRIVER)

    assert Waiting(Uid("uid-another")) == await scene.told(record)


async def test_an_end_is_forgotten_when_its_lock_is_free_anyway(scene: Scene) -> None:
    """Memory is for as long as somebody could gain by it."""
    scene.successors.ended(HOLDER, DRIVER)
    scene.clock.advance(timedelta(hours=2))
    scene.successors.ended(Uid("uid-later"), DRIVER)

    record = await scene.waits()

    assert Waiting(HOLDER) == await scene.told(record)


async def test_a_record_that_has_changed_is_looked_at_again(scene: Scene) -> None:
    """Its registrar has written since it was read."""
    record = await scene.waits()
    scene.successors.ended(HOLDER, DRIVER)
    labels = {"metadata": {"labels": {"a": "b"}}}
    await scene.client.patch(RECORDS, record.meta.key, labels)

    result = await scene.successors.reconcile(record.meta.key)

    assert isinstance(result, RequeueAfter)
