"""Thousands of crashes are nothing to log, and leave much garbage behind."""

from collections.abc import Iterator

import pytest

from tests.lab.sweep.pool import collected_seldom, silenced


@pytest.fixture(autouse=True)
def _silent_and_quick() -> Iterator[None]:
    """Nothing but what is critical is logged, and little time spent on what runs leave behind."""
    with silenced(), collected_seldom():
        yield
