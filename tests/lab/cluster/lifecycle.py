"""Starts a cluster: from what was asked for to a `Cluster` that answers.

Order: prerequisites (`binaries`, `packages`, `images`), files (`layout`,
`credentials`), the background process (`supervisor`), waiting. The supervisor and
this process hold the ends of a socket, the leash: it tells how far it is, and ends
itself when this process dies before it lets go.
"""

import contextlib
import shutil
import socket
import subprocess
import sys
import time

from collections.abc import Iterator
from pathlib import Path

import attrs

from tests.lab.cluster import controlplane
from tests.lab.cluster.api import Cluster, stop
from tests.lab.cluster.binaries import Say, find_binaries
from tests.lab.cluster.cgroups import remove_groups
from tests.lab.cluster.commands import environment
from tests.lab.cluster.credentials import make_credentials
from tests.lab.cluster.errors import ClusterError, StartError
from tests.lab.cluster.images import build_images
from tests.lab.cluster.layout import CONTROL_PLANE_ADDRESS, Layout, Options, Plan
from tests.lab.cluster.pids import Pid
from tests.lab.cluster.ports import free_ports
from tests.lab.cluster.prerequisites import check_machine


REPOSITORY = Path(__file__).parents[3]
DNS = Path(__file__).parent / "manifests/coredns.yaml"
TAIL = 400  # characters of each log that a failed start shows


def _silent(_: str) -> None:
    """Tell nobody."""


@attrs.frozen
class Deadline:
    """When a start is given up: a moment of the monotonic clock, in seconds."""

    moment: float

    @property
    def left(self) -> float:
        """Seconds that are left, never negative."""
        return max(0.0, self.moment - time.monotonic())

    def flag(self) -> str:
        """The flag of kubectl for what is left."""
        return f"--timeout={max(1, round(self.left))}s"


def up(
    directory: Path | str,
    *,
    nodes: int = 0,
    options: Options | None = None,
    say: Say = _silent,
) -> Cluster:
    """Start a cluster in the background and wait until it is ready.

    Args:
        directory: A folder for its files; an old cluster's are removed from it.
        nodes: How many real nodes; 0 is the control plane alone.
        options: Everything else that can be asked for.
        say: Told each step when it is done.

    Raises:
        ClusterError: It cannot be started; nothing of it runs.
    """
    options = attrs.evolve(options or Options(), nodes=nodes)
    layout = Layout(Path(directory).absolute())
    _make_way(layout)
    plan = _plan(layout, options, say)
    layout.make()
    plan.save(layout)
    policy = controlplane.audit_policy(options)
    (layout.root / "audit-policy.yaml").write_text(policy)
    make_credentials(layout, plan)
    say("keys and certificates made")
    try:
        return _start(layout, plan, say)
    except BaseException as error:
        with contextlib.suppress(ClusterError):
            stop(layout)
        if isinstance(error, ClusterError):
            raise StartError(f"{error}\n{log_ends(layout)}") from error
        raise


def _make_way(layout: Layout) -> None:
    """Remove an old cluster's files, and nothing else.

    Raises:
        ClusterError: A cluster runs there, or the folder holds something else.
    """
    running = Pid.read(layout.supervisor)
    if running is not None and running.alive():
        raise ClusterError(
            f"a cluster runs in {layout.root} already: stop it with "
            f"`python -m tests.lab.cluster down --dir {layout.root}`, or take another --dir"
        )
    if layout.root.exists() and not layout.plan.exists():
        if not layout.root.is_dir() or any(layout.root.iterdir()):
            raise ClusterError(
                f"{layout.root} is neither empty nor a cluster's folder: "
                "take another --dir"
            )
    elif layout.root.exists():
        remove_groups(layout)  # of a cluster whose supervisor was killed
        shutil.rmtree(layout.root)
    layout.root.mkdir(parents=True, exist_ok=True)


