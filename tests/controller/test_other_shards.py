"""What a shard does for the records of others at its load balancers."""

import asyncio

from datetime import timedelta

import attrs
import pytest

from lbcf.controller.other_shards import ElsewhereKnown, ElsewhereLost
from lbcf.controller.view import View
from lbcf.core.lifecycle.listing import lost_elsewhere
from lbcf.core.model import conditions
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.shards import Shard
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import RECORDS
from lbcf.kube.requests import ApiRequest
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Workers
from tests.builders import START, a_record
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import TinyApi


def _elsewhere() -> View:
    """The view of a shard that has nothing of the records' namespace."""
    namespace = a_record().meta.key.namespace
    return next(
        View(shard)
        for shard in (Shard(0, 2), Shard(1, 2))
        if not shard.has_namespace(namespace)
    )


@pytest.mark.parametrize("ensuring", ["", "me", "*"])
def test_lost_member_is_not_registered_and_nobody_s_mark_is_changed(
    ensuring: str,
) -> None:
    """Whoever has a call out still has it out."""
    record = a_record(registered=True)
    record = attrs.evolve(record, status=attrs.evolve(record.status, ensuring=ensuring))

    status = lost_elsewhere(record, "lost (epoch e2)", START)

    said = conditions.find(status.conditions, conditions.REGISTERED)
    assert said is not None
    assert (False, Reason.LOAD_BALANCER_RESET) == (said.status, said.reason)
    assert record.meta.generation == said.observed_generation
    assert ensuring == status.ensuring
    # Another loss is another version of the record: no older success is written into it.
    assert status != lost_elsewhere(
        attrs.evolve(record, status=status), "lost (epoch e3)", START
    )


def test_reset_lasts_until_the_record_is_registered_again_or_ends() -> None:
    """The new epoch is written after that: a crash in between repeats it."""
    view = _elsewhere()
    record = a_record(registered=True)
    view.others.place(record)
    writer = ObjectWriter(KubeClient(TinyApi()), RECORDS, view.records)
    clock = VirtualClock()
    lost = ElsewhereLost(view, writer, WorkQueue("lost", clock), clock)
    key = record.load_balancer_key

    assert not lost.is_resetting(key)
    lost.add(record, "lost")
    assert lost.is_resetting(key)
    view.others.displace(record.meta.key)
    assert not lost.is_resetting(key)


BODY = {
    "metadata": {"name": "r"},
    "spec": {"lbName": "front", "lbDriver": "d", "staticAddr": "10.0.0.1:80"},
}


class CutApi(TinyApi):
    """An API server whose first answers never come: whoever waits is cut off."""

    def __init__(self, cut: int = 0) -> None:
        super().__init__()
        self.cut = cut

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Answer."""
        if request.method != "POST" and self.cut:
            self.cut -= 1
            raise asyncio.CancelledError
        return await super().send(request, within)


class Loss:
    """A record of another shard, whose member is lost.

    Args:
        api: has the record.
    """

    def __init__(self, api: TinyApi) -> None:
        self.view = _elsewhere()
        self.client = KubeClient(api)
        clock = VirtualClock()
        queue: WorkQueue[ObjectKey] = WorkQueue("lost", clock)
        writer = ObjectWriter(self.client, RECORDS, self.view.records)
        self.lost = ElsewhereLost(self.view, writer, queue, clock)
        self._workers = Workers(queue, self.lost.reconcile, 1, clock)

    async def create(self) -> BackendRecord:
        """Create the record, and begin to write."""
        namespace = a_record().meta.key.namespace
        created = await self.client.create(RECORDS, namespace, BODY)
        self.view.others.place(created)
        self._workers.start()
        return created

    async def said(self, record: BackendRecord) -> str:
        """Stop after a while, and return what is written of it then."""
        await asyncio.sleep(10)
        await self._workers.stop(timedelta(0))
        found = await self.client.get(RECORDS, record.meta.key)
        said = conditions.find(found.status.conditions, conditions.REGISTERED)
        return "" if said is None else said.message


def test_a_further_loss_is_written_though_an_earlier_one_just_was() -> None:
    """Else an ensure from between the two counts, and the member is missing for good."""

    async def play() -> None:
        api = TinyApi()
        loss = Loss(api)
        created = await loss.create()

        def lose_again(_change: object) -> None:
            """The load balancer is reset once more before the answer has arrived."""
            api.on_change.clear()
            loss.lost.add(created, "lost (epoch e3)")

        api.on_change.append(lose_again)
        loss.lost.add(created, "lost (epoch e2)")

        assert "lost (epoch e3)" == await loss.said(created)

    run_virtual(play())


@pytest.mark.parametrize("cut", [1, 2])
def test_loss_is_written_though_reading_or_writing_was_cut_off(cut: int) -> None:
    """Nobody else knows of it as long as this process goes on."""

    async def play() -> None:
        loss = Loss(CutApi(cut))
        created = await loss.create()

        loss.lost.add(created, "lost (epoch e2)")

        assert "lost (epoch e2)" == await loss.said(created)
        assert loss.lost.is_resetting(created.load_balancer_key)

    run_virtual(play())


def test_members_of_records_elsewhere_are_no_orphans() -> None:
    """One LIST tells; a member that it does not have is one once it has been asked."""

    async def play() -> None:
        api = TinyApi()
        client = KubeClient(api)
        record = await client.create(RECORDS, "other", BODY)
        known = ElsewhereKnown(client, VirtualClock())
        theirs = ("10.0.0.1:80", record.meta.uid)
        nobody_s = ("10.0.0.2:80", "no-such-uid")

        assert (nobody_s,) == await known.without_known([theirs, nobody_s])
        assert (nobody_s,) == await known.without_known([theirs, nobody_s])
        # Not asked again at each reading: until then it is nobody's orphan.
        assert () == await known.without_known([("10.0.0.3:80", "another")])

    run_virtual(play())
