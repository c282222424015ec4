"""Pods that still serve leave when those that replace them are registered."""

from collections.abc import Iterable
from datetime import timedelta

import attrs
import pytest

from hypothesis import given
from hypothesis import strategies as st

from lbcf.core.model import conditions
from lbcf.core.model.cluster import Pod, Snapshot
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import ANNOTATION_DRAIN_GATE
from lbcf.core.model.resources import BackendGroup, BackendRecord, RecordStatus
from lbcf.core.model.values import DeregisterPolicy, ReplaceOrder
from lbcf.core.reasons import Reason
from lbcf.core.selection.plan import Plan, plan_group
from lbcf.core.selection.replacement import order_replacements
from tests.builders import (
    START,
    a_backend,
    a_driver,
    a_group,
    a_pod,
    a_record,
    a_snapshot,
    a_spec,
    seconds,
)


GRACE = 60.0
"""Seconds after START at which pods that are being deleted are killed."""
LATEST = GRACE - 2
"""Seconds after START at which they are taken out at the latest."""
DRAIN = 20.0


def ending(
    name: str, *, after: float = GRACE, ready: bool = True, waits: str = ""
) -> Pod:
    """Make a pod that is being deleted, since START, and perhaps waits for its records."""
    pod, said = a_pod(name, ready=ready, deleting=True), {ANNOTATION_DRAIN_GATE: waits}
    meta = attrs.evolve(
        pod.meta,
        deleting_since=START + seconds(after),
        annotations=said if waits else {},
    )
    return attrs.evolve(pod, meta=meta, node="node-1", deletion_grace=seconds(after))


def member(
    name: str, *, registered: bool = True, failed: bool = False, host: str = ""
) -> BackendRecord:
    """Make the record of a pod, which is drained for some seconds."""
    spec = a_spec(backend=a_backend(name), drain_timeout=seconds(DRAIN))
    status = RecordStatus()
    if failed:
        said = Condition(conditions.REGISTERED, False, Reason.DRIVER_REFUSED, "no", 1)
        status = RecordStatus(conditions=(said,))
    spec = attrs.evolve(spec, host=host)
    return a_record(name, spec=spec, status=status, registered=registered)


def scene(
    *pods: Pod,
    records: Iterable[BackendRecord],
    group: BackendGroup | None = None,
    drains: bool = True,
) -> Snapshot:
    """Make a snapshot of a driver that drains."""
    return a_snapshot(
        *pods, group=group, records=tuple(records), driver=a_driver(drains=drains)
    )


def planned(snapshot: Snapshot, after: float = 0.0) -> Plan:
    """Plan a snapshot, so many seconds after START."""
    return order_replacements(plan_group(snapshot), snapshot, START + seconds(after))


def removed(plan: Plan) -> list[str]:
    """Return whose records are removed."""
    return [removal.record.meta.key.name for removal in plan.removals]


def held(plan: Plan) -> list[str]:
    """Return whose records stay."""
    return [hold.record.meta.key.name for hold in plan.holds]


OLD = (ending("old-1"), ending("old-2"))
IN = (member("old-1"), member("old-2"))


def test_old_pods_stay_until_new_ones_are_registered() -> None:
    """New records are made meanwhile; when to look again is said."""
    plan = planned(scene(*OLD, a_pod("new-1"), a_pod("new-2"), records=IN))

    assert ([], ["old-1", "old-2"]) == (removed(plan), held(plan))
    assert 2 == len(plan.creates)
    assert plan.due == START + seconds(LATEST - DRAIN)
    assert {Reason.AWAITING_REPLACEMENT} == {hold.reason for hold in plan.holds}
    assert plan.holds[0].message == (
        "pod old-1 is being deleted; it serves at front until pods that are ready are "
        "registered there, at the latest until 00:00:58 UTC"
    )


def test_each_that_comes_in_lets_one_go() -> None:
    """Those go first that are killed first."""
    pods = (ending("old-1", after=50), ending("old-2"), a_pod("new-1"), a_pod("new-2"))
    new = (member("new-1"), member("new-2", registered=False))

    plan = planned(scene(*pods, records=(*IN, *new)))

    assert (["old-1"], ["old-2"]) == (removed(plan), held(plan))


