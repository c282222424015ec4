"""docs/sdk.md is what the docstrings of the SDK say, and has all that is public."""

from lbcf import sdk
from lbcf.conformance import docstrings
from tests.docs import sdk as page


def test_page_is_made_of_the_docstrings() -> None:
    """Written by `python -m tests.docs.sdk`."""
    text = page.PAGE.read_text()

    assert text == page.rendered(), "python -m tests.docs.sdk writes the page anew"


def test_each_public_name_has_one_place() -> None:
    """What can be imported is explained, and nothing else is."""
    placed = [name for names in page.SECTIONS.values() for name in names]

    assert sorted(sdk.__all__) == sorted(placed), (
        f"each name of lbcf.sdk needs a section in {page.__name__}.SECTIONS"
    )


def test_words_for_all_are_needed() -> None:
    """A field that its class explains is explained there alone."""
    kinds = [one for one in vars(sdk).values() if isinstance(one, type)]
    unexplained = {
        field
        for kind in kinds
        for field in page.own_fields(kind)
        if field not in docstrings.fields(kind)
    }

    assert set(page.SHARED) == unexplained, f"compare {page.__name__}.SHARED"
