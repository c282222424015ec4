"""Which change of a node, a Service or its endpoints costs work, and whose."""

import attrs
import pytest

from lbcf.controller.snapshot import take_snapshot
from lbcf.controller.triggers import ChangedBackends, NodeTriggers
from lbcf.controller.view import View
from lbcf.core.model.cluster import Snapshot
from lbcf.core.model.names import ANNOTATION_DRAIN
from lbcf.core.model.node_backends import NodeSelection
from lbcf.core.model.nodes import (
    EXCLUDE_LABEL,
    LocalState,
    Node,
    NodeScene,
    NodeStatusAddress,
)
from lbcf.core.model.resources import Meta
from lbcf.core.model.selectors import Operator, Requirement, Selector
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation
from lbcf.kube.kinds import HasMeta
from lbcf.kube.list_watch import Removed
from lbcf.kube.store import Store
from lbcf.wire.metadata import identity_of
from tests.builders import NAMESPACE, a_driver, a_group, a_key, a_load_balancer, a_pod
from tests.controller.views import Thing, obscure, show
from tests.node_builders import (
    HTTP,
    OF_NODES,
    SERVICE_KEY,
    a_node,
    a_node_group,
    a_node_record,
    a_service,
    labelled,
    slices_of,
)


WEB = a_key("web")
READY = LocalState.READY


@attrs.frozen
class Bench:
    """Real triggers between real stores, and what they asked for."""

    view: View
    scopes: ChangedBackends
    looked_at: list[ObjectKey]
    considered: list[ObjectKey]

    def tell(self, *things: Thing) -> list[ObjectKey]:
        """Let the watches tell of objects; return the groups to look at."""
        self.looked_at.clear()
        show(self.view, *things)
        return list(self.looked_at)

    def end(self, store: Store[Node], thing: HasMeta) -> list[ObjectKey]:
        """Let a watch tell that something is gone."""
        self.looked_at.clear()
        store.apply(Removed(attrs.evolve(identity_of(thing.meta), version="99")))
        return list(self.looked_at)


def set_up(*things: Thing) -> Bench:
    """Make a bench with objects that are old news."""
    bench = Bench(View(), ChangedBackends(), [], [])
    show(bench.view, a_driver(), a_load_balancer(), *things)

    def look_at(group: ObjectKey, _urgent: bool) -> None:
        """Note a group."""
        bench.looked_at.append(group)

    NodeTriggers(bench.view, bench.scopes, look_at, bench.considered.append).listen()
    bench.considered.clear()
    return bench


BLIPS = [
    pytest.param({"kubernetes.io/os": "linux"}, id="a label that nobody asks for"),
    pytest.param({}, id="a heartbeat"),
]


@pytest.mark.parametrize("labels", BLIPS)
def test_change_that_decides_nothing_looks_at_no_group(labels: dict[str, str]) -> None:
    """NotReady and cordons are not even read: to us they are heartbeats."""
    bench = set_up(a_service(), a_node_group(), a_node())

    assert [] == bench.tell(a_node(labels=labels, version=2))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(a_node(labels={EXCLUDE_LABEL: ""}, version=2), id="excluded"),
        pytest.param(a_node(deleting=True, version=2), id="being deleted"),
        pytest.param(
            a_node(taints=frozenset({"karpenter.sh/disrupted"}), version=2),
            id="about to go",
        ),
        pytest.param(
            a_node(
                addresses=(NodeStatusAddress("InternalIP", "192.0.2.9"),), version=2
            ),
            id="moved",
        ),
    ],
)
def test_change_that_decides_looks_at_that_node_alone(changed: Node) -> None:
    """In each group that selects it."""
    bench = set_up(a_service(), a_node_group(), a_node(), a_node(2))

    assert [WEB] == bench.tell(changed)
    assert {"n1"} == bench.scopes.take(WEB)


def test_node_that_comes_or_goes_is_looked_at() -> None:
    """Whether it is eligible is the policy's to say."""
    bench = set_up(a_service(), a_node_group(), a_node())

    assert [WEB] == bench.tell(a_node(2))
    assert [WEB] == bench.end(bench.view.nodes, a_node(1))
    assert {"n1", "n2"} == bench.scopes.take(WEB)


def test_node_that_goes_is_asked_after_where_its_pods_may_wait() -> None:
    """A pod on it serves nobody any more."""
    bench = set_up(a_node())
    bench.scopes.hold(WEB, frozenset({"old-1"}))

    assert [WEB] == bench.end(bench.view.nodes, a_node(1))


def test_label_costs_the_groups_whose_selection_it_changes() -> None:
    """One that lost the node, one that gained it; nobody else."""
    lost, gained = (a_node_group(n, selection=labelled(n)) for n in ("lost", "gained"))
    bench = set_up(
        a_service(), a_node_group(), lost, gained, a_node(labels={"lost": "yes"})
    )

    keys = bench.tell(a_node(labels={"gained": "yes"}, version=2))

    assert {a_key("lost"), a_key("gained")} == set(keys)


