"""Binds: which writes and calls the lives of their load balancers make, in which order."""

import asyncio

from collections import deque
from datetime import timedelta

import attrs
import pytest

from lbcf.core.lifecycle.turn import DRIVER_RECHECK
from lbcf.core.model import names
from lbcf.core.model.binds import MOST_STATUSES
from lbcf.core.model.resources import RecordStatus
from lbcf.core.model.values import MemberKey, ObjectKey
from lbcf.drivers.errors import TimedOut
from lbcf.kube.errors import Unavailable
from lbcf.kube.kinds import BINDS, RECORDS
from lbcf.kube.list_watch import Put
from lbcf.runtime.worker import Done, RequeueAfter, Result
from tests.builders import a_load_balancer, a_record
from tests.controller.balancers import BIND, Cluster
from tests.controller.views import obscure
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import Json


ENDS = "2026-01-01T00:00:00Z"
STATUSES = "loadBalancerStatuses"
PROXY: Json = {"driver": "proxy", "spec": {"id": "proxy"}}
RUNNING: Json = {"status": "Running", "msg": "busy"}
NOW = RequeueAfter(timedelta(0))
CREATED = (
    "PATCH proxy Created=True:Created Ready=False:Ensuring"
    " | edge Created=True:Created Ready=False:Ensuring"
)
ENSURED = (
    "PATCH proxy Created=True:Created Ready=True:Ready"
    " | edge Created=True:Created Ready=True:Ready"
)


def entries(*drivers: str) -> list[object]:
    """Name load balancers after their drivers."""
    return [{"name": name, "driver": name, "spec": {"id": name}} for name in drivers]


def a_cluster(*drivers: str) -> Cluster:
    """Make a cluster with a Bind that is new."""
    cluster = Cluster()
    pods: Json = {"ports": [{"port": 80}], "byLabel": {"selector": {"no": "one"}}}
    spec: Json = {"loadBalancers": entries(*drivers), "pods": pods}
    cluster.put(BIND, BINDS, {"metadata": {"generation": 1}, "spec": spec})
    return cluster


def turns(cluster: Cluster, count: int) -> Result:
    """Take turns."""

    async def story() -> Result:
        result: Result = Done()
        for _ in range(count):
            result = await cluster.turn()
        return result

    return run_virtual(story())


def test_life_from_first_to_last() -> None:
    """What all its load balancers have learnt is one write."""
    cluster = a_cluster("proxy", "edge")
    assert NOW == turns(cluster, 1)
    assert [
        "PATCH hold",
        "PATCH proxy Created=False:Creating | edge Created=False:Creating",
        "validateLoadBalancer proxy",
        "validateLoadBalancer edge",
        "PATCH proxy Created=Unknown:Creating | edge Created=Unknown:Creating",
        "createLoadBalancer proxy",
        "createLoadBalancer edge",
        CREATED,
    ] == cluster.seen

    cluster.seen.clear()
    assert NOW == turns(cluster, 1)
    assert Done() == turns(cluster, 1)
    assert [
        "ensureLoadBalancer proxy",
        "ensureLoadBalancer edge",
        ENSURED,
    ] == cluster.seen

    cluster.seen.clear()
    cluster.mark(BINDS, BIND, deletionTimestamp=ENDS)
    assert Done() == turns(cluster, 1)
    assert [
        ENSURED,
        "deleteLoadBalancer proxy",
        "deleteLoadBalancer edge",
        "PATCH ",
        "PATCH release",
    ] == cluster.seen
    assert {} == cluster.api.objects


def test_what_there_is_no_room_for_waits() -> None:
    """While load balancers that were taken out are there, the status may be full."""
    cluster = a_cluster("proxy", "edge")
    gone = [
        {"name": f"gone-{n}", "driver": "proxy", "lbInfo": {"id": "x"}}
        for n in range(MOST_STATUSES - 1)
    ]
    whole: Json = {**cluster.body(BINDS, BIND), "status": {STATUSES: gone}}
    cluster.put(BIND, BINDS, whole)
    cluster.drivers.answers["deleteLoadBalancer"] = deque([RUNNING] * MOST_STATUSES)

    def there() -> list[str]:
        found = cluster.body(BINDS, BIND)["status"][STATUSES]
        return [one["name"] for one in found if not one["name"].startswith("gone")]

    turns(cluster, 1)
    assert ["proxy"] == there()

    cluster.drivers.answers.clear()
    cluster.clock.advance(timedelta(minutes=5))
    turns(cluster, 2)
    assert ["proxy", "edge"] == there()


