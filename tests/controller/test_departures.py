"""A group remembers for a day how registrations ended, at no write of its own."""

from collections.abc import Sequence
from datetime import timedelta

import attrs
import pytest

from lbcf.core.lifecycle.departures import KEPT, MOST
from lbcf.core.model import conditions
from lbcf.core.model.departures import Outcome
from lbcf.core.model.resources import BackendRecord, DrainProgress, GroupStatus
from lbcf.core.model.values import DrainPolicy
from lbcf.core.reasons import Reason
from lbcf.core.selection.plan import Removal
from lbcf.kube.errors import Unavailable
from lbcf.kube.kinds import GROUPS
from lbcf.kube.list_watch import Put
from tests.builders import a_driver, a_key, a_pod, a_record, seconds
from tests.controller.test_group_serving import Scene as StatusScene
from tests.kube.tiny_api import Fault


class Scene(StatusScene):
    """A group whose records come and go."""

    async def begin(self, *pods: object) -> None:
        """Let there be the group, and its driver."""
        await super().begin(*pods)
        self.view.drivers.apply(Put(a_driver(drains=True)))

    def seen(self, name: str, *, deleting: bool = False) -> BackendRecord:
        """Let the watch tell of a record."""
        self.version += 1
        record = a_record(name, registered=True, deleting=deleting)
        meta = attrs.evolve(record.meta, resource_version=str(self.version))
        self.view.records.apply(Put(attrs.evolve(record, meta=meta)))
        return record

    def gone(self, name: str) -> None:
        """Let the watch tell that a record is gone, without a drain."""
        self.view.records.observe_gone(self.seen(name, deleting=True).meta)

    def removed(self, name: str, reason: Reason) -> None:
        """Let the controller delete a record, and the deregistrar end it."""
        self.status.removing(Removal(self.seen(name), reason, ""))
        self.gone(name)

    @property
    def writes(self) -> int:
        """How many statuses have been written."""
        return sum("/status" in request for request in self.api.requests)


def told(status: GroupStatus) -> Sequence[tuple[str, Outcome, object]]:
    """Return which records are remembered, and how and why they ended."""
    return [(one.record, one.outcome, one.reason) for one in status.departed]


@pytest.fixture(name="scene")
def _scene() -> Scene:
    """Return one without objects."""
    return Scene()


async def test_departure_is_told_with_the_counts(scene: Scene) -> None:
    """In the write that they cost anyway; nothing is written afterwards."""
    await scene.begin(a_pod("web-1"))
    scene.seen("web-1")
    scene.seen("web-2")
    await scene.written()
    scene.removed("web-1", Reason.POD_TERMINATING)
    scene.gone("web-2")
    before = scene.writes
    status = await scene.written()
    for _ in range(3):
        await scene.written()

    assert [
        ("web-2", Outcome.NOT_DRAINED, None),
        ("web-1", Outcome.NOT_DRAINED, Reason.POD_TERMINATING),
    ] == told(status)
    assert 1 == scene.writes - before


async def test_departure_that_changes_no_count_waits_for_those_that_drain(
    scene: Scene,
) -> None:
    """Their ends will be written; where nobody drains it is told by itself."""
    await scene.begin(a_pod("web-1"))
    scene.seen("web-1")
    scene.seen("old", deleting=True)
    await scene.written()
    before = scene.writes
    scene.gone("web-2")
    early = told(await scene.written()), scene.writes - before
    scene.gone("old")
    late = [name for name, _, _ in told(await scene.written())]
    scene.gone("web-3")
    alone = [name for name, _, _ in told(await scene.written())]

    assert ([], 0) == early
    assert ["old", "web-2"] == late
    assert ["web-3", "old", "web-2"] == alone
    assert 2 == scene.writes - before


async def test_departure_waits_for_a_drain_for_a_minute_at_most(scene: Scene) -> None:
    """A record that cannot be ended keeps nobody else's end from being told."""
    await scene.begin(a_pod("web-1"))
    scene.seen("web-1")
    scene.seen("stuck", deleting=True)
    await scene.written()
    scene.gone("web-2")
    await scene.written()
    scene.clock.advance(seconds(60))
    status = await scene.written()
    for _ in range(3):
        await scene.written()

    assert [("web-2", Outcome.NOT_DRAINED, None)] == told(status)
    assert 2 == scene.writes


async def test_memory_is_bounded_and_ends_without_a_write(scene: Scene) -> None:
    """What is over a day old goes with the next write."""
    await scene.begin(a_pod("web-1"))
    for number in range(MOST + 2):
        scene.gone(f"old-{number}")
    full = told(await scene.written())
    before = scene.writes
    scene.clock.advance(KEPT + seconds(60))
    unwritten = len((await scene.written()).departed), scene.writes - before
    scene.gone("new")
    last = [name for name, _, _ in told(await scene.written())]

    assert MOST == len(full)
    assert f"old-{MOST + 1}" == full[0][0]
    assert (MOST, 0) == unwritten
    assert ["new"] == last


async def test_departure_whose_write_has_no_answer_is_told_once(scene: Scene) -> None:
    """The write is made again, on what came of the first one."""
    await scene.begin(a_pod("web-1"))
    scene.gone("web-2")
    scene.api.fault = Fault.UNANSWERED
    scene.clock.advance(seconds(10))
    with pytest.raises(Unavailable):
        await scene.status.reconcile(a_key("web"))
    scene.api.fault = None
    scene.view.groups.apply(Put(await scene.client.get(GROUPS, a_key("web"))))

    assert [("web-2", Outcome.NOT_DRAINED, None)] == told(await scene.written())


async def test_drain_that_was_cut_is_a_condition_for_as_long_as_it_is_remembered(
    scene: Scene,
) -> None:
    """It comes with the departure, and turns with the next write after a day."""
    await scene.begin(a_pod("web-1"))
    ending = scene.seen("web-1", deleting=True)
    now = scene.clock.now()
    drain = DrainProgress(now, now + seconds(5), connections=3)
    status = attrs.evolve(ending.status, drain=drain)
    spec = attrs.evolve(ending.spec, drain=DrainPolicy(timeout=seconds(5)))
    version = attrs.evolve(ending.meta, resource_version="90")
    scene.view.records.apply(
        Put(attrs.evolve(ending, meta=version, spec=spec, status=status))
    )
    await scene.written()
    scene.view.records.observe_gone(version)

    def said(found: GroupStatus) -> tuple[bool | None, str]:
        condition = conditions.find(found.conditions, conditions.DRAINS_CUT)
        assert condition is not None
        return condition.status, condition.reason

    assert (True, Reason.CUT_AT_DEADLINE) == said(await scene.written())
    scene.clock.advance(timedelta(days=1, seconds=30))
    scene.seen("web-2")
    assert (False, Reason.DRAINED_IN_TIME) == said(await scene.written())
