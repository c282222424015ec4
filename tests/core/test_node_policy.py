"""Which nodes are backends: the table of docs/nodes.md, row by row."""

import pytest

from lbcf.core.model.names import LABEL_NODE
from lbcf.core.model.node_backends import (
    AddressType,
    IpFamily,
    NodeRef,
    NodeSelection,
)
from lbcf.core.model.nodes import (
    EXCLUDE_LABEL,
    LEAVING_TAINTS,
    LocalState,
    Node,
    NodeScene,
    NodeStatusAddress,
)
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import AddressSource, Port
from lbcf.core.model.verdicts import Eligible, Ineligible, Undecided, Verdict
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.node_policy import judge_node, judge_nodes
from lbcf.core.selection.plan import Plan, hold_readiness_removals, plan_group
from tests.builders import a_driver, a_snapshot
from tests.node_builders import (
    a_node,
    a_node_group,
    a_node_record,
    a_scene,
)


EXCLUDED_NODE = a_node(labels={EXCLUDE_LABEL: ""})
DOOMED = a_node(taints=frozenset({"karpenter.sh/disrupted"}))
DELETED = a_node(deleting=True)
READY, SERVING = LocalState.READY, LocalState.SERVING
UNREADY, ENDING = LocalState.UNREADY, LocalState.ENDING


def reason_of(verdict: Verdict) -> str:
    """Say why not, empty for an eligible one."""
    return "" if isinstance(verdict, Eligible) else verdict.reason


@pytest.mark.parametrize(
    ("node", "local", "reason"),
    [
        pytest.param(a_node(), None, "", id="a node is in"),
        pytest.param(EXCLUDED_NODE, None, Reason.NODE_EXCLUDED, id="excluded"),
        pytest.param(DOOMED, None, Reason.NODE_LEAVING, id="tainted"),
        pytest.param(DELETED, None, Reason.NODE_LEAVING, id="being deleted"),
        pytest.param(a_node(), READY, "", id="Local: with a ready endpoint"),
        pytest.param(
            a_node(),
            SERVING,
            Reason.NO_READY_LOCAL_ENDPOINT,
            id="Local: ending, serves",
        ),
        pytest.param(
            a_node(), UNREADY, Reason.NO_READY_LOCAL_ENDPOINT, id="Local: unready"
        ),
        pytest.param(
            a_node(), ENDING, Reason.NO_READY_LOCAL_ENDPOINT, id="Local: ending"
        ),
        pytest.param(
            EXCLUDED_NODE,
            READY,
            Reason.NODE_EXCLUDED,
            id="Local: excluded all the same",
        ),
        pytest.param(DOOMED, READY, "", id="Local: tainted, its endpoint decides"),
        pytest.param(
            DOOMED, SERVING, Reason.NODE_LEAVING, id="Local: tainted, endpoint ends"
        ),
        pytest.param(DELETED, READY, "", id="Local: being deleted, endpoint decides"),
    ],
)
def test_node_is_judged_by_what_passes_through_it(
    node: Node, local: LocalState | None, reason: str
) -> None:
    """The first check that speaks wins."""
    states = None if local is None else {node.name: local}

    assert reason == reason_of(judge_node(node, a_scene(node, local=states)))


@pytest.mark.parametrize("taint", sorted(LEAVING_TAINTS))
def test_taint_of_each_autoscaler_is_known(taint: str) -> None:
    """And named to whoever asks why the node is out."""
    verdict = judge_node(a_node(taints=frozenset({taint})), a_scene())

    assert isinstance(verdict, Ineligible)
    assert taint in verdict.message


def test_node_without_an_endpoint_is_out_for_more_than_readiness() -> None:
    """What is gone is no guard's to hold; what is merely unready may be held."""
    scene = a_scene(local={"n2": UNREADY})
    gone, unready = judge_node(a_node(1), scene), judge_node(a_node(2), scene)

    assert isinstance(gone, Ineligible)
    assert isinstance(unready, Ineligible)
    assert (False, True) == (gone.by_readiness, unready.by_readiness)


V4 = NodeStatusAddress("InternalIP", "192.0.2.1")
V6 = NodeStatusAddress("InternalIP", "2001:db8::1")
OUTER = NodeStatusAddress("ExternalIP", "198.51.100.1")
NAME = NodeStatusAddress("Hostname", "n1.test")


