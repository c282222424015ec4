"""The diagrams in the lifecycle's page are those of the code."""

import pytest

from tests.docs.stages import PAGE, TABLES, drawn


@pytest.mark.parametrize("name", TABLES)
def test_page_has_the_stages_as_the_code_asks_them(name: str) -> None:
    """After a change, `python -m tests.docs.stages` draws them anew."""
    assert drawn(name) in PAGE.read_text()