def test_driver_that_is_draining_gets_no_new_load_balancer() -> None:
    """Those that it has stay."""
    cluster = a_cluster("proxy")
    turns(cluster, 3)
    cluster.show_driver("proxy", leaving=True)
    named = [*entries("proxy"), {**PROXY, "name": "late"}]
    cluster.change(BINDS, BIND, loadBalancers=named)
    cluster.seen.clear()

    assert RequeueAfter(DRIVER_RECHECK) == turns(cluster, 1)
    known = "PATCH proxy Created=True:Created Ready=True:Ready | late Created=False"
    assert [f"{known}:Creating", f"{known}:DriverDraining"] == cluster.seen

    cluster.show_driver("proxy")
    turns(cluster, 1)
    assert "createLoadBalancer proxy" in cluster.seen


def test_driver_that_nothing_holds_yet_is_waited_for() -> None:
    """It could be gone before the load balancer is."""
    cluster = a_cluster("proxy")
    cluster.show_driver("proxy", held=False)

    assert RequeueAfter(DRIVER_RECHECK) == turns(cluster, 1)
    assert ["PATCH hold", "PATCH proxy Created=False:Creating"] == cluster.seen


@pytest.mark.parametrize("refused", [0, 1])
def test_members_are_locked_before_the_key_of_an_entry_changes(refused: int) -> None:
    """Its driver is reached elsewhere; a lock that cannot be had is tried again."""
    cluster = a_cluster("proxy")
    cluster.show_driver("proxy", member_key=MemberKey.ADDRESS)
    turns(cluster, 3)
    record = a_record(status=RecordStatus(address="10.0.0.1:80"))
    spec = attrs.evolve(record.spec, load_balancer="proxy")
    record = attrs.evolve(record, spec=spec, group=names.bind_group_key(BIND))
    cluster.view.records.apply(Put(record))
    before = keys_of(cluster)
    url = "http://elsewhere.test"
    cluster.show_driver("proxy", member_key=MemberKey.ADDRESS, url=url)
    cluster.api.refused = refused

    turns(cluster, 1)

    if refused:
        assert before == keys_of(cluster)
        turns(cluster, 1)
    assert before == keys_of(cluster)[1:]
    leases = [whole for path, whole in cluster.api.objects.items() if "addr-" in path]
    assert 1 == len(leases)
    assert str(record.meta.uid) in str(leases[0]["spec"])


def test_keys_of_what_is_the_same_to_its_driver_come_along() -> None:
    """A LoadBalancer has been there for longer: both lock in one order from the start."""
    cluster = a_cluster("proxy")
    other = attrs.evolve(
        a_load_balancer(info={"id": "proxy"}), lock_keys=("url:2", "url:1")
    )
    cluster.view.load_balancers.apply(Put(other))

    turns(cluster, 3)

    assert ["url:2", "url:1"] == keys_of(cluster)[1:]


def keys_of(cluster: Cluster) -> list[str]:
    """Return under which keys its first load balancer is locked, as it is stored."""
    status = cluster.body(BINDS, BIND)["status"]["loadBalancerStatuses"][0]
    return list(status["lockKeys"])