@pytest.mark.parametrize(
    ("kind", "family", "address"),
    [
        (AddressType.INTERNAL_IP, None, "2001:db8::1"),
        (AddressType.INTERNAL_IP, IpFamily.IPV4, "192.0.2.1"),
        (AddressType.INTERNAL_IP, IpFamily.IPV6, "2001:db8::1"),
        (AddressType.EXTERNAL_IP, None, "198.51.100.1"),
        (AddressType.HOSTNAME, IpFamily.IPV6, "n1.test"),
        (AddressType.EXTERNAL_IP, IpFamily.IPV6, ""),
    ],
)
def test_address_is_the_first_of_its_type_and_family(
    kind: AddressType, family: IpFamily | None, address: str
) -> None:
    """A name has no family; a node that lacks such an address waits and says so."""
    node = a_node(addresses=(V6, V4, OUTER, NAME))
    scene = NodeScene({}, address_type=kind, family=family)

    assert address == scene.address(node)
    verdict = judge_node(node, scene)
    assert (Reason.NODE_HAS_NO_ADDRESS if not address else "") == reason_of(verdict)


def test_missing_address_names_node_type_and_family() -> None:
    """Whoever reads it knows what to look for."""
    scene = NodeScene({}, address_type=AddressType.EXTERNAL_IP, family=IpFamily.IPV6)
    verdict = judge_node(a_node(), scene)

    assert Undecided(
        Reason.NODE_HAS_NO_ADDRESS, "node n1 has no IPv6 address of type ExternalIP"
    ) == (verdict)


def test_service_without_a_node_port_lets_all_nodes_go() -> None:
    """Whatever they have: the port is nobody's, or soon somebody else's."""
    scene = NodeScene({}, closed=Explanation(Reason.SERVICE_NOT_FOUND, "it is gone"))

    assert Ineligible(Reason.SERVICE_NOT_FOUND, "it is gone") == judge_node(
        a_node(), scene
    )


# --- never all at once ----------------------------------------------------------------


def judged(
    *records: BackendRecord, nodes: tuple[Node, ...] = (), **local: LocalState
) -> dict[str, str]:
    """Judge two nodes under Local; return the reasons of those that are not in."""
    scene = a_scene(*(nodes or (a_node(1), a_node(2))), local=local)
    verdicts = judge_nodes(scene, records, ["front"])
    return {name: reason_of(v) for name, v in verdicts.items() if reason_of(v)}


def test_last_nodes_that_serve_are_kept() -> None:
    """Their pods end but still serve, and nobody else does."""
    one, two = a_node_record(1), a_node_record(2)

    assert {"n1": Reason.LAST_SERVING_NODE, "n2": Reason.LAST_SERVING_NODE} == judged(
        one, two, n1=SERVING, n2=SERVING
    )


def test_node_goes_once_another_one_is_registered() -> None:
    """A ready endpoint elsewhere is no help before its node is in the load balancer."""
    one = a_node_record(1)
    coming, there = a_node_record(2, registered=False), a_node_record(2)

    assert {"n1": Reason.LAST_SERVING_NODE} == judged(one, coming, n1=SERVING, n2=READY)
    assert {"n1": Reason.NO_READY_LOCAL_ENDPOINT} == judged(
        one, there, n1=SERVING, n2=READY
    )


def test_record_on_its_way_out_relieves_nobody() -> None:
    """A node that came back has to be registered again first."""
    leaving = a_node_record(2, deleting=True)

    assert {"n1": Reason.LAST_SERVING_NODE} == judged(
        a_node_record(1), leaving, n1=SERVING, n2=READY
    )


def test_node_that_serves_no_more_goes_even_as_the_last_one() -> None:
    """To keep it would help nobody."""
    assert {
        "n1": Reason.NO_READY_LOCAL_ENDPOINT,
        "n2": Reason.NO_READY_LOCAL_ENDPOINT,
    } == judged(a_node_record(1), n1=ENDING)


def test_doomed_node_that_still_serves_is_kept_as_the_last_one() -> None:
    """The autoscaler waits for its pods too."""
    assert {"n1": Reason.LAST_SERVING_NODE} == judged(
        a_node_record(1), nodes=(DOOMED,), n1=SERVING
    )


def test_excluded_node_goes_even_as_the_last_one() -> None:
    """A label that a person sets is the way to override."""
    assert {"n1": Reason.NODE_EXCLUDED} == judged(
        a_node_record(1), nodes=(EXCLUDED_NODE,), n1=SERVING
    )


# --- plans ----------------------------------------------------------------------------


def planned(
    scene: NodeScene, *records: BackendRecord, max_unready: int | None = None
) -> Plan:
    """Plan for the everyday group."""
    whole = a_snapshot(group=a_node_group(), records=records, scene=scene)
    return hold_readiness_removals(plan_group(whole), max_unready)


def test_each_eligible_node_gets_a_record() -> None:
    """With its address, a readable name, and labels to find it by."""
    doomed = a_node(2, taints=frozenset({"ToBeDeletedByClusterAutoscaler"}))
    [create] = planned(a_scene(a_node(1), doomed)).creates

    assert "192.0.2.1:30080" == create.desired.spec.address
    assert create.name.startswith("web-n1-30080-")
    labels = create.desired.labels()
    assert ("web", "n1") == (
        labels["lbcf.tkestack.io/backend-service"],
        labels["lbcf.tkestack.io/backend-node"],
    )


