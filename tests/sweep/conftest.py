"""Thousands of crashes are nothing to log, and other tests look at logs."""

from collections.abc import Iterator

import pytest
import structlog

from tests.sweep.pool import SILENT


@pytest.fixture(autouse=True)
def _silent() -> Iterator[None]:
    """Nothing but what is critical is logged while a test of the sweep runs."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(SILENT))
    yield
    structlog.configure(**before)
