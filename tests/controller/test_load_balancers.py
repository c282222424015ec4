"""LoadBalancer objects: which writes and calls a life makes, in which order."""

import asyncio

from collections import deque
from datetime import timedelta

import attrs
import pytest

from lbcf.core.lifecycle.turn import DRIVER_RECHECK
from lbcf.core.model.values import ObjectKey
from lbcf.drivers.errors import TimedOut
from lbcf.kube.kinds import LOAD_BALANCERS, RECORDS
from lbcf.kube.list_watch import Put
from lbcf.runtime.worker import Done, RequeueAfter, Result
from tests.builders import a_load_balancer, a_record, a_spec
from tests.controller.balancers import KEY, Cluster
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import Json


FRONT: Json = {
    "metadata": {"generation": 1},
    "spec": {"lbDriver": "proxy", "lbSpec": {"id": "7"}},
}
ENDS = "2026-01-01T00:00:00Z"


def a_cluster() -> Cluster:
    """Make a cluster with a LoadBalancer that is new."""
    cluster = Cluster()
    cluster.put(KEY, LOAD_BALANCERS, FRONT)
    return cluster


def turns(cluster: Cluster, count: int) -> Result:
    """Take turns."""

    async def story() -> Result:
        result: Result = Done()
        for _ in range(count):
            result = await cluster.turn()
        return result

    return run_virtual(story())


CREATED = [
    "PATCH hold",
    "validateLoadBalancer proxy",
    "PATCH Created=Unknown:Creating",
    "createLoadBalancer proxy",
    "PATCH Created=True:Created",
    "ensureLoadBalancer proxy",
    "PATCH Created=True:Created AttributesSynced=True:AttributesSynced",
]


def test_life_from_first_to_last() -> None:
    """Each thing is written down before the next is done."""
    cluster = a_cluster()
    assert Done() == turns(cluster, 2)
    assert CREATED == cluster.seen

    cluster.seen.clear()
    cluster.mark(LOAD_BALANCERS, KEY, deletionTimestamp=ENDS)
    assert Done() == turns(cluster, 1)
    assert ["deleteLoadBalancer proxy", "PATCH release"] == cluster.seen
    assert {} == cluster.api.objects


def test_keys_of_what_is_the_same_to_its_driver_come_along() -> None:
    """Another object has been there for longer: both lock in one order from the start."""
    cluster = a_cluster()
    other = a_load_balancer("other", info={"id": "7"})
    other = attrs.evolve(other, lock_keys=("url:2", "url:1"))
    cluster.view.load_balancers.apply(Put(other))

    turns(cluster, 2)

    keys = cluster.body(LOAD_BALANCERS, KEY)["status"]["lockKeys"]
    assert ["url:2", "url:1"] == keys[1:]


def test_identity_is_written_over_what_changed_meanwhile() -> None:
    """A label came while the driver was creating it."""
    cluster = a_cluster()
    cluster.drivers.lasts = 1.0

    async def story() -> Result:
        turn = asyncio.create_task(cluster.turn())
        await asyncio.sleep(1.5)
        cluster.mark(LOAD_BALANCERS, KEY, labels={"a": "b"})
        return await turn

    assert Done() == run_virtual(story())
    assert 2 == cluster.seen.count("PATCH Created=True:Created")
    assert {"id": "7"} == cluster.body(LOAD_BALANCERS, KEY)["status"]["lbInfo"]


def test_turn_that_meets_another_version_reads_it_again() -> None:
    """Nothing is written over what was not read, and the turn goes on."""
    cluster = a_cluster()

    async def story() -> Result:
        cluster.view.load_balancers.apply(
            Put(await cluster.client.get(LOAD_BALANCERS, KEY))
        )
        cluster.mark(LOAD_BALANCERS, KEY, labels={"a": "b"})
        return await cluster.load_balancers.reconcile(KEY)

    assert Done() == run_virtual(story())
    assert ["PATCH hold", "PATCH hold"] == cluster.seen[:2]
    assert {"a": "b"} == cluster.body(LOAD_BALANCERS, KEY)["metadata"]["labels"]


def test_end_that_a_read_shows_is_in_the_view() -> None:
    """Else records would be created there while its driver deletes it."""
    cluster = a_cluster()
    cluster.drivers.lasts = 1.0

    async def story() -> tuple[str, bool]:
        turn = asyncio.create_task(cluster.turn())
        await asyncio.sleep(2.5)
        cluster.mark(LOAD_BALANCERS, KEY, deletionTimestamp=ENDS)
        await asyncio.sleep(1)
        seen = cluster.view.load_balancers.get(KEY)
        shown = cluster.seen[-1], seen is not None and bool(seen.meta.deleting_since)
        await turn
        return shown

    assert ("deleteLoadBalancer proxy", True) == run_virtual(story())


