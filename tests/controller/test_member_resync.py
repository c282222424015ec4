"""How load balancers are read whose drivers list members: each for itself."""

import asyncio
import gc
import tracemalloc

from collections.abc import Callable, Collection, Coroutine
from datetime import timedelta

import attrs
import pytest

from prometheus_client import CollectorRegistry

from lbcf.controller.first_checks import FirstChecks
from lbcf.controller.member_resync import MemberResync
from lbcf.controller.noted_ensures import NotedEnsures
from lbcf.controller.other_shards import ElsewhereLost
from lbcf.controller.record_lister import RecordLister
from lbcf.controller.registrar import Registrar
from lbcf.controller.resync_schedule import AT_ONCE
from lbcf.controller.view import View
from lbcf.core.lifecycle.listing import not_asked
from lbcf.core.lifecycle.steps import CallFailure
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.drivers.pool import DriverPool
from lbcf.executor import Executor, Listing, LoadBalancerCalls
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Conflict
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import LOAD_BALANCERS, RECORDS
from lbcf.kube.list_watch import Put, Removed
from lbcf.kube.requests import ApiRequest
from lbcf.runtime.journal import NoJournal
from lbcf.runtime.limiter import Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.shutdown import RoundCutError, work_until_asked
from lbcf.wire.driver_answers import BackendState, ListedBackend
from lbcf.wire.metadata import Identity
from tests.builders import a_driver, a_load_balancer, a_record, seconds
from tests.controller.exchanges import Nobody, idle_binds
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual


PERIOD = seconds(2)
GIVES_UP = 10.0


class NoWrites(Nobody):
    """An API server without records that refuses every write.

    Attributes:
        refused: the paths of those.
        is_cut: a library cancels each write instead, which nobody has asked for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []
        self.is_cut = False

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Answer."""
        if request.method == "GET":
            return b'{"metadata":{"resourceVersion":"1"},"items":[]}'
        if self.is_cut:
            raise asyncio.CancelledError
        self.refused.append(request.path)
        raise Conflict(f"{request} {within}: 409", status=409)


class Lists(LoadBalancerCalls):
    """Drivers that answer at once, and some that never do."""

    def __init__(self, hanging: Collection[str]) -> None:
        clock = VirtualClock()
        super().__init__(DriverPool(clock, CollectorRegistry()), clock)
        self.begun: dict[ObjectKey, list[float]] = {}
        self.listing = Listing("e1", (), b"")
        self._hanging = hanging

    async def list(
        self, load_balancer: LoadBalancer, driver: LoadBalancerDriver, known: bytes
    ) -> Listing | CallFailure | None:
        """List no members in an epoch that is written down, unless told otherwise."""
        now = asyncio.get_running_loop().time()
        self.begun.setdefault(load_balancer.meta.key, []).append(now)
        if driver.meta.key.name in self._hanging:
            await asyncio.sleep(GIVES_UP)
        return attrs.evolve(self.listing, digest=known)


@attrs.define
class Stage:
    """A resync of members over a view."""

    hanging: Collection[str] = ()
    view: View = attrs.Factory(View)
    api: NoWrites = attrs.Factory(NoWrites)
    calls: Lists = attrs.field(init=False)
    survey: MemberResync = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        clock, client = VirtualClock(), KubeClient(self.api)
        self.calls = Lists(self.hanging)
        pool = DriverPool(clock, CollectorRegistry())
        queue: WorkQueue[ObjectKey] = WorkQueue("records", clock)
        recorder = EventRecorder(client, clock, controller="test", instance="test")
        checks = FirstChecks(self.view, clock)
        self.survey = MemberResync(
            self.view,
            client,
            ObjectWriter(client, LOAD_BALANCERS, self.view.load_balancers),
            records := ObjectWriter(client, RECORDS, self.view.records),
            self.calls,
            lists=RecordLister(client, self.view.observe_record),
            registrar=Registrar(
                self.view,
                queue,
                Executor(client, pool, clock),
                "me",
                Shares(8),
                checks=checks,
                noted=NotedEnsures(NoJournal()),
            ),
            elsewhere=ElsewhereLost(
                self.view, records, WorkQueue("lost-elsewhere", clock), clock
            ),
            checks=checks,
            binds=idle_binds(self.view, client, recorder),
            recorder=recorder,
            period=PERIOD,
            clock=clock,
        )
        self.survey.listen()

    def show(self, name: str, driver: str, epoch: str = "e1") -> LoadBalancer:
        """Let there be a load balancer of a driver that lists."""
        listing = {Operation.LIST_BACKENDS.value: seconds(10)}
        self.view.drivers.apply(Put(attrs.evolve(a_driver(driver), timeouts=listing)))
        found = a_load_balancer(name, driver=driver)
        found = attrs.evolve(found, epoch=epoch)
        self.view.load_balancers.apply(Put(found))
        return found

    def drop(self, found: LoadBalancer) -> None:
        """Let it go."""
        meta = found.meta
        gone = Identity(meta.key, meta.uid, meta.resource_version)
        self.view.load_balancers.apply(Removed(gone))

    async def go_on(self, length: float) -> None:
        """Let the resync run."""
        running = asyncio.gather(*self.survey.rounds())
        await asyncio.sleep(length)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_driver_that_hangs_delays_no_other_reading() -> None:
    """Each load balancer is read by its own period."""
    stage = Stage({"dead"})
    for number in range(40):
        stage.show(f"dead-{number}", "dead")
    calm = stage.show("front", "proxy")

    run_virtual(stage.go_on(60))

    assert len(stage.calls.begun[calm.meta.key]) >= 60 // PERIOD.total_seconds() - 1


