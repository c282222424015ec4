"""Turns tell which drivers can be reached: the first that does ends the others' pause."""

import pytest

from prometheus_client import CollectorRegistry

from lbcf.core.lifecycle import deregistration
from lbcf.core.lifecycle.deregistration import DeregistrationState
from lbcf.core.lifecycle.steps import CallRefused, NoAnswer, Reply, Step, StillRunning
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.drivers.pool import DriverPool
from lbcf.executor import Executor, Subject
from lbcf.kube.client import KubeClient
from lbcf.kube.store import Store
from lbcf.runtime.queue import ReconnectNotifier, WorkQueue
from tests.builders import a_driver, a_key, a_record
from tests.controller.exchanges import Nobody
from tests.core.world import World
from tests.fakes.clock import VirtualClock


OTHER = a_key("other")
DRIVER = a_driver()
UNREACHED = NoAnswer(Reason.DRIVER_UNREACHABLE, "connection refused", may_land=False)


class OneRecord(Executor):
    """Carries out steps in a world of one record."""

    def __init__(self, record: BackendRecord, recall: ReconnectNotifier) -> None:
        clock = VirtualClock()
        pool = DriverPool(clock, CollectorRegistry())
        super().__init__(KubeClient(Nobody()), pool, clock, recall=recall)
        self.world = World(record)

    def now(self) -> Now:
        """Read the world's clock."""
        return self.world.now()

    async def perform(self, _subject: Subject, step: Step) -> Reply:
        """Carry out a step."""
        return self.world.perform(step)

    async def end(self, *answers: Reply) -> None:
        """Visit the record, whose driver gives these answers first."""
        self.world.answers.extend(answers)
        meta = self.world.stored.meta
        await self.run(
            Subject(meta.key, meta.uid),
            DeregistrationState(first_seen=0.0).begin_turn(DRIVER),
            deregistration.next_step,
            deregistration.learn,
            lambda _learnt: None,
        )


@pytest.fixture
def queue() -> WorkQueue[ObjectKey]:
    """Where records come back to."""
    return WorkQueue("deletions", VirtualClock())


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([], id="success"),
        pytest.param([CallRefused("quota")], id="refusal"),
        pytest.param([StillRunning("later")], id="running"),
        pytest.param(
            [NoAnswer(Reason.DRIVER_TIMED_OUT, "", may_land=True)], id="time-out"
        ),
    ],
)
async def test_call_that_gets_through_brings_the_others_back(
    queue: WorkQueue[ObjectKey], answers: list[Reply]
) -> None:
    """Whatever came of it: somebody is there again."""
    recall = ReconnectNotifier(queue, Store[BackendRecord]().on_end)
    recall.missed(DRIVER.meta.key, OTHER)

    await OneRecord(a_record(registered=True, deleting=True), recall).end(*answers)

    assert [OTHER] == [await queue.get() for _ in range(len(queue))]


async def test_call_that_does_not_get_through_waits_with_the_others(
    queue: WorkQueue[ObjectKey],
) -> None:
    """It comes back when one of them gets through."""
    recall = ReconnectNotifier(queue, Store[BackendRecord]().on_end)
    executor = OneRecord(a_record(registered=True, deleting=True), recall)

    await executor.end(UNREACHED)

    assert 0 == len(queue)
    recall.reached(DRIVER.meta.key, OTHER)
    assert executor.world.stored.meta.key == await queue.get()
