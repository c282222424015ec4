"""Host names that hang, in namespaces with a name server and an /etc/resolv.conf of their own."""

import json

from pathlib import Path

import pytest

from tests.partition.name_server import run_with_own_names


pytestmark = pytest.mark.nodes


def test_names_that_hang_delay_nobody_elses(tmp_path: Path) -> None:
    """Sixteen hang; names by search domains, by /etc/hosts and in full are found meanwhile."""
    good, ended = json.loads(run_with_own_names(tmp_path, "tests.partition.names"))

    assert ["Succ"] * 3 == good
    assert [] == ended, "they waited for those that hang"
