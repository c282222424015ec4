"""What a shard does for the records of others at its load balancers."""

import asyncio

import attrs
import pytest

from lbcf.controller.other_shards import ElsewhereKnown, ElsewhereLost
from lbcf.controller.view import View
from lbcf.core.lifecycle.listing import lost_elsewhere
from lbcf.core.model import conditions
from lbcf.core.model.shards import Shard
from lbcf.core.reasons import Reason
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import RECORDS
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
    lost = ElsewhereLost(view, writer, VirtualClock())
    key = record.load_balancer_key

    assert not lost.is_resetting(key)
    lost.add(record, "lost")
    assert lost.is_resetting(key)
    view.others.displace(record.meta.key)
    assert not lost.is_resetting(key)


def test_a_further_loss_is_written_though_an_earlier_one_just_was() -> None:
    """Else an ensure from between the two counts, and the member is missing for good."""

    async def play() -> None:
        api = TinyApi()
        client = KubeClient(api)
        body = {
            "metadata": {"name": "r"},
            "spec": {"lbName": "front", "lbDriver": "d", "staticAddr": "10.0.0.1:80"},
        }
        created = await client.create(RECORDS, a_record().meta.key.namespace, body)
        view = _elsewhere()
        view.others.place(created)
        writer = ObjectWriter(client, RECORDS, view.records)
        lost = ElsewhereLost(view, writer, VirtualClock())

        def lose_again(_change: object) -> None:
            """The load balancer is reset once more before the answer has arrived."""
            api.on_change.clear()
            lost.add(created, "lost (epoch e3)")

        api.on_change.append(lose_again)
        lost.add(created, "lost (epoch e2)")
        writing = asyncio.create_task(lost.run())
        await asyncio.sleep(10)
        writing.cancel()

        found = await client.get(RECORDS, created.meta.key)
        said = conditions.find(found.status.conditions, conditions.REGISTERED)
        assert said is not None
        assert "lost (epoch e3)" == said.message

    run_virtual(play())


def test_members_of_records_elsewhere_are_no_orphans() -> None:
    """One LIST tells; a member that it does not have is one once it has been asked."""

    async def play() -> None:
        api = TinyApi()
        client = KubeClient(api)
        body = {
            "metadata": {"name": "r"},
            "spec": {"lbName": "front", "lbDriver": "d", "staticAddr": "10.0.0.1:80"},
        }
        record = await client.create(RECORDS, "other", body)
        known = ElsewhereKnown(client, VirtualClock())
        theirs = ("10.0.0.1:80", record.meta.uid)
        nobody_s = ("10.0.0.2:80", "no-such-uid")

        assert (nobody_s,) == await known.without_known([theirs, nobody_s])
        assert (nobody_s,) == await known.without_known([theirs, nobody_s])
        # Not asked again at each reading: until then it is nobody's orphan.
        assert () == await known.without_known([("10.0.0.3:80", "another")])

    run_virtual(play())
