"""What a shard does for the records of others at its load balancers."""

import asyncio

from datetime import timedelta

import attrs
import pytest

from lbcf.controller.other_shards import ElsewhereKnown, ElsewhereLost, Judged
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
from tests.builders import START, a_key, a_record
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


FRONT, BACK = a_key("front"), a_key("back")


def test_members_of_records_elsewhere_are_no_orphans() -> None:
    """One LIST tells; a member that it does not have is one once it has been asked."""

    async def play() -> None:
        api = TinyApi()
        client = KubeClient(api)
        record = await client.create(RECORDS, "other", BODY)
        known = ElsewhereKnown(client, VirtualClock())
        theirs = ("10.0.0.1:80", record.meta.uid)
        nobody_s, another = ("10.0.0.2:80", "no-such-uid"), ("10.0.0.3:80", "another")

        for _ in range(2):
            judged = await known.judge(FRONT, (theirs, nobody_s))
            assert Judged((nobody_s,), is_complete=True) == judged
        # Not asked again at each reading: until then it is nobody's orphan.
        judged = await known.judge(FRONT, (theirs, nobody_s, another))
        assert Judged((nobody_s,), is_complete=False) == judged

    run_virtual(play())


def test_what_is_known_of_one_load_balancer_stays_while_another_is_read() -> None:
    """Each has members of its own; one LIST in ten seconds answers for all of them."""

    async def play() -> None:
        api, clock = TinyApi(), VirtualClock()
        known = ElsewhereKnown(KubeClient(api), clock)
        lost = {FRONT: ("10.0.0.1:80", "uid-a"), BACK: ("10.0.0.2:80", "uid-b")}

        async def read() -> list[bool]:
            judged = [await known.judge(key, (one,)) for key, one in lost.items()]
            assert all(one.is_complete == bool(one.orphans) for one in judged)
            return [one.is_complete for one in judged]

        assert [True, False] == await read()
        await clock.sleep(timedelta(seconds=10))
        assert [True, True] == await read()
        for _ in range(60):
            await clock.sleep(timedelta(seconds=2))
            assert [True, True] == await read()
        assert 2 == len(api.requests)

    run_virtual(play())


class SlowOnce(TinyApi):
    """Answers its first request late, with what was there when it came."""

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Answer."""
        is_first = not self.requests
        answer = await super().send(request, within)
        await asyncio.sleep(15 if is_first else 0)
        return answer


def test_member_that_is_listed_while_records_are_is_no_orphan_by_that_list() -> None:
    """Its record may have been created since; nor does the answer take back a newer one's."""

    async def play() -> None:
        api, clock = SlowOnce(), VirtualClock()
        client = KubeClient(api)
        known = ElsewhereKnown(client, clock)
        gone, lost = ("10.0.0.1:80", "uid-a"), ("10.0.0.3:80", "uid-c")
        first = asyncio.create_task(known.judge(FRONT, (gone,)))
        await clock.sleep(timedelta(seconds=1))
        made = await client.create(RECORDS, "other", BODY)
        both = (("10.0.0.2:80", made.meta.uid), lost)

        assert Judged((), is_complete=False) == await known.judge(BACK, both)
        await clock.sleep(timedelta(seconds=10))
        assert Judged((lost,), is_complete=True) == await known.judge(BACK, both)
        assert Judged((gone,), is_complete=True) == await first
        judged = await known.judge(BACK, both)
        assert (lost,) == judged.orphans

    run_virtual(play())


def test_nothing_is_kept_of_members_of_a_load_balancer_that_is_gone() -> None:
    """Once somebody asks about others."""

    async def play() -> None:
        api, clock = TinyApi(), VirtualClock()
        known = ElsewhereKnown(KubeClient(api), clock)
        member = ("10.0.0.1:80", "uid-a")
        await known.judge(FRONT, (member,))

        known.forget(FRONT)
        await clock.sleep(timedelta(seconds=10))
        await known.judge(BACK, (("10.0.0.2:80", "uid-b"),))

        assert Judged((), is_complete=False) == await known.judge(FRONT, (member,))

    run_virtual(play())