def _plan(layout: Layout, options: Options, say: Say) -> Plan:
    """Find all that is needed and settle addresses and ports.

    Raises:
        ClusterError: Something is missing.
    """
    if options.nodes:
        check_machine(layout)
        binaries = find_binaries(alone=False, say=say)
        images = str(build_images(binaries, say))
        address, ports = CONTROL_PLANE_ADDRESS, [6443, 2379, 2380]
    else:
        images, binaries = "", find_binaries(alone=True, say=say)
        address, ports = "127.0.0.1", free_ports(3)
    api, client, peer = ports
    plan = Plan(options, str(binaries), images, address, api, (client, peer))
    if not plan.has("kube-controller-manager"):
        say(f"no kube-controller-manager in {binaries}: namespaces are not emptied")
    return plan


def _start(layout: Layout, plan: Plan, say: Say) -> Cluster:
    """Start the supervisor and see the cluster through to ready."""
    deadline = Deadline(time.monotonic() + plan.options.timeout)
    cluster = Cluster(layout, plan)
    with _supervisor(layout, plan) as leash:
        _await_api(leash, deadline)
        say("API server ready")
        if plan.options.nodes:
            _await_nodes(cluster, deadline, say)
        if plan.has("kube-controller-manager"):
            # Pods need the account; the controllers make it.
            account = "serviceaccount/default"
            cluster.kubectl("wait", "--for=create", account, deadline.flag())
        leash.sendall(b"stay")
    say("up")
    return cluster


@contextlib.contextmanager
def _supervisor(layout: Layout, plan: Plan) -> Iterator[socket.socket]:
    """Start the background process; yields this end of the leash."""
    ours, theirs = socket.socketpair()
    argv = [sys.executable, "-m", "tests.lab.cluster.supervisor", str(layout.root)]
    argv.append(str(theirs.fileno()))
    if plan.options.nodes:
        spaces = ["--mount", "--net", "--pid", "--uts", "--ipc", "--mount-proc"]
        argv = ["unshare", *spaces, "--fork", "--kill-child", *argv]
    with ours, (layout.root / "supervisor.log").open("wb") as log:
        child = subprocess.Popen(
            argv,
            cwd=REPOSITORY,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        if (pid := Pid.of(child.pid)) is not None:
            pid.write(layout.supervisor)
        # It outlives this process: keep Popen from warning that it was left behind.
        child.returncode = 0
        yield ours


def _await_api(leash: socket.socket, deadline: Deadline) -> None:
    """Wait until the supervisor tells that the API server is ready.

    Raises:
        StartError: It is not in time, or the supervisor died.
    """
    leash.settimeout(max(deadline.left, 0.1))
    try:
        word = leash.recv(16)
    except TimeoutError:
        raise StartError("the API server was not ready in time") from None
    if not word:
        raise StartError("the background process died")
    leash.settimeout(None)


def _await_nodes(cluster: Cluster, deadline: Deadline, say: Say) -> None:
    """Wait until every node is Ready and the DNS serves."""
    count = cluster.plan.options.nodes
    nodes = [f"node/n{number}" for number in range(1, count + 1)]
    cluster.kubectl("wait", "--for=create", "namespace/kube-system", deadline.flag())
    cluster.kubectl("apply", "-f", DNS)
    for node in nodes:
        # One at a time: where several are not there yet, kubectl fails instead of waiting.
        cluster.kubectl("wait", "--for=create", node, deadline.flag())
    cluster.kubectl("wait", "--for=condition=Ready", *nodes, deadline.flag())
    say(f"{count} nodes Ready")
    rollout = ("rollout", "status", "deployment/coredns", deadline.flag())
    cluster.kubectl("--namespace=kube-system", *rollout)
    say("DNS ready")


def log_ends(layout: Layout) -> str:
    """The ends of all logs, for a start that failed."""
    ends = []
    for path in [layout.root / "supervisor.log", *sorted(layout.logs.iterdir())]:
        text = path.read_text(errors="replace")[-TAIL:].strip()
        ends.append(f"== {path}\n{text}")
    return "\n".join(ends)
