"""Who a whole object is about, as drivers send them back."""

import pytest

from lbcf.core.model.operations import Operation
from lbcf.core.model.values import ObjectKey
from lbcf.wire.driver import Malformed, parse_answer
from lbcf.wire.driver_answers import JudgePodDeregisterAnswer
from lbcf.wire.raw_object import key_of_raw_object, node_address_fields


@pytest.mark.parametrize(
    ("whole", "key"),
    [
        ({"metadata": {"name": "a", "namespace": "n"}}, ObjectKey("n", "a")),
        ({"metadata": {"name": "a"}}, ObjectKey("shop", "a")),
        ({"Metadata": {"NAME": "a", "Namespace": "n"}}, ObjectKey("n", "a")),
        ({"metadata": {"name": ""}}, None),
        ({"metadata": "a"}, None),
        ({"name": "a"}, None),
        ({}, None),
    ],
)
def test_object_says_who_it_is_about(
    whole: dict[str, object], key: ObjectKey | None
) -> None:
    """Its fields may be in any letter case; without a name it says nothing."""
    assert key == key_of_raw_object(whole, "shop")


NODE: dict[str, object] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "n1",
        "uid": "u",
        "labels": {"tenant": "bank"},
        "annotations": {"kubeadm.alpha.kubernetes.io/cri-socket": "unix:///run/c.sock"},
    },
    "spec": {"providerID": "aws:///z/i-1", "podCIDR": "10.0.0.0/24", "taints": []},
    "status": {
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "images": [{"names": ["registry/secret-project:1"]}],
        "nodeInfo": {"kernelVersion": "6.1"},
    },
}


def test_of_a_node_only_its_place_is_told() -> None:
    """Its name, its addresses and what it is at its cloud."""
    assert {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "spec": {"providerID": "aws:///z/i-1"},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
    } == node_address_fields(NODE)


def test_what_a_node_does_not_say_is_not_told() -> None:
    """One that has just come has neither addresses nor a providerID."""
    bare: dict[str, object] = {"metadata": {"name": "n1"}, "spec": {}, "status": None}

    assert {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}} == (
        node_address_fields(bare)
    )


def test_pods_come_back_as_objects_or_as_strings_that_hold_them() -> None:
    """LBCF's code sends objects, its document shows strings."""
    body = b'{"Succ": true, "DoNotDeregister": [{"a": 1}, "{\\"b\\": 2}"]}'

    answer = parse_answer(Operation.JUDGE_POD_DEREGISTER, body)

    assert isinstance(answer, JudgePodDeregisterAnswer)
    assert [{"a": 1}, {"b": 2}] == list(answer.do_not_deregister)


@pytest.mark.parametrize("entry", ["1", '"web-1"', '"[1]"'])
def test_pod_that_is_no_object_spoils_the_answer(entry: str) -> None:
    """An answer that is understood in part is not understood."""
    body = f'{{"succ": true, "doNotDeregister": [{entry}]}}'.encode()

    with pytest.raises(Malformed):
        parse_answer(Operation.JUDGE_POD_DEREGISTER, body)
