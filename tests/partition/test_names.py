"""Host names that hang, in namespaces with a name server and an /etc/resolv.conf of their own."""

import json
import sys

from pathlib import Path

import pytest

from tests.cluster.commands import run


RESOLV_CONF = """\
search web.svc.cluster.test svc.cluster.test cluster.test
nameserver 127.0.0.1
options ndots:5
"""
SETUP = """\
ip link set lo up
mount --bind "$1/resolv.conf" /etc/resolv.conf
mount --bind "$1/hosts" /etc/hosts
shift
exec "$@"
"""

pytestmark = pytest.mark.nodes


def test_names_that_hang_delay_nobody_elses(tmp_path: Path) -> None:
    """Sixteen hang; names by search domains, by /etc/hosts and in full are found meanwhile."""
    (tmp_path / "resolv.conf").write_text(RESOLV_CONF)
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n127.0.0.1 neighbour\n")
    program = [sys.executable, "-m", "tests.partition.names"]
    inside = ("sh", "-ec", SETUP, "sh", tmp_path)

    good, hanging = json.loads(
        run("unshare", "--net", "--mount", "--", *inside, *program)
    )

    assert ["Succ"] * 3 == good
    assert "Succ" not in hanging