@pytest.mark.parametrize(
    ("new", "record"),
    [
        pytest.param((), (), id="nobody comes"),
        pytest.param((a_pod("new-1", ready=False),), (), id="not ready"),
        pytest.param(
            (a_pod("new-1", ready=False),),
            (member("new-1", registered=False),),
            id="not ready any more",
        ),
        pytest.param((a_pod("new-1"),), (member("new-1"),), id="in already"),
        pytest.param(
            (ending("new-1"),), (member("new-1", registered=False),), id="going, too"
        ),
    ],
)
def test_nothing_waits_for_who_does_not_come(
    new: tuple[Pod, ...], record: tuple[BackendRecord, ...]
) -> None:
    """What is ready now counts, and no hopes."""
    plan = planned(scene(*OLD, *new, records=(*IN, *record)))

    assert {"old-1", "old-2"} <= set(removed(plan))
    assert ([], None) == (held(plan), plan.due)


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param((ending("old-1", ready=False),), id="not ready"),
        pytest.param((), id="gone"),
        pytest.param((a_pod("old-1", ready=False, phase="Failed"),), id="failed"),
        pytest.param((ending("old-1", after=1),), id="about to be killed"),
    ],
)
def test_who_does_not_serve_is_not_held(pods: tuple[Pod, ...]) -> None:
    """Requests to it would fail."""
    plan = planned(scene(*pods, a_pod("new-1"), records=IN[:1]))

    assert (["old-1"], []) == (removed(plan), held(plan))


@pytest.mark.parametrize(
    ("pods", "records"),
    [
        pytest.param(OLD, (member("old-1", registered=False), IN[1]), id="not in"),
        pytest.param((ending("old-1", ready=False), OLD[1]), IN, id="not ready"),
    ],
)
def test_who_serves_is_held_beside_one_that_does_not(
    pods: tuple[Pod, ...], records: tuple[BackendRecord, ...]
) -> None:
    """Each is looked at by itself."""
    plan = planned(scene(*pods, a_pod("new-1"), records=records))

    assert (["old-1"], ["old-2"]) == (removed(plan), held(plan))


def test_record_of_a_pod_that_is_not_ready_is_no_comer() -> None:
    """Under a policy that lets it stay, too."""
    group = a_group(policy=DeregisterPolicy.IF_NOT_RUNNING)
    comer = member("new-1", registered=False)
    pods = (OLD[0], a_pod("new-1", ready=False))

    plan = planned(scene(*pods, records=(IN[0], comer), group=group))

    assert ["old-1"] == removed(plan)


def test_pod_of_a_node_that_is_gone_is_not_held() -> None:
    """Whatever its status still says."""
    snapshot = scene(OLD[0], a_pod("new-1"), records=IN[:1])
    snapshot = attrs.evolve(snapshot, nodes_gone=frozenset({"node-1"}))

    assert ["old-1"] == removed(planned(snapshot))


def test_who_is_not_in_is_not_held() -> None:
    """A record whose pod goes before it was registered serves nobody."""
    records = (member("old-1", registered=False),)

    assert ["old-1"] == removed(planned(scene(OLD[0], a_pod("new-1"), records=records)))


def test_drain_begins_in_time_unless_the_new_one_is_about_to_be_in() -> None:
    """A drain is cut by the calls under way, and not by a driver that refuses the new."""
    promising = scene(OLD[0], a_pod("new-1"), records=IN[:1])
    refused = scene(
        OLD[0],
        a_pod("new-1"),
        records=(*IN[:1], member("new-1", registered=False, failed=True)),
    )
    late = LATEST - DRAIN

    assert ["old-1"] == held(planned(refused, late - 1))
    assert ["old-1"] == removed(planned(refused, late))
    assert ["old-1"] == held(planned(promising, late))
    assert planned(promising, late).due == START + seconds(LATEST)
    assert ["old-1"] == removed(planned(promising, LATEST))


