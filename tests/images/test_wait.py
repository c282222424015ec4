"""The waiter of pods that wait, under a real busybox, where DNS loses some questions."""

import json
import shutil
import subprocess
import sys

from pathlib import Path

import pytest


pytestmark = pytest.mark.nodes

SCRIPTS = Path(__file__).parents[2] / "images" / "wait"
CONFIG = """\
uid=6c1f
seconds=60
fallback=50
service=lbcf-gate.lbcf-system
port=11037
"""
RESOLV = "nameserver 127.0.0.1\nsearch shop.svc.cluster.local svc.cluster.local\n"


@pytest.fixture(name="container")
def _container(tmp_path: Path) -> Path:
    """A container's root with nothing in it but the waiter."""
    for name in ("lbcf-gate", "etc", "proc", "dev"):
        (tmp_path / name).mkdir()
    busybox = shutil.which("busybox")
    assert busybox, "install the package busybox-static"
    shutil.copy(busybox, tmp_path / "lbcf-gate")
    shutil.copy(SCRIPTS / "wait", tmp_path / "lbcf-gate")
    (tmp_path / "lbcf-gate/config").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "etc/resolv.conf").write_text(RESOLV, encoding="utf-8")
    return tmp_path


def test_lost_dns_question_is_not_waited_for(container: Path) -> None:
    """A question is never sent again from its port: kube-proxy has that go to the same server."""
    argv = ["unshare", "--net", "--mount", sys.executable, "-m"]
    argv += ["tests.images.waiting_ground", str(container)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    questions = [tuple(rest) for what, *rest in told if what == "dns"]
    assert {kind for kind, _ in questions} == {1, 28}
    assert len(set(questions)) == len(questions)
    assert told[-1][0] == "gate"
    assert told[-1][1].startswith("/v1/pods/6c1f/drained?timeoutSeconds=")