def test_record_that_only_the_api_server_has_ends_first() -> None:
    """The watch may not have told of it yet: one load balancer goes, and one stays."""
    cluster = a_cluster("proxy", "edge")
    turns(cluster, 3)
    owner = {"apiVersion": names.BIND_VERSION, "kind": "Bind", "name": BIND.name}
    spec = {"lbName": "edge", "lbDriver": "edge", "lbInfo": {}, "staticAddr": "a:1"}
    metadata: Json = {"ownerReferences": [{**owner, "uid": "b", "controller": True}]}
    body: Json = {"metadata": {**metadata, "generation": 1}, "spec": spec}
    cluster.put(ObjectKey(BIND.namespace, "r"), RECORDS, body)
    cluster.mark(BINDS, BIND, deletionTimestamp=ENDS)
    cluster.seen.clear()
    turns(cluster, 1)

    assert "deleteLoadBalancer proxy" in cluster.seen
    assert "deleteLoadBalancer edge" not in cluster.seen
    assert "InUse" in cluster.seen[-1]


@pytest.mark.parametrize("is_seen", [True, False], ids=["watched", "listed"])
def test_record_that_cannot_be_understood_may_need_one(*, is_seen: bool) -> None:
    """Nobody knows at which load balancer it is."""
    cluster = a_cluster("proxy")
    turns(cluster, 3)
    odd = ObjectKey(BIND.namespace, "odd")
    if is_seen:
        obscure(cluster.view.records, odd)
    else:
        body: Json = {"metadata": {"generation": 1}, "spec": {"lbName": 7}}
        cluster.put(odd, RECORDS, body)
    cluster.mark(BINDS, BIND, deletionTimestamp=ENDS)
    cluster.seen.clear()

    assert RequeueAfter(DRIVER_RECHECK) == turns(cluster, 1)
    assert "deleteLoadBalancer proxy" not in cluster.seen
    assert "RecordUnreadable" in cluster.seen[-1]


def test_list_without_an_answer_leaves_everything_as_it_is() -> None:
    """The turn is made again, after a pause that grows."""
    cluster = a_cluster("proxy", "edge")
    turns(cluster, 3)
    cluster.mark(BINDS, BIND, deletionTimestamp=ENDS)
    cluster.api.fails_lists = True
    with pytest.raises(Unavailable):
        turns(cluster, 1)

    assert not any("deleteLoadBalancer" in one for one in cluster.seen)
    cluster.api.fails_lists = False
    assert Done() == turns(cluster, 1)


def test_new_one_is_written_down_before_others_are_called() -> None:
    """So that none that hangs delays what a later process has to know."""
    cluster = a_cluster("proxy")
    turns(cluster, 3)
    cluster.seen.clear()
    changed = [{**entry, "attributes": {"a": "1"}} for entry in _dicts("proxy")]
    cluster.change(BINDS, BIND, loadBalancers=[*changed, *entries("edge")])
    turns(cluster, 1)

    assert [
        "PATCH proxy Created=True:Created Ready=True:Ready | edge Created=False:Creating",
        "validateLoadBalancer edge",
        "PATCH proxy Created=True:Created Ready=True:Ready | edge Created=Unknown:Creating",
    ] == cluster.seen[:3]
    assert {
        "createLoadBalancer edge",
        "validateLoadBalancer proxy",
        "ensureLoadBalancer proxy",
    } == set(cluster.seen[3:6])
    assert (
        "PATCH proxy Created=True:Created Ready=True:Ready"
        " | edge Created=True:Created Ready=False:Ensuring"
    ) == cluster.seen[6]
    assert 7 == len(cluster.seen)


def _dicts(*drivers: str) -> list[dict[str, object]]:
    return [{"name": d, "driver": d, "spec": {"id": d}} for d in drivers]


def test_one_that_fails_leaves_the_others_alone() -> None:
    """And is asked again at its own time."""
    cluster = a_cluster("proxy", "edge")
    cluster.drivers.answers["validateLoadBalancer"] = deque(
        [{"succ": False, "msg": "no such id"}]
    )
    result = turns(cluster, 1)

    assert NOW == result
    assert (
        "PATCH proxy Created=False:CreateFailed | edge Created=True:Created "
        "Ready=False:Ensuring" == cluster.seen[-1]
    )
    later = turns(cluster, 2)
    assert isinstance(later, RequeueAfter)
    assert later.delay > timedelta(0)
    assert 1 == cluster.seen.count("createLoadBalancer edge")
    assert 0 == cluster.seen.count("createLoadBalancer proxy")