def test_driver_may_begin_to_list_and_cease() -> None:
    """Its load balancers are read as long as it says that it lists."""
    stage = Stage()
    found = stage.show("front", "proxy")
    key = found.meta.key

    async def play() -> None:
        await stage.go_on(3)
        before = len(stage.calls.begun[key])
        stage.view.drivers.apply(Put(a_driver("proxy", version=2, generation=2)))
        await stage.go_on(10)
        assert before == len(stage.calls.begun[key])
        listing = {Operation.LIST_BACKENDS.value: seconds(10)}
        again = a_driver("proxy", version=3, generation=3)
        stage.view.drivers.apply(Put(attrs.evolve(again, timeouts=listing)))
        await stage.go_on(3)
        assert before < len(stage.calls.begun[key])

    run_virtual(play())


def test_member_that_comes_later_is_told_that_nobody_lists_it() -> None:
    """Its load balancer says so already, and is not looked at again."""
    stage, record = Stage(), a_record(registered=True)
    front = stage.show("front", "proxy")
    stage.view.drivers.apply(Put(a_driver("proxy", version=2, generation=2)))
    said = attrs.evolve(front, conditions=(not_asked(front, None),))
    meta = attrs.evolve(front.meta, resource_version="2")
    stage.view.load_balancers.apply(Put(attrs.evolve(said, meta=meta)))

    async def play() -> None:
        running = asyncio.create_task(stage.go_on(6))
        await asyncio.sleep(3)
        stage.view.records.apply(Put(record))
        await running

    run_virtual(play())

    assert [f"{RECORDS.path(record.meta.key)}/status"] == stage.api.refused


def memory_after(stage: Stage) -> int:
    """Say how much memory is in use when nobody looks at what was read."""
    stage.calls.begun.clear()
    stage.api.refused.clear()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def growth_of(generation: Callable[[int], Coroutine[object, object, int]]) -> int:
    """Say how much more memory is in use after ten further generations."""

    async def play() -> int:
        before = await generation(0)
        return [await generation(number) for number in range(1, 11)][-1] - before

    tracemalloc.start()
    try:
        return run_virtual(play())
    finally:
        tracemalloc.stop()


def test_nothing_is_kept_of_load_balancers_that_are_gone() -> None:
    """However many come and go."""
    stage = Stage()

    async def generation(number: int) -> int:
        """Let a hundred come, be read, and go; say how much memory is in use then."""
        made = [stage.show(f"front-{number}-{n}", "proxy", "") for n in range(100)]
        await stage.go_on(4)
        assert len(stage.calls.begun) == len(made)
        for found in made:
            stage.drop(found)
        return memory_after(stage)

    assert growth_of(generation) < 100 * 1000


def test_nothing_is_kept_of_those_that_go_while_they_are_read() -> None:
    """What their drivers answer then is about nobody."""
    drivers = [f"slow-{number}" for number in range(100 // AT_ONCE)]
    stage = Stage(drivers)

    async def generation(number: int) -> int:
        """Let about a hundred come, and go while their drivers are asked."""
        made = [
            stage.show(f"front-{number}-{driver}-{n}", driver, "")
            for driver in drivers
            for n in range(AT_ONCE)
        ]
        reading = asyncio.create_task(stage.go_on(2 * GIVES_UP))
        await asyncio.sleep(GIVES_UP / 2)
        assert len(stage.calls.begun) == len(made)
        for found in made:
            stage.drop(found)
        await reading
        return memory_after(stage)

    assert growth_of(generation) < 100 * 1000


def test_cut_of_what_is_written_ends_the_work() -> None:
    """Nobody would write InService any more, while members were read as before."""
    stage, record = Stage(), a_record(registered=True)
    stage.show("front", "proxy")
    stage.view.drivers.apply(Put(a_driver("proxy", version=2, generation=2)))
    stage.view.records.apply(Put(record))
    stage.api.is_cut = True

    async def play() -> None:
        async with asyncio.timeout(60):
            with pytest.raises(RoundCutError, match="InServiceCondition"):
                await work_until_asked(
                    asyncio.Event(),
                    rounds=stage.survey.rounds(),
                    workers=(),
                    grace=timedelta(0),
                )

    run_virtual(play())


def test_members_are_looked_at_while_another_one_cannot_be_put_back() -> None:
    """Its driver refuses one after a reset, maybe for good: others go out of service."""
    stage = Stage()
    stage.show("front", "proxy")
    lost, other = a_record("web-1"), a_record("web-2", registered=True)
    stage.view.records.apply(Put(lost))
    member = ListedBackend(
        backend_addr=other.address, record_id=other.meta.uid, state=BackendState.DOWN
    )
    stage.calls.listing = Listing("e2", (member,), b"")

    async def play() -> None:
        running = asyncio.create_task(stage.go_on(63))
        await asyncio.sleep(3)
        stage.view.records.apply(Put(other))
        await running

    run_virtual(play())

    assert f"{RECORDS.path(other.meta.key)}/status" in stage.api.refused