def test_records_of_two_node_ports_have_two_names() -> None:
    """Also where only the driver knows addresses: the old one may still be draining."""

    def named(node_port: int) -> str:
        """Name the record of a node port."""
        scene = NodeScene({"n1": a_node()}, node_port=node_port)
        driver = a_driver(address_source=AddressSource.DRIVER)
        whole = a_snapshot(group=a_node_group(), scene=scene, driver=driver)
        [create] = plan_group(whole).creates
        return create.name.rpartition("-")[2]

    assert named(30080) != named(31000)


def test_each_port_of_a_node_is_a_backend() -> None:
    """Groups of nodes name their ports themselves."""
    selection = NodeSelection((Port(80), Port(443)))
    node = a_node(addresses=(NodeStatusAddress("InternalIP", "2001:db8::1"),))
    whole = a_snapshot(
        group=a_node_group(selection=selection), scene=NodeScene({"n1": node})
    )

    found = {
        c.desired.spec.backend: c.desired.address for c in plan_group(whole).creates
    }
    assert {
        NodeRef("n1", Port(80)): "[2001:db8::1]:80",
        NodeRef("n1", Port(443)): "[2001:db8::1]:443",
    } == found


def test_records_of_nodes_that_stay_are_left_alone() -> None:
    """The plan of a cluster at rest is empty."""
    assert planned(a_scene(a_node(1)), a_node_record(1)).is_empty


@pytest.mark.parametrize(
    ("scene", "reason"),
    [
        pytest.param(a_scene(), Reason.NODE_GONE, id="gone"),
        pytest.param(a_scene(EXCLUDED_NODE), Reason.NODE_EXCLUDED, id="excluded"),
        pytest.param(
            a_scene(a_node(), local={}),
            Reason.NO_READY_LOCAL_ENDPOINT,
            id="no endpoint",
        ),
        pytest.param(
            NodeScene({"n1": a_node()}, node_port=31000),
            Reason.UNSELECTED,
            id="node port",
        ),
    ],
)
def test_record_goes_with_its_reason(scene: NodeScene, reason: str) -> None:
    """A changed node port is another backend."""
    [removal] = planned(scene, a_node_record(1)).removals

    assert reason == removal.reason


def test_node_that_cannot_be_understood_keeps_its_record() -> None:
    """It is neither gone nor judged by how it once was."""
    plan = planned(
        a_scene(unreadable={"n1": "status: expected object"}), a_node_record()
    )

    assert plan.is_empty
    assert [Reason.NODE_UNREADABLE] == [h.reason for h in plan.holds]
    assert {"n1"} == plan.waiting.keys()


def test_blind_kubelets_do_not_empty_a_load_balancer() -> None:
    """What only readiness asks for is held while too much of the group is unready."""
    scene = a_scene(a_node(1), a_node(2), local={"n1": UNREADY, "n2": UNREADY})
    records = a_node_record(1), a_node_record(2)

    assert [Reason.TOO_MANY_UNREADY] * 2 == [
        h.reason for h in planned(scene, *records, max_unready=50).holds
    ]
    assert 2 == len(planned(scene, *records).removals)


def test_node_whose_pods_have_left_is_never_held() -> None:
    """A guard on readiness has no say in it."""
    scene = a_scene(a_node(1), a_node(2), local={"n2": UNREADY})
    plan = planned(scene, a_node_record(1), a_node_record(2), max_unready=10)

    assert ["web-n1"] == [r.record.meta.key.name for r in plan.removals]
    assert ["web-n2"] == [h.record.meta.key.name for h in plan.holds]


def test_node_that_is_out_hides_no_other() -> None:
    """Records name the node by its address and its uid."""
    nodes = a_scene(a_node(1, labels={EXCLUDE_LABEL: ""}), a_node(2))

    [create] = plan_group(a_snapshot(group=a_node_group(), scene=nodes)).creates

    spec = create.desired.spec
    assert ("192.0.2.2", a_node(2).meta.uid) == (spec.host, spec.node_uid)


def test_record_of_a_node_is_found_by_the_node() -> None:
    """As those of Services at nodes are."""
    group = a_node_group(selection=NodeSelection((Port(80),)))

    [create] = plan_group(a_snapshot(group=group, scene=a_scene(a_node()))).creates

    assert "n1" == create.desired.labels()[LABEL_NODE]


def test_unready_nodes_are_counted() -> None:
    """Each once; one that is out for more than readiness is none of them."""
    scene = a_scene(a_node(1), a_node(2), a_node(3), local={"n1": UNREADY, "n2": READY})

    assert 1 == plan_group(a_snapshot(group=a_node_group(), scene=scene)).unready
