"""What the view answers: indexes, drivers, pods of a group, addresses of backends."""

import attrs
import pytest

from lbcf.controller.view import View
from lbcf.core.model.node_backends import (
    AddressType,
    NodeRef,
    NodeSelection,
    ServiceRef,
)
from lbcf.core.model.resources import (
    Backend,
    PodRef,
    PodSelection,
    Selection,
    StaticRef,
    StaticSelection,
)
from lbcf.core.model.values import Port, Uid
from lbcf.core.reasons import Explanation, Reason
from tests.builders import (
    WEB,
    a_backend,
    a_driver,
    a_group,
    a_key,
    a_load_balancer,
    a_pod,
    a_record,
    a_spec,
)
from tests.controller.views import everyday, obscure, show
from tests.node_builders import OF_NODES, OF_SERVICE, a_node, a_node_group, a_service


def test_indexes_find_what_they_say() -> None:
    """By driver, group, pod, load balancer and namespace."""
    view, record = show(everyday(), a_record()), a_record()
    web = a_key("web")

    assert (record,) == view.records.by_index("driver", a_key("proxy"))
    assert (record,) == view.records.by_index("pod", (web, "web-1"))
    assert (record,) == view.records.by_index("load_balancer", a_key("front"))
    assert (record,) == view.records_of(web)
    assert (a_group(),) == view.groups.by_index("load_balancer", a_key("front"))
    assert (a_group(),) == view.groups.by_index("namespace", "shop")
    assert (a_load_balancer(),) == view.load_balancers.by_index(
        "driver", a_key("proxy")
    )


def test_shared_load_balancers_are_found_where_they_live() -> None:
    """A group of any namespace is found under the key in kube-system."""
    group = a_group(load_balancers=("lbcf-front",))
    view = show(View(), group)
    shared = a_key("lbcf-front", "kube-system")

    assert (group,) == view.groups.by_index("load_balancer", shared)


def test_members_are_locked_under_the_keys_of_all_that_are_one_load_balancer() -> None:
    """One that was made since a key changed, and one that could not be written then.

    All lock in one order. What is another one to its driver has keys of its own.
    """
    known = (
        ("front", "7", ("url:1",)),
        ("back", "7", ("url:2",)),
        ("side", "7", ("url:2", "url:1")),
        ("away", "8", ("url:8",)),
    )
    found = [
        attrs.evolve(a_load_balancer(name, info={"id": target}), lock_keys=keys)
        for name, target, keys in known
    ]
    view = show(View(), *found)

    for name in ("front", "back", "side"):
        assert ("url:2", "url:1") == view.lock_keys(a_key(name))
    assert ("url:8",) == view.lock_keys(a_key("away"))
    assert () == view.lock_keys(a_key("gone"))


def test_driver_is_found_or_said_to_be_missing() -> None:
    """Whoever needs it tells people what to do."""
    view = everyday()

    assert a_driver() == view.driver(a_key("proxy"))
    missing = view.driver(a_key("other"))
    assert isinstance(missing, Explanation)
    assert Reason.DRIVER_NOT_FOUND == missing.reason
    assert "shop/other does not exist; create it" in missing.message


def test_driver_that_was_never_readable_is_said_to_be_so() -> None:
    """That is another trouble than a missing one."""
    view = View()
    obscure(view.drivers, a_key("proxy"))

    absent = view.driver(a_key("proxy"))

    assert isinstance(absent, Explanation)
    assert Reason.DRIVER_UNREADABLE == absent.reason


def test_pods_of_a_group_are_those_it_selects_in_its_namespace() -> None:
    """By name or by label, never beyond."""
    one, two = a_pod(), a_pod("web-2")
    view = show(everyday(), one, two, a_pod("web-1", namespace="other"))
    named = a_group(selection=PodSelection((WEB,), names=frozenset({"web-2"})))

    assert [one, two] == list(view.selected_pods(a_group()))
    assert [two] == list(view.selected_pods(named))
    static = a_group(selection=StaticSelection(("a:1",)))
    assert [] == list(view.selected_pods(static))


@pytest.mark.parametrize(
    ("backend", "address"),
    [
        pytest.param(a_backend(), "10.0.0.1:8080", id="pod"),
        pytest.param(a_backend("web-2"), "", id="no such pod"),
        pytest.param(a_backend("bare"), "", id="pod without an address"),
        pytest.param(PodRef("web-1", Uid("before"), Port(80)), "", id="namesake"),
        pytest.param(StaticRef("a:1"), "a:1", id="static"),
        pytest.param(NodeRef("n1", Port(80)), "", id="no group of nodes"),
    ],
)
def test_backend_s_own_address_is_known_or_empty(
    backend: Backend, address: str
) -> None:
    """A namesake of a pod that is gone is another backend."""
    view = show(everyday(), a_pod(), a_pod("bare", address=""))

    assert address == view.backend_address(a_record(spec=a_spec(backend=backend)))


@pytest.mark.parametrize(
    ("selection", "backend", "address"),
    [
        pytest.param(
            OF_SERVICE,
            ServiceRef("web", Port(80), 30080, "n1"),
            "192.0.2.1:30080",
            id="service",
        ),
        pytest.param(OF_NODES, NodeRef("n1", Port(443)), "192.0.2.1:443", id="node"),
        pytest.param(OF_NODES, NodeRef("n2", Port(443)), "", id="no such node"),
        pytest.param(
            NodeSelection((Port(443),), address_type=AddressType.HOSTNAME),
            NodeRef("n1", Port(443)),
            "",
            id="no such address",
        ),
    ],
)
def test_node_s_own_address_is_the_one_that_its_group_asks_for(
    selection: Selection, backend: Backend, address: str
) -> None:
    """A record does not say by itself which of a node's addresses is meant."""
    view = show(everyday(), a_service(), a_node(), a_node_group(selection=selection))

    assert address == view.backend_address(a_record(spec=a_spec(backend=backend)))


def test_pods_on_their_way_in_are_found_by_group() -> None:
    """Those that have a record which is not registered, and does not end."""
    others = (
        a_record("in", spec=a_spec(backend=a_backend("in")), registered=True),
        a_record("old", spec=a_spec(backend=a_backend("old")), deleting=True),
        a_record("a", spec=a_spec(backend=StaticRef("a:1"))),
    )
    view = show(everyday(), a_record(), *others)

    assert {"web-1"} == view.pods_coming(a_key("web"))
    show(view, a_record(registered=True, version=2))
    assert set() == view.pods_coming(a_key("web"))


def test_nodes_that_are_gone_are_those_of_ending_pods() -> None:
    """A node that cannot be understood exists."""
    view = show(everyday(), a_node(1), a_node(2))
    obscure(view.nodes, a_node(2).meta.key)
    pods = [
        attrs.evolve(a_pod(f"web-{n}", deleting=True), node=node)
        for n, node in enumerate(("n1", "n2", "n3", ""))
    ]

    assert {"n3"} == view.nodes_gone(pods)
    assert set() == view.nodes_gone([attrs.evolve(a_pod(), node="n3")])