def test_lost_create_is_waited_for_at_the_end() -> None:
    """By 25 s nothing of it can land any more."""
    cluster = a_cluster("proxy")
    cluster.drivers.answers["createLoadBalancer"] = deque([TimedOut("no answer")])
    turns(cluster, 1)
    cluster.seen.clear()
    cluster.mark(BINDS, BIND, deletionTimestamp=ENDS)

    assert RequeueAfter(timedelta(seconds=25)) == turns(cluster, 1)
    assert (
        "PATCH proxy Created=Unknown:WebhookError Ready=False:CreationUnclear"
        == cluster.seen[-1]
    )
    cluster.clock.advance(timedelta(seconds=25))
    cluster.seen.clear()
    assert Done() == turns(cluster, 1)
    assert ["deleteLoadBalancer proxy", "PATCH ", "PATCH release"] == cluster.seen


def test_what_was_learnt_is_written_over_what_changed_meanwhile() -> None:
    """The other's change stays."""
    cluster = a_cluster("proxy")
    cluster.drivers.lasts = 1.0

    async def story() -> Result:
        turn = asyncio.create_task(cluster.turn())
        await asyncio.sleep(1.5)
        cluster.mark(BINDS, BIND, labels={"a": "b"})
        return await turn

    assert NOW == run_virtual(story())
    body = cluster.body(BINDS, BIND)
    assert {"a": "b"} == body["metadata"]["labels"]
    assert {"id": "proxy"} == body["status"]["loadBalancerStatuses"][0]["lbInfo"]


def test_namesake_that_came_meanwhile_gets_nothing() -> None:
    """Its own turn makes its load balancers."""
    cluster = a_cluster("proxy")
    cluster.drivers.lasts = 1.0

    async def story() -> Result:
        turn = asyncio.create_task(cluster.turn())
        await asyncio.sleep(1.5)
        cluster.mark(BINDS, BIND, uid="another")
        return await turn

    result = run_virtual(story())
    assert isinstance(result, RequeueAfter)
    [status] = cluster.body(BINDS, BIND)["status"]["loadBalancerStatuses"]
    assert not status.get("lbInfo")


def test_driver_that_goes_on_creating_is_told_and_asked_again() -> None:
    """In its own words, with Created False as LBCF in Go has it."""
    cluster = a_cluster("proxy")
    running = {"status": "Running", "msg": "booting a VM", "minRetryDelayInSeconds": 7}
    cluster.drivers.answers["createLoadBalancer"] = deque([running])

    assert RequeueAfter(timedelta(seconds=7)) == turns(cluster, 2)
    [status] = cluster.body(BINDS, BIND)["status"]["loadBalancerStatuses"]
    [created] = [c for c in status["conditions"] if c["type"] == "Created"]
    assert "False" == created["status"]
    assert created["message"].endswith("answered Running: booting a VM")
    cluster.clock.advance(timedelta(seconds=7))
    turns(cluster, 1)
    assert CREATED.partition(" | ")[0] == cluster.seen[-1]


def test_empty_word_of_abandonment_is_none() -> None:
    """A template may have left it so: the driver is asked to delete."""
    cluster = a_cluster("proxy")
    turns(cluster, 3)
    cluster.seen.clear()
    annotations = {"lbcf.tkestack.io/abandon": " "}
    cluster.mark(BINDS, BIND, deletionTimestamp=ENDS, annotations=annotations)

    assert Done() == turns(cluster, 1)
    assert "deleteLoadBalancer proxy" in cluster.seen


def test_abandoned_one_goes_without_its_drivers() -> None:
    """A person ordered so."""
    cluster = a_cluster("proxy")
    turns(cluster, 3)
    cluster.seen.clear()
    cluster.mark(
        BINDS,
        BIND,
        deletionTimestamp=ENDS,
        annotations={"lbcf.tkestack.io/abandon": "scrapped"},
    )

    assert Done() == turns(cluster, 1)
    assert ["PATCH ", "PATCH release"] == cluster.seen[1:]