def test_refusal_is_told_once_and_asked_again_later() -> None:
    """Turns in between are silent."""
    cluster = a_cluster()
    cluster.drivers.answers["createLoadBalancer"] = deque(
        [{"status": "Fail", "msg": "quota"}]
    )
    result = turns(cluster, 3)

    assert isinstance(result, RequeueAfter)
    assert 1 == cluster.seen.count("createLoadBalancer proxy")
    assert "PATCH Created=Unknown:DriverRefused" == cluster.seen[-1]


def test_lost_create_is_waited_for_at_the_end() -> None:
    """By 25 s nothing of it can land any more."""
    cluster = a_cluster()
    cluster.drivers.answers["createLoadBalancer"] = deque([TimedOut("no answer")])
    turns(cluster, 1)
    cluster.mark(LOAD_BALANCERS, KEY, deletionTimestamp=ENDS)
    cluster.seen.clear()

    assert RequeueAfter(timedelta(seconds=25)) == turns(cluster, 1)
    assert ["PATCH Created=Unknown:CreationUnclear"] == cluster.seen
    cluster.clock.advance(timedelta(seconds=25))
    assert Done() == turns(cluster, 1)
    assert ["deleteLoadBalancer proxy", "PATCH release"] == cluster.seen[1:]


def test_records_end_first() -> None:
    """The message says how many."""
    cluster = a_cluster()
    turns(cluster, 1)
    record = a_record("web-1", spec=a_spec())
    cluster.view.records.apply(Put(record))
    cluster.mark(LOAD_BALANCERS, KEY, deletionTimestamp=ENDS)
    cluster.seen.clear()

    assert RequeueAfter(DRIVER_RECHECK) == turns(cluster, 1)
    assert [
        "PATCH Created=True:InUse AttributesSynced=True:AttributesSynced"
    ] == cluster.seen


AT_FRONT: Json = {
    "lbName": KEY.name,
    "lbDriver": "proxy",
    "lbInfo": {},
    "staticAddr": "a:1",
}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param(AT_FRONT, "InUse", id="it is there"),
        pytest.param({"lbName": 7}, "RecordUnreadable", id="nobody knows where it is"),
    ],
)
def test_record_that_only_a_list_shows_ends_first(spec: Json, reason: str) -> None:
    """The watch may not have told of it yet."""
    cluster = a_cluster()
    turns(cluster, 1)
    body: Json = {"metadata": {"generation": 1}, "spec": spec}
    cluster.put(ObjectKey(KEY.namespace, "listed"), RECORDS, body)
    cluster.mark(LOAD_BALANCERS, KEY, deletionTimestamp=ENDS)
    cluster.seen.clear()

    assert RequeueAfter(DRIVER_RECHECK) == turns(cluster, 1)
    assert reason in cluster.seen[0]
    assert not any("deleteLoadBalancer" in one for one in cluster.seen)


def test_who_needs_it_is_asked_once() -> None:
    """Of those that come after a list of none, none is registered."""
    cluster = a_cluster()
    turns(cluster, 1)
    cluster.mark(LOAD_BALANCERS, KEY, deletionTimestamp=ENDS)
    cluster.drivers.answers["deleteLoadBalancer"] = deque(
        [{"status": "Running", "minRetryDelayInSeconds": 1}] * 3
    )
    while cluster.api.objects:
        cluster.clock.advance(timedelta(seconds=60))
        turns(cluster, 1)

    assert 4 == cluster.seen.count("deleteLoadBalancer proxy")
    assert 1 == len(cluster.api.listed)


def test_draining_driver_takes_nothing_new() -> None:
    """Not even our finalizer."""
    cluster = a_cluster()
    cluster.show_driver("proxy", leaving=True)

    assert RequeueAfter(DRIVER_RECHECK) == turns(cluster, 1)
    assert ["PATCH Created=False:DriverDraining"] == cluster.seen


def test_abandoned_one_goes_without_its_driver() -> None:
    """A person ordered so."""
    cluster = a_cluster()
    turns(cluster, 1)
    cluster.seen.clear()
    cluster.mark(
        LOAD_BALANCERS,
        KEY,
        deletionTimestamp=ENDS,
        annotations={"lbcf.tkestack.io/abandon": "scrapped"},
    )

    assert Done() == turns(cluster, 1)
    assert ["PATCH release"] == cluster.seen


def test_change_is_validated_with_what_there_was() -> None:
    """Then ensured and written."""
    cluster = a_cluster()
    turns(cluster, 1)
    cluster.seen.clear()
    cluster.change(LOAD_BALANCERS, KEY, attributes={"timeout": "30"})
    turns(cluster, 1)

    assert [
        "validateLoadBalancer proxy",
        "ensureLoadBalancer proxy",
        "PATCH Created=True:Created AttributesSynced=True:AttributesSynced",
    ] == cluster.seen
