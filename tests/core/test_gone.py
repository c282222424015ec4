"""Nobody is at a record's address any more: only what is certain counts."""

import attrs
import pytest

from lbcf.core.model.cluster import Pod
from lbcf.core.model.nodes import Node, NodePortService, NodeStatusAddress, ServicePort
from lbcf.core.model.resources import DrainProgress, RecordStatus, StaticRef
from lbcf.core.model.values import Port, Uid
from lbcf.core.selection.location import (
    is_node_gone,
    is_pod_gone,
    is_port_gone,
    may_be_marked,
)
from tests.builders import START, a_key, a_meta, a_pod, a_record, a_spec
from tests.node_builders import a_node, a_node_record


WAITING = RecordStatus(drain=DrainProgress(START, START))
SPEC = attrs.evolve(a_spec(), host="10.0.0.1")
DRAINING = a_record(spec=SPEC, status=WAITING, registered=True, deleting=True)
NODE = attrs.evolve(a_node_record(1).spec, host="192.0.2.1", node_uid=a_node().meta.uid)
ON_NODE = attrs.evolve(a_node_record(1), spec=NODE)


def test_only_a_drain_that_waits_is_marked() -> None:
    """One that ends at once costs no write, and a static address is nobody's to judge."""
    marked = attrs.evolve(WAITING, backend_gone=True)
    static = attrs.evolve(SPEC, backend=StaticRef("192.0.2.7:1"))

    assert may_be_marked(DRAINING)
    for other in (
        attrs.evolve(DRAINING, status=RecordStatus()),
        attrs.evolve(DRAINING, status=marked),
        attrs.evolve(DRAINING, spec=static),
        a_record(spec=SPEC, status=WAITING, registered=True),
        a_record(spec=SPEC, status=WAITING, deleting=True, held=False),
    ):
        assert not may_be_marked(other)


@pytest.mark.parametrize(
    ("pod", "gone"),
    [
        pytest.param(None, True, id="none"),
        pytest.param(a_pod(), False, id="there"),
        pytest.param(a_pod(ready=False), False, id="unready"),
        pytest.param(a_pod(deleting=True), False, id="terminating"),
        pytest.param(a_pod(uid="other"), True, id="namesake"),
        pytest.param(a_pod(phase="Failed"), True, id="ended"),
        pytest.param(a_pod(address="10.0.0.9"), True, id="elsewhere"),
        pytest.param(a_pod(address=""), False, id="nowhere yet"),
    ],
)
def test_pod(pod: Pod | None, *, gone: bool) -> None:
    """A pod that terminates serves until it is gone."""
    assert is_pod_gone(DRAINING, pod) == gone


def test_pod_of_a_record_that_does_not_say_where_it_was() -> None:
    """Its uid is all there is to go by."""
    legacy = attrs.evolve(DRAINING, spec=a_spec())

    assert not is_pod_gone(legacy, a_pod(address="10.0.0.9"))
    assert is_pod_gone(legacy, None)


@pytest.mark.parametrize(
    ("node", "gone"),
    [
        pytest.param(None, True, id="none"),
        pytest.param(a_node(), False, id="there"),
        pytest.param(a_node(deleting=True), False, id="being deleted"),
        pytest.param(
            a_node(addresses=(NodeStatusAddress("InternalIP", "192.0.2.9"),)),
            True,
            id="elsewhere",
        ),
        pytest.param(
            attrs.evolve(a_node(), meta=attrs.evolve(a_node().meta, uid=Uid("x"))),
            True,
            id="namesake",
        ),
    ],
)
def test_node(node: Node | None, *, gone: bool) -> None:
    """As long as it exists under its address, somebody may be served by it."""
    assert is_node_gone(ON_NODE, node) == gone


def test_node_port_of_another_service() -> None:
    """The API server gives it away as soon as the Service has it no more."""

    def with_port(number: int) -> NodePortService:
        """Make the Service with a node port."""
        port = ServicePort("", Port(80), number)
        return NodePortService(a_meta(a_key("web").name), "NodePort", (port,))

    assert not is_port_gone(ON_NODE, with_port(30080))
    assert is_port_gone(ON_NODE, with_port(31000))
    assert is_port_gone(ON_NODE, None)


def test_node_that_tells_no_address_is_there() -> None:
    """It may just have come up."""
    assert not is_node_gone(ON_NODE, a_node(addresses=()))
