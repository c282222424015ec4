"""Label selectors: the meaning that Kubernetes gives to each operator."""

import pytest

from hypothesis import given
from hypothesis import strategies as st

from lbcf.core.model.selectors import Operator, Requirement, Selector


ABSENT: dict[str, str] = {}
RED = {"colour": "red"}
BLUE = {"colour": "blue"}
EMPTY = {"colour": ""}

LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))


@pytest.mark.parametrize(
    ("operator", "red", "blue", "empty", "absent"),
    [
        pytest.param(Operator.IN, True, False, False, False, id="In"),
        pytest.param(Operator.NOT_IN, False, True, True, True, id="NotIn"),
        pytest.param(Operator.EXISTS, True, True, True, False, id="Exists"),
        pytest.param(Operator.DOES_NOT_EXIST, False, False, False, True, id="not"),
    ],
)
def test_operator_means_what_kubernetes_says(
    operator: Operator, red: bool, blue: bool, empty: bool, absent: bool
) -> None:
    """Asked for the value red, each operator answers for all a label can be."""
    requirement = Requirement("colour", operator, frozenset({"red", "green"}))
    answers = [requirement.matches(labels) for labels in (RED, BLUE, EMPTY, ABSENT)]

    assert [red, blue, empty, absent] == answers


def test_all_labels_and_all_requirements_must_hold() -> None:
    """One part that does not match is enough to refuse."""
    requirement = Requirement("colour", Operator.IN, frozenset({"red"}))
    selector = Selector({"app": "web"}, (requirement,))

    assert selector.matches({"app": "web", "colour": "red"})
    assert not selector.matches({"app": "web", "colour": "blue"})
    assert not selector.matches({"app": "api", "colour": "red"})
    assert not selector.matches({"colour": "red"})


@given(LABELS)
def test_empty_selector_matches_everything(labels: dict[str, str]) -> None:
    """As in the API machinery, nothing asked is nothing refused."""
    assert Selector().matches(labels)


@given(LABELS, st.sampled_from("abc"), st.frozensets(st.sampled_from("xyz")))
def test_negated_operators_are_the_opposites(
    labels: dict[str, str], key: str, values: frozenset[str]
) -> None:
    """NotIn is not In, DoesNotExist is not Exists, for all labels."""

    def matches(operator: Operator) -> bool:
        return Requirement(key, operator, values).matches(labels)

    assert matches(Operator.IN) is not matches(Operator.NOT_IN)
    assert matches(Operator.EXISTS) is not matches(Operator.DOES_NOT_EXIST)


@given(LABELS, LABELS)
def test_labels_match_exactly_their_supersets(
    wanted: dict[str, str], labels: dict[str, str]
) -> None:
    """A selector asks for these pairs, and does not mind others."""
    assert (wanted.items() <= labels.items()) is Selector(wanted).matches(labels)
