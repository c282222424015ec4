"""Thousands of crashes are nothing to log, and other tests look at logs."""

from collections.abc import Iterator

import pytest

from tests.lab.sweep.pool import silenced


@pytest.fixture(autouse=True)
def _silent() -> Iterator[None]:
    """Nothing but what is critical is logged while a test of the sweep runs."""
    with silenced():
        yield
