"""Who a whole object is about, as drivers send them back."""

import pytest

from lbcf.core.operations import Operation
from lbcf.core.values import ObjectKey
from lbcf.wire.driver import Malformed, parse_answer
from lbcf.wire.driver_answers import JudgePodDeregisterAnswer
from lbcf.wire.whole import key_of_whole


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
    assert key == key_of_whole(whole, "shop")


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
