"""The witness on a real API server: it sees more than the first event."""

import json
import time

from pathlib import Path

import pytest

from tests.lab.cluster import Cluster
from tests.lab.installed.witness import PODS, Witness
from tests.patience import PATIENCE


pytestmark = pytest.mark.cluster

EVENTS = ("ADDED", "MODIFIED", "DELETED")


def _kinds_of_events(folder: Path, name: str) -> set[str]:
    """The kinds of events that were written down of a pod."""
    lines = [line.split() for line in (folder / "story.txt").read_text().splitlines()]
    return {words[1] for words in lines if words[2:4] == ["pod", name]}


def test_every_event_is_written_down(
    control_plane: Cluster, namespace: str, tmp_path: Path
) -> None:
    """A pod's whole life, a line each, and of two pods."""
    witness = Witness(control_plane, tmp_path, {f"pods -n {namespace}": PODS})
    witness.start()
    try:
        for name in ("a", "b"):
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"containers": [{"name": "a", "image": "a"}]},
            }
            control_plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
            where = ("-n", namespace, f"pod/{name}")
            control_plane.kubectl("label", *where, "seen=yes")
            control_plane.kubectl("delete", *where, "--wait=false")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and _kinds_of_events(tmp_path, "b") != set(EVENTS):
            time.sleep(0.1)
    finally:
        witness.end()

    assert set(EVENTS) == _kinds_of_events(tmp_path, "b")