def test_expressions_count_as_labels_do() -> None:
    """A group that selects by expressions alone is found too."""
    requirement = Requirement("zone", Operator.NOT_IN, frozenset({"b"}))
    selection = NodeSelection((HTTP,), Selector(requirements=(requirement,)))
    bench = set_up(a_node_group(selection=selection), a_node())

    assert [WEB] == bench.tell(a_node(labels={"zone": "b"}, version=2))
    assert [] == bench.tell(a_node(labels={"zone": "b", "x": "y"}, version=3))


def test_node_that_cannot_be_read_brings_all_groups_of_nodes() -> None:
    """Its labels are unknown, so it may be anybody's; groups of pods do not care."""
    bench = set_up(a_group("pods"), a_service(), a_node_group())

    obscure(bench.view.nodes, ObjectKey("", "n1"))

    assert [WEB] == bench.looked_at
    assert None is bench.scopes.take(WEB)


def test_thousand_nodes_in_twenty_groups_cost_one_look_per_group() -> None:
    """One node's event asks for its own keys, whatever else there is.

    Twenty groups of one label each, fifty nodes for each label.
    """
    names = [f"pool-{n}" for n in range(20)]
    groups = [a_node_group(name, selection=labelled(name)) for name in names]
    nodes = [a_node(n, labels={names[n % 20]: "yes"}) for n in range(1000)]
    bench = set_up(*groups, *nodes)

    excluded = {"pool-7": "yes", EXCLUDE_LABEL: ""}
    assert [a_key("pool-7")] == bench.tell(a_node(7, labels=excluded, version=2))
    scope = bench.scopes.take(a_key("pool-7"))
    assert {"n7"} == scope
    snapshot = take_snapshot(bench.view, groups[7], scope)
    assert isinstance(snapshot, Snapshot)
    assert snapshot.scene is not None
    assert {"n7"} == snapshot.scene.nodes.keys()
    assert [] == bench.tell(*(attrs.evolve(n, meta=_next(n)) for n in nodes[8:]))


def _next(node: Node) -> Meta:
    """Give a node's metadata the next version, as a heartbeat does."""
    return attrs.evolve(node.meta, resource_version="3")


# --- Services and endpoints -----------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(a_service(node_port=31000, version=2), id="node port"),
        pytest.param(a_service(local=True, version=2), id="policy"),
        pytest.param(a_service(kind="ClusterIP", node_port=0, version=2), id="type"),
        pytest.param(a_service(deleting=True, version=2), id="being deleted"),
    ],
)
def test_service_that_answers_otherwise_brings_its_groups(changed: Thing) -> None:
    """All of the group is looked at, and its endpoints may be worth reading now."""
    bench = set_up(a_service(), a_node_group(), a_node())

    assert [WEB] == bench.tell(changed)
    assert None is bench.scopes.take(WEB)
    assert [SERVICE_KEY] == bench.considered


def test_services_of_groups_that_are_there_are_considered() -> None:
    """Their endpoints may be worth reading: nothing is read before this one listens."""
    considered: list[ObjectKey] = []
    view = show(View(), a_service(), a_node_group())
    triggers = NodeTriggers(
        view, ChangedBackends(), lambda _key, _urgent: None, considered.append
    )
    triggers.listen()

    assert [SERVICE_KEY] == considered


def test_service_that_answers_as_before_brings_nobody() -> None:
    """Its labels and its status are others' affair."""
    bench = set_up(a_service(), a_node_group(), a_node())

    assert [] == bench.tell(a_service(version=2))


def test_service_of_no_group_brings_nobody() -> None:
    """Most Services are not load-balanced here."""
    bench = set_up(a_group())

    assert [] == bench.tell(a_service())


def test_under_local_a_node_without_endpoints_brings_nobody() -> None:
    """It has no part in the group, whatever becomes of it."""
    bench = set_up(a_service(local=True), a_node_group(), a_node_record(2))
    bench.view.endpoints.open(NAMESPACE, slices_of(n1=READY))

    assert [WEB] == bench.tell(a_node(1))
    assert [WEB] == bench.tell(a_node(2))
    assert [] == bench.tell(a_node(3))


def test_registration_under_local_lets_the_kept_node_go() -> None:
    """Whoever waited for it is looked at again; without Local nobody waits."""
    coming = a_node_record(2, registered=False)
    there = a_node_record(2, version=2)
    local = set_up(a_service(local=True), a_node_group(), coming)
    cluster = set_up(a_service(), a_node_group(), coming)

    assert [WEB] == local.tell(there)
    assert [] == cluster.tell(there)


# --- what a group depends on ----------------------------------------------------------