@pytest.mark.parametrize(
    ("grace", "waits", "told"),
    [
        pytest.param(60, "30", 30, id="shutdown-seconds are long"),
        pytest.param(120, "55", 55, id="deleted with a longer grace period"),
        pytest.param(40, "55", 40, id="its grace period was shortened"),
        pytest.param(20000, "10800", 10800, id="hours"),
        pytest.param(60, "soon", 60, id="unreadable"),
    ],
)
def test_pod_that_waits_for_its_records_leaves_before_it_is_told_to_end(
    grace: float, waits: str, told: float
) -> None:
    """Its hook gives up before it is killed: SIGTERM is its deadline, for its drain, too."""
    old, new = ending("old-1", after=grace, waits=waits), a_pod("new-1")
    promising = scene(old, new, records=IN[:1])
    failing = member("new-1", registered=False, failed=True)
    refused = scene(old, new, records=(*IN[:1], failing))
    latest = told - 2

    assert planned(refused).due == START + seconds(latest - DRAIN)
    assert ["old-1"] == held(planned(refused, latest - DRAIN - 1))
    assert ["old-1"] == removed(planned(refused, latest - DRAIN))
    assert ["old-1"] == held(planned(promising, latest - 1))
    assert ["old-1"] == removed(planned(promising, latest))


def test_drain_is_cut_short_for_as_many_as_are_about_to_be_in() -> None:
    """The other old pod leaves in time for its drain."""
    plan = planned(scene(*OLD, a_pod("new-1"), records=IN), LATEST - DRAIN)

    assert (1, 1) == (len(removed(plan)), len(held(plan)))


def test_no_drain_needs_no_time() -> None:
    """Of a driver that cannot drain."""
    refused = member("new-1", registered=False, failed=True)
    snapshot = scene(OLD[0], a_pod("new-1"), records=(IN[0], refused), drains=False)

    assert ["old-1"] == held(planned(snapshot, LATEST - 1))


def test_pod_at_the_same_address_does_not_wait_for_itself() -> None:
    """Where pods use their node's network, the new one comes in when the old has left."""
    old = member("old-1", host="10.0.0.1")

    assert ["old-1"] == removed(planned(scene(OLD[0], a_pod("new-1"), records=(old,))))


def test_some_may_be_missing() -> None:
    """As many as the group says."""
    group = a_group(max_unavailable=1)
    new = (a_pod("new-1"), a_pod("new-2"))

    plan = planned(scene(*OLD, *new, records=IN, group=group))

    assert (1, 1) == (len(removed(plan)), len(held(plan)))


def test_drain_is_not_cut_short_for_one_that_may_be_missing() -> None:
    """It leaves in time for its drain, as if nobody came in for it."""
    group = a_group(max_unavailable=1)
    new = (a_pod("new-1"), a_pod("new-2"))

    plan = planned(scene(*OLD, *new, records=IN, group=group), LATEST - DRAIN)

    assert (1, 1) == (len(removed(plan)), len(held(plan)))


def test_new_ones_wait_where_there_is_no_room() -> None:
    """One for each that leaves, whether its record is deleted already or not."""
    group = a_group(order=ReplaceOrder.DEREGISTER_FIRST)
    leaving = attrs.evolve(IN[1], meta=a_record("old-2", deleting=True).meta)
    new = (a_pod("new-1"), a_pod("new-2"), a_pod("new-3"))

    plan = planned(scene(OLD[0], *new, records=(IN[0], leaving), group=group))

    assert ["old-1"] == removed(plan)
    assert (1, 2) == (len(plan.creates), plan.postponed)


# --- rules ----------------------------------------------------------------------------

STATES = st.sampled_from(("absent", "coming", "failing", "in"))
PODS = st.lists(
    st.tuples(
        st.sampled_from(("ready", "unready", "ending", "ending", "ended")),
        STATES,
        st.integers(5, 120),
        st.sampled_from(("", "", "3", "25", "90")),
    ),
    min_size=1,
    max_size=7,
)


