"""Equal values become one value, and no two different ones do."""

from hypothesis import given
from hypothesis import strategies as st

from lbcf.wire.metadata import NOTHING, interned_map, interned_texts


MAPS = st.dictionaries(st.text(), st.text())


@given(MAPS)
def test_equal_maps_are_the_same_map(found: dict[str, str]) -> None:
    """Whatever is in them."""
    first, second = interned_map(dict(found)), interned_map(dict(found))

    assert found == first
    assert first is second


@given(MAPS)
def test_shared_map_is_not_the_one_that_was_given(found: dict[str, str]) -> None:
    """Who writes into his own afterwards changes nobody else's."""
    shared = interned_map(found)
    expected = dict(found)

    found["later"] = "x"

    assert expected == shared or "later" in expected


def test_nothing_is_one_empty_map() -> None:
    """Also where the API server leaves the field out."""
    assert NOTHING is interned_map(None) is interned_map({})


@given(st.lists(st.text()))
def test_equal_texts_are_the_same_tuple(texts: list[str]) -> None:
    """Finalizers above all."""
    assert tuple(texts) == interned_texts(texts)
    assert interned_texts(list(texts)) is interned_texts(list(texts))
