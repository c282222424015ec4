"""A sample of the script on three real nodes; `make nodes` runs all of it."""

from pathlib import Path

import pytest

from tests.lab.nodes.__main__ import run
from tests.lab.nodes.script import SAMPLE


pytestmark = [
    pytest.mark.nodes,
    pytest.mark.haproxy,
    pytest.mark.cluster,
    pytest.mark.long,
]


async def test_nodes_come_and_go_without_a_failed_request(tmp_path: Path) -> None:
    """Cordons cost nothing; a tainted node is drained, and comes back."""
    bench, damage = await run(SAMPLE, tmp_path)

    failed = {
        event.name: h.failed for event, h in zip(bench.events, damage, strict=True)
    }

    assert [] == bench.troubles
    assert {} == {name: first[:3] for name, first in failed.items() if first}
    assert all(hurt.requests for hurt in damage)