@st.composite
def rollouts(draw: st.DrawFn) -> Snapshot:
    """Draw a group in the middle of a rollout."""
    pods, records = [], []
    for number, (kind, state, after, waits) in enumerate(draw(PODS)):
        name = f"web-{number}"
        if kind in {"ready", "unready"}:
            pods.append(a_pod(name, ready=kind == "ready"))
        else:
            ready = kind == "ending"
            pods.append(ending(name, after=after, ready=ready, waits=waits))
        if state != "absent":
            failed = state == "failing"
            records.append(member(name, registered=state == "in", failed=failed))
    group = a_group(max_unavailable=draw(st.integers(0, 2)))
    return scene(*pods, records=records, group=group, drains=draw(st.booleans()))


def comers(snapshot: Snapshot) -> int:
    """Count pods that are ready and not registered."""
    inside = {r.spec.backend for r in snapshot.records if r.is_in}
    ready = (p for p in snapshot.pods if p.is_ready and not p.is_terminating)
    return sum(1 for pod in ready if a_backend(pod.meta.key.name) not in inside)


def deadline_of(pod: Pod) -> float:
    """Say how many seconds after START a pod that ends is told to, or killed."""
    said = pod.meta.annotations.get(ANNOTATION_DRAIN_GATE)
    grace = pod.deletion_grace.total_seconds()
    return grace if said is None else min(grace, float(said))


@given(rollouts(), st.integers(0, 130))
def test_rules_of_each_plan(snapshot: Snapshot, after: int) -> None:
    """Only removals move; nobody is held beyond its deadline, or for nobody."""
    plain, plan = plan_group(snapshot), planned(snapshot, after)
    ends = {p.meta.key.name: deadline_of(p) for p in snapshot.pods}
    now = START + seconds(after)

    assert (plain.creates, plain.updates) == (plan.creates, plan.updates)
    assert sorted(removed(plain)) == sorted(
        removed(plan) + held(plan)[len(plain.holds) :]
    )
    for name in held(plan)[len(plain.holds) :]:
        assert after < ends[name] - 2
    most = max(0, comers(snapshot) - snapshot.group.max_unavailable)
    assert len(plan.holds) - len(plain.holds) <= most
    assert (plan.due is None) is (len(plan.holds) == len(plain.holds))
    assert plan.due is None or plan.due > now


@given(rollouts())
def test_as_many_serve_as_are_ready(snapshot: Snapshot) -> None:
    """As far as pods are left that serve, and but for those that may be missing."""
    # Nobody fails, and no drain is to be begun: the first moment.
    plan = planned(attrs.evolve(snapshot, records=_without_failures(snapshot)))
    ready = [p for p in snapshot.pods if p.is_ready and not p.is_terminating]
    left = [p for p in snapshot.pods if p.is_ready and p.is_terminating]
    inside = {r.spec.backend for r in snapshot.records if r.is_in}
    able = [p for p in left if a_backend(p.meta.key.name) in inside]
    serving = len(ready) - comers(snapshot) + _new_holds(plan, snapshot)

    wanted = len(ready) - snapshot.group.max_unavailable
    assert serving >= min(wanted, len(ready) - comers(snapshot) + len(able))


def _without_failures(snapshot: Snapshot) -> tuple[BackendRecord, ...]:
    return tuple(
        attrs.evolve(r, status=RecordStatus()) if r.has_failed else r
        for r in snapshot.records
    )


def _new_holds(plan: Plan, snapshot: Snapshot) -> int:
    return len(plan.holds) - len(plan_group(snapshot).holds)


@given(rollouts())
def test_looking_again_when_due_ends_every_hold(snapshot: Snapshot) -> None:
    """Even where nothing ever changes: all leave before they are killed."""
    now, plan = START, planned(snapshot)
    for _ in range(2 * len(snapshot.pods) + 1):
        if plan.due is not None:
            now = plan.due
        plan = order_replacements(plan_group(snapshot), snapshot, now)
    assert plan.due is None
    assert now <= START + timedelta(seconds=120)


@given(rollouts(), st.integers(0, 130))
def test_a_plan_remembers_nothing(snapshot: Snapshot, after: int) -> None:
    """A process that has just started decides as one that has held for long."""
    first = planned(snapshot, after)
    gone = {removal.record.meta.uid for removal in first.removals}
    rest = tuple(r for r in snapshot.records if r.meta.uid not in gone)

    again = planned(attrs.evolve(snapshot, records=rest), after)

    assert held(first) == held(again)
    assert [] == removed(again)
