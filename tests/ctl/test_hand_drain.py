"""What is drained by hand is told with the reason that somebody gave."""

import attrs

from lbcf.core.model.names import ANNOTATION_DRAIN
from lbcf.core.reasons import Reason
from lbcf.core.selection.hand_drain import said_of
from lbcf.ctl.backends import why_node, why_pod
from lbcf.ctl.groups import why_group
from lbcf.ctl.status import status_report
from tests.builders import a_group, a_pod
from tests.ctl.readings import NOW, a_reading
from tests.node_builders import OF_NODES, a_node


WHY = {ANNOTATION_DRAIN: "a new disk"}
SAID = "drained by hand: a new disk"


def test_pod_says_why_it_is_out() -> None:
    """Its own annotation, or that of its node."""
    pod = attrs.evolve(a_pod(), node="n1")
    own = attrs.evolve(pod, meta=attrs.evolve(pod.meta, annotations=WHY))
    node = a_node()
    node = attrs.evolve(node, meta=attrs.evolve(node.meta, annotations=WHY))

    for one, reading in ((own, a_reading(own)), (pod, a_reading(pod, node))):
        assert SAID in why_pod(reading, one.meta.key, one, NOW).headline


def test_node_says_why_it_is_out() -> None:
    """As a backend of its own."""
    node = a_node()
    node = attrs.evolve(node, meta=attrs.evolve(node.meta, annotations=WHY))
    group = attrs.evolve(a_group(version=2), selection=OF_NODES)

    assert SAID in why_node(a_reading(group, node), "n1", NOW).headline


def test_group_and_status_tell_of_it() -> None:
    """It is easily forgotten."""
    group = a_group(version=2)
    said = said_of(["node n1: a new disk"], group.meta.generation)
    told = attrs.evolve(group.status, conditions=(said,), observed_generation=1)
    group = attrs.evolve(group, status=told)
    reading = a_reading(group)
    problems = status_report(reading, (), NOW).problems

    assert "node n1: a new disk" in why_group(reading, group, NOW).headline
    assert Reason.DRAINED_BY_HAND in {problem.reason for problem in problems}
