"""A control plane alone: several at once, users told apart, nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time

from pathlib import Path

import pytest

from tests.cluster_tests.calls import REPOSITORY, call
from tests.lab.cluster import (
    Cluster,
    ClusterError,
    KubectlError,
    Options,
    StartError,
    up,
)
from tests.lab.cluster.lifecycle import Deadline
from tests.lab.cluster.pids import Pid
from tests.lab.cluster.waiting import running_services
from tests.patience import PATIENCE


pytestmark = pytest.mark.cluster
WAIT = f"--timeout={PATIENCE:.0f}s"


def mentions(folder: Path) -> list[str]:
    """The command lines of this machine's processes that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(folder) in words:
            found.append(words)
    return found


def await_nobody(folder: Path) -> None:
    """Wait until no process names a folder."""
    end = time.monotonic() + PATIENCE
    while mentions(folder) and time.monotonic() < end:
        time.sleep(0.02)
    assert [] == mentions(folder)


def test_two_run_side_by_side(control_plane: Cluster, tmp_path: Path) -> None:
    """Two control planes know nothing of each other's objects."""
    other = up(tmp_path / "other")
    try:
        other.kubectl("create", "namespace", "only-here")
        assert control_plane.server != other.server
        with pytest.raises(KubectlError, match='namespaces "only-here" not found'):
            control_plane.kubectl("get", "namespace", "only-here")
    finally:
        other.down()


def test_audit_log_tells_users_apart(control_plane: Cluster) -> None:
    """A write is in the log once, under the user whose kubeconfig it was made with."""
    login = control_plane.kubeconfig_for("writer")
    with control_plane.namespace() as name:
        create = ("--namespace", name, "create", "configmap", "settings")
        control_plane.kubectl(*create, kubeconfig=login)
    writes = [event for event in control_plane.audit("writer") if event.is_write]
    expected = [("create", "configmaps", name, "settings", 201)]
    assert expected == [
        (e.verb, e.resource, e.namespace, e.name, e.code) for e in writes
    ]


def test_groups_are_in_the_certificate(control_plane: Cluster) -> None:
    """A user outside the masters' group may do nothing."""
    login = control_plane.kubeconfig_for("stranger", groups=["guests"])
    with pytest.raises(KubectlError, match='User "stranger" cannot list resource'):
        control_plane.kubectl("get", "pods", kubeconfig=login)


def test_controllers_empty_namespaces(control_plane: Cluster) -> None:
    """A namespace that is deleted goes, with the objects in it."""
    with control_plane.namespace() as name:
        control_plane.kubectl("--namespace", name, "create", "configmap", "settings")
    control_plane.kubectl("wait", "--for=delete", f"namespace/{name}", WAIT)


def test_owned_objects_are_collected(control_plane: Cluster) -> None:
    """The garbage collector deletes what a deleted object owned."""
    with control_plane.namespace() as name:
        inside = ("--namespace", name)
        control_plane.kubectl(*inside, "create", "configmap", "owner")
        uid = control_plane.kubectl(
            *inside, "get", "configmap/owner", "--output=jsonpath={.metadata.uid}"
        )
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        owned = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "owned", "ownerReferences": [owner]},
        }
        control_plane.kubectl(*inside, "create", "-f", "-", stdin=json.dumps(owned))
        control_plane.kubectl(*inside, "delete", "configmap/owner")
        wait = ("wait", "--for=delete", "configmap/owned", WAIT)
        control_plane.kubectl(*inside, *wait)


def test_held_api_server_is_away_until_released(control_plane: Cluster) -> None:
    """An outage of the API server can be had, and objects outlive it."""
    control_plane.hold("kube-apiserver")
    for _ in range(120):  # longer than the pause before a service starts again
        assert "kube-apiserver" not in control_plane.services()
        time.sleep(0.01)
    with pytest.raises(KubectlError, match="refused"):
        control_plane.kubectl("get", "namespaces")
    control_plane.release("kube-apiserver")
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            assert "default" in control_plane.kubectl("get", "namespaces")
        except KubectlError:
            continue
        return
    pytest.fail("the API server did not come back")


def test_release_needs_a_hold(control_plane: Cluster) -> None:
    """What runs cannot be released."""
    with pytest.raises(ClusterError, match="etcd is not held down"):
        control_plane.release("etcd")


def test_command_line_starts_runs_and_stops(tmp_path: Path) -> None:
    """The whole life of a control plane, as a person would have it; no root needed."""
    folder, nobody = tmp_path / "run", ("unshare", "--user")
    started = call("up", "--dir", folder, "--json", before=nobody)
    summary = json.loads(started.stdout.splitlines()[-1])
    assert {"etcd", "kube-apiserver"} < set(summary["services"])
    listed = call("exec", "--dir", folder, "--", "kubectl", "get", "namespaces")
    assert "kube-system" in listed.stdout
    assert 0 == call("down", "--dir", folder, "--clean").returncode
    assert [] == mentions(folder)
    assert not folder.exists()


def test_killed_supervisor_leaves_no_service(tmp_path: Path) -> None:
    """Services end with the process they hang on; their folder can be used again."""
    first = up(tmp_path / "run")
    first.kubectl("create", "namespace", "old")
    supervisor = Pid.read(first.layout.supervisor)
    assert supervisor is not None
    assert supervisor.end(signal.SIGKILL, PATIENCE)
    await_nobody(tmp_path)
    second = up(tmp_path / "run")
    listed = second.kubectl("get", "namespaces")
    second.down()
    assert "old" not in listed


def test_down_leaves_no_process(tmp_path: Path) -> None:
    """Stopping ends every process, and stopping again is no error."""
    cluster = up(tmp_path / "run")
    services = running_services(cluster.layout).values()
    cluster.down()
    assert [] == [pid for pid in services if pid.alive()]
    assert [] == mentions(tmp_path)
    cluster.down()


def test_killed_start_leaves_nothing(tmp_path: Path) -> None:
    """When `up` is killed half-way, what it had started ends by itself."""
    argv = [
        sys.executable,
        "-m",
        "tests.lab.cluster",
        "up",
        "--dir",
        str(tmp_path / "run"),
    ]
    with subprocess.Popen(argv, cwd=REPOSITORY, stderr=subprocess.DEVNULL) as child:
        end = time.monotonic() + PATIENCE
        # A process has no command line while it is executed, and its pid is written then.
        while not mentions(tmp_path / "run/etcd"):
            assert time.monotonic() < end
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGKILL)
    await_nobody(tmp_path)


def test_failed_start_shows_the_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that fails tells the ends of the logs, and stops what ran."""
    log, complaint = tmp_path / "run/logs/kube-apiserver.log", "unknown flag"

    def none_once_it_complains(_: Deadline) -> float:
        """Be over when the API server has said why, however late that is."""
        end = time.monotonic() + PATIENCE
        while not (log.exists() and complaint in log.read_text()):
            assert time.monotonic() < end
            time.sleep(0.02)
        return 0.0

    monkeypatch.setattr(Deadline, "left", property(none_once_it_complains))
    options = Options(api_flags=["--no-such-flag"])
    with pytest.raises(StartError, match=f"{complaint}: --no-such-flag"):
        up(tmp_path / "run", options=options)
    assert [] == mentions(tmp_path)
