"""Fixtures of all plays."""

from collections.abc import Iterator

import pytest

from tests.lab.sweep.pool import silenced


@pytest.fixture(autouse=True)
def _silent() -> Iterator[None]:
    """Log nothing while a play runs: thousands of objects hang."""
    with silenced():
        yield
