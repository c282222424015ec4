"""Another tenant acts while all that one has hangs: real sockets, names and time."""

import json

from pathlib import Path

import pytest

from tests.partition.name_server import run_with_own_names


@pytest.mark.nodes
def test_another_tenant_waits_for_none_that_hangs(tmp_path: Path) -> None:
    """All of its acts come to their ends; what waits for one that hangs never does."""
    alone, beside = json.loads(run_with_own_names(tmp_path, "tests.fairness.sockets"))

    assert "driver gone" in alone
    assert alone.keys() == beside.keys()
