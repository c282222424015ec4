"""What people drain by an annotation leaves, and stays out until it is taken off."""

import attrs
import pytest

from lbcf.core.model.cluster import Pod, Snapshot
from lbcf.core.model.names import ANNOTATION_DRAIN
from lbcf.core.model.resources import BackendGroup, BackendRecord, StaticSelection
from lbcf.core.model.verdicts import Eligible, Ineligible
from lbcf.core.reasons import Reason
from lbcf.core.selection.desired import judge_all
from lbcf.core.selection.hand_drain import said_of
from lbcf.core.selection.plan import Plan, plan_group
from lbcf.core.selection.replacement import order_replacements
from tests.builders import START, a_group, a_pod, a_record, a_snapshot, seconds
from tests.node_builders import OF_NODES, a_node, a_scene


WHY = {ANNOTATION_DRAIN: "a new disk"}


def drained(pod: Pod) -> Pod:
    """Put the annotation on a pod."""
    return attrs.evolve(pod, meta=attrs.evolve(pod.meta, annotations=WHY))


def drained_group(**fields: object) -> BackendGroup:
    """Make a group with the annotation."""
    group = attrs.evolve(a_group(), **fields)  # type: ignore[arg-type]
    return attrs.evolve(group, meta=attrs.evolve(group.meta, annotations=WHY))


def record_of(snapshot: Snapshot) -> BackendRecord:
    """Make the registered record of the only backend of a snapshot."""
    spec = plan_group(snapshot).creates[0].desired.spec
    return a_record(spec=spec, registered=True)


def reasons(plan: Plan) -> list[tuple[Reason, str]]:
    """Say why what leaves does."""
    return [(removal.reason, removal.message) for removal in plan.removals]


def test_pod_with_the_annotation_leaves() -> None:
    """With the words of who put it there."""
    before = a_snapshot(a_pod())
    after = a_snapshot(drained(a_pod()), records=(record_of(before),))

    said = "pod web-1 is drained by hand: a new disk"
    assert [(Reason.DRAINED_BY_HAND, said)] == reasons(plan_group(after))


def test_pod_with_the_annotation_is_not_registered() -> None:
    """It stays out, whoever made it anew."""
    assert plan_group(a_snapshot(drained(a_pod()))).is_empty


def test_annotation_without_a_reason_is_no_order() -> None:
    """A template may have left it so."""
    pod = a_pod()
    empty = attrs.evolve(pod.meta, annotations={ANNOTATION_DRAIN: "  "})

    assert plan_group(a_snapshot(attrs.evolve(pod, meta=empty))).creates


def test_pods_of_a_drained_node_leave() -> None:
    """The others stay."""
    here, there = attrs.evolve(a_pod(), node="n1"), a_pod("web-2", address="10.0.0.2")
    snapshot = a_snapshot(here, there)
    snapshot = attrs.evolve(snapshot, nodes_drained={"n1": "a new disk"})
    verdicts = judge_all(snapshot)

    assert isinstance(verdicts[here.meta.uid], Ineligible)
    assert "node n1 is drained by hand: a new disk" in str(verdicts[here.meta.uid])
    assert isinstance(verdicts[there.meta.uid], Eligible)


def test_drained_node_leaves_as_a_backend() -> None:
    """A node is a backend of its own in groups of nodes."""
    node = a_node()
    node = attrs.evolve(node, meta=attrs.evolve(node.meta, annotations=WHY))
    group = attrs.evolve(a_group(), selection=OF_NODES)
    verdicts = judge_all(a_snapshot(group=group, scene=a_scene(node)))

    assert Reason.DRAINED_BY_HAND == getattr(verdicts[node.name], "reason", None)
    assert "node n1 is drained by hand" in str(verdicts[node.name])


@pytest.mark.parametrize("kind", ["pods", "addresses"])
def test_drained_group_has_nobody_in(kind: str) -> None:
    """Pods and static addresses alike."""
    static = StaticSelection(("10.0.0.9:80",))
    fields = {"selection": static} if kind == "addresses" else {}
    pods = () if kind == "addresses" else (a_pod(),)
    group = attrs.evolve(a_group(), **fields)  # type: ignore[arg-type]
    record = record_of(a_snapshot(*pods, group=group))
    plan = plan_group(
        a_snapshot(*pods, group=drained_group(**fields), records=(record,))
    )

    assert () == plan.creates
    assert [Reason.DRAINED_BY_HAND] == [reason for reason, _ in reasons(plan)]


def test_drain_by_hand_waits_for_no_replacement() -> None:
    """A pod that ends and still serves stays for others, but not against an order."""
    ends = seconds(600) + START
    old = a_pod()
    record = record_of(a_snapshot(old))
    ending = attrs.evolve(old, meta=attrs.evolve(old.meta, deleting_since=ends))
    new = a_pod("web-2", address="10.0.0.2")

    def removed(pod: Pod) -> int:
        snapshot = a_snapshot(pod, new, records=(record,))
        return len(order_replacements(plan_group(snapshot), snapshot, START).removals)

    assert 0 == removed(ending)
    assert 1 == removed(drained(ending))


def test_group_says_what_of_it_is_drained() -> None:
    """In words, and that nothing is any more."""
    some, none = said_of(["pod web-1: a new disk"], 3), said_of([], 3)

    assert (True, "pod web-1: a new disk") == (some.status, some.message)
    assert (False, Reason.NOT_DRAINED) == (none.status, none.reason)
    assert "pod 1: a; pod 2: b; pod 3: c; and 1 more" == (
        said_of(["pod 1: a", "pod 2: b", "pod 3: c", "pod 4: d"], 3).message
    )
