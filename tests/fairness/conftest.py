"""Fixtures of all plays."""

import pytest

from tests.sweep.pool import silence


@pytest.fixture(autouse=True)
def _silent() -> None:
    """Log nothing: thousands of objects hang."""
    silence()
