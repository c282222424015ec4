"""What cannot be done is refused with one line that says what to do."""

from pathlib import Path

import pytest

from tests.cluster_tests.calls import call, refusal
from tests.lab.cluster import Cluster, ClusterError, MissingError
from tests.lab.cluster.cgroups import check_groups
from tests.lab.cluster.layout import Layout
from tests.lab.cluster.prerequisites import check_machine


# Makes a process whose user is nobody, where the machine's files stay readable.
NOBODY = ("unshare", "--user")


def test_missing_go_is_named(tmp_path: Path) -> None:
    """With an empty cache and no Go the line says what to install."""
    said = refusal(
        "up",
        "--dir",
        tmp_path / "run",
        LBCF_CACHE=str(tmp_path / "cache"),
        PATH=str(tmp_path),
        KUBEBUILDER_ASSETS="",
    )
    assert "no `go` on PATH" in said
    assert "install Go 1.26 or newer" in said


def test_refused_start_leaves_no_files(tmp_path: Path) -> None:
    """A start that is refused leaves its folder empty and the cache clean."""
    cache = tmp_path / "cache"
    folder = tmp_path / "run"
    path, assets = str(tmp_path / "none"), ""
    variables = {"LBCF_CACHE": str(cache), "PATH": path, "KUBEBUILDER_ASSETS": assets}
    refusal("up", "--dir", folder, before=(), **variables)
    assert [] == list(folder.iterdir())
    assert [] == [path.name for path in cache.iterdir() if path.is_dir()]


def test_incomplete_assets_are_refused(tmp_path: Path) -> None:
    """KUBEBUILDER_ASSETS must have all; the line names what it lacks."""
    (tmp_path / "etcd").touch(mode=0o755)
    assets = str(tmp_path)
    said = refusal("up", "--dir", tmp_path / "run", KUBEBUILDER_ASSETS=assets)
    assert f"KUBEBUILDER_ASSETS={tmp_path} lacks kube-apiserver, kubectl" in said


@pytest.mark.nodes
def test_nodes_without_root_are_refused(tmp_path: Path) -> None:
    """Real nodes need root, and the line offers what does not."""
    args = ("up", "--nodes", "1", "--dir", tmp_path / "run")
    assert "real nodes need root" in refusal(*args, before=NOBODY)


@pytest.mark.parametrize(
    "command",
    ["down", "status", "exec", "hold", "cut"],
)
def test_folder_without_cluster_is_refused(command: str, tmp_path: Path) -> None:
    """Every command about a cluster says where there is none."""
    more = {"exec": ["--", "true"], "hold": ["etcd"], "cut": ["1"]}.get(command, [])
    said = refusal(command, "--dir", tmp_path, *more)
    assert f"{tmp_path} holds no cluster" in said


def test_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    """A folder with somebody's files in it is refused, and stays as it is."""
    (tmp_path / "thesis.txt").write_text("years of work")
    said = refusal("up", "--dir", tmp_path)
    assert "neither empty nor a cluster's folder" in said
    assert ["thesis.txt"] == [path.name for path in tmp_path.iterdir()]


def test_missing_argument_is_named() -> None:
    """A command line that lacks the folder says so."""
    done = call("up")
    assert 2 == done.returncode
    assert "--dir" in done.stderr


def test_missing_cgroup_hierarchies_are_named() -> None:
    """A machine with cgroup v2 alone is refused, with the way round it."""
    with pytest.raises(
        MissingError, match=r"need cgroup v1, and blkio, cpu, .*nodes 0"
    ):
        check_groups([])


@pytest.mark.nodes
def test_hidden_folder_is_refused() -> None:
    """Nodes cannot see below /run of the machine, so no folder there will do."""
    with pytest.raises(ClusterError, match="below /run, which each node has its own"):
        check_machine(Layout(Path("/run/cluster-test")))


@pytest.mark.cluster
def test_running_cluster_is_not_started_again(control_plane: Cluster) -> None:
    """A second start in the same folder is refused, and the first runs on."""
    root = control_plane.layout.root
    assert f"a cluster runs in {root} already" in refusal("up", "--dir", root)
    assert "default" in control_plane.kubectl("get", "namespaces")


@pytest.mark.cluster
def test_unknown_service_is_refused(control_plane: Cluster) -> None:
    """A service that does not run cannot be held; the line lists those that do."""
    said = refusal("hold", "--dir", control_plane.layout.root, "kubelet")
    assert "there is no service kubelet here (running: etcd, kube-apiserver" in said


@pytest.mark.cluster
def test_unknown_node_is_refused(control_plane: Cluster) -> None:
    """A control plane alone has no nodes to cut off."""
    said = refusal("cut", "--dir", control_plane.layout.root, "1")
    assert "there is no node 1: this cluster has 0" in said


@pytest.mark.cluster
def test_unknown_command_is_refused(control_plane: Cluster) -> None:
    """A program that is not there is one line, no traceback."""
    root = control_plane.layout.root
    assert "nonsense: no such command" in refusal(
        "exec", "--dir", root, "--", "nonsense"
    )