def scene_of(view: View) -> NodeScene:
    """Read the everyday group's nodes."""
    found = take_snapshot(view, a_node_group())
    assert isinstance(found, Snapshot)
    assert found.scene is not None
    return found.scene


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        pytest.param(None, "ServiceNotFound", id="no such Service"),
        pytest.param(a_service(deleting=True), "ServiceDeleting", id="being deleted"),
        pytest.param(
            a_service(kind="ClusterIP", node_port=0), "NodePortMissing", id="type"
        ),
        pytest.param(
            attrs.evolve(a_service(), ports=()), "NodePortMissing", id="no such port"
        ),
    ],
)
def test_service_without_a_node_port_closes_the_group(
    service: Thing | None, reason: str
) -> None:
    """A node port that nobody has any more may be another Service's tomorrow."""
    bench = set_up(a_node_group(), a_node(), *([service] if service else []))

    closed = scene_of(bench.view).closed
    assert isinstance(closed, Explanation)
    assert (reason, True) == (closed.reason, "shop/web" in closed.message)


def test_service_that_cannot_be_understood_holds_the_group() -> None:
    """It may have another node port, or another policy."""
    bench = set_up(a_service(), a_node_group(), a_node())
    obscure(bench.view.services, SERVICE_KEY)

    found = take_snapshot(bench.view, a_node_group())
    assert "ServiceUnreadable" == getattr(found, "reason", "")


def test_endpoints_that_are_not_read_yet_hold_the_group() -> None:
    """No answer is not the answer that there are none."""
    bench = set_up(a_service(local=True), a_node_group(), a_node())
    before = take_snapshot(bench.view, a_node_group())
    slices = slices_of(n1=READY)
    bench.view.endpoints.open(NAMESPACE, slices)

    assert "EndpointsUnread" == getattr(before, "reason", "")
    assert {"n1": READY} == scene_of(bench.view).local
    obscure(slices, a_key("web-x"))
    after = take_snapshot(bench.view, a_node_group())
    assert "EndpointsUnreadable" == getattr(after, "reason", "")


def test_under_local_nodes_with_endpoints_or_records_are_looked_at() -> None:
    """Of a thousand others nothing is asked."""
    nodes = [a_node(n) for n in range(5)]
    bench = set_up(a_service(local=True), a_node_group(), a_node_record(2), *nodes)
    bench.view.endpoints.open(NAMESPACE, slices_of(n1=READY))

    assert {"n1", "n2"} == scene_of(bench.view).nodes.keys()


def test_endpoints_are_wanted_only_of_local_services_in_use() -> None:
    """Not a single EndpointSlice is read for anybody else."""
    used, unused = (
        set_up(a_service(local=True), a_node_group()),
        set_up(a_service(local=True)),
    )
    cluster = set_up(a_service(), a_node_group())

    assert used.view.is_local_used(SERVICE_KEY)
    assert not unused.view.is_local_used(SERVICE_KEY)
    assert not cluster.view.is_local_used(SERVICE_KEY)


def test_node_drained_by_hand_brings_its_pods() -> None:
    """Those on it alone, in the groups that select them; and again when it is taken off."""
    node = a_node()
    here = attrs.evolve(a_pod(), node="n1")
    there = attrs.evolve(a_pod("web-2", address="10.0.0.2"), node="n2")
    bench = set_up(a_group(), here, there, node)
    annotated = attrs.evolve(
        node.meta, annotations={ANNOTATION_DRAIN: "a new disk"}, resource_version="2"
    )
    web = a_group().meta.key

    bench.tell(attrs.evolve(node, meta=annotated))
    assert {"web-1"} == bench.scopes.take(web)

    bench.tell(attrs.evolve(node, meta=attrs.evolve(node.meta, resource_version="3")))
    assert {"web-1"} == bench.scopes.take(web)


def test_view_says_what_of_a_group_is_drained_by_hand() -> None:
    """Pods, the nodes of pods, nodes of groups of nodes, or all of it."""
    why = {ANNOTATION_DRAIN: "a new disk"}
    node = a_node()
    node = attrs.evolve(node, meta=attrs.evolve(node.meta, annotations=why))
    pod, group = attrs.evolve(a_pod(), node="n1"), a_group()
    named = attrs.evolve(pod, meta=attrs.evolve(pod.meta, annotations=why))
    whole = attrs.evolve(group, meta=attrs.evolve(group.meta, annotations=why))
    view = show(View(), node, named)

    on_nodes = attrs.evolve(group, selection=OF_NODES)
    assert ["node n1: a new disk", "pod web-1: a new disk"] == view.drained_by_hand(
        group
    )
    assert ["node n1: a new disk"] == view.drained_by_hand(on_nodes)
    assert ["all of it: a new disk"] == view.drained_by_hand(whole)
