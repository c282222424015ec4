"""The command line: `python -m tests.lab.cluster COMMAND`.

Words in, calls of `lifecycle` and `api` out. A `ClusterError` is one line on stderr
and exit code 2; steps are told on stderr with the seconds since the start.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import time

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.lab.cluster.api import Cluster, stop
from tests.lab.cluster.binaries import Say, build_binaries
from tests.lab.cluster.errors import ClusterError
from tests.lab.cluster.images import build_images
from tests.lab.cluster.kinds import operator_kinds
from tests.lab.cluster.layout import Layout, Options, Plan
from tests.lab.cluster.lifecycle import up
from tests.lab.cluster.packages import install_packages
from tests.lab.cluster.unpacked import promtool


Command = Callable[[argparse.Namespace], None]


def main(argv: Sequence[str]) -> int:
    """Run one command; returns the exit code."""
    parsed = parser().parse_args(argv)
    command: Command = parsed.command
    try:
        command(parsed)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def parser() -> argparse.ArgumentParser:
    """All commands and their arguments."""
    root = argparse.ArgumentParser(
        prog="python -m tests.lab.cluster",
        description="A real Kubernetes cluster on this machine, from packages alone.",
    )
    commands = root.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Command, text: str) -> argparse.ArgumentParser:
        """Add a command; all but two of them are about a cluster's folder."""
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(command=command, verb=name)
        if name not in {"build", "packages"}:
            folder = "the cluster's folder"
            added.add_argument("--dir", type=Path, required=True, help=folder)
        return added

    _add_start(add("up", _up, "start a cluster in the background"))
    clean = add("down", _down, "stop a cluster")
    clean.add_argument("--clean", action="store_true", help="remove its folder too")
    run = add("exec", _exec, "run a command with its KUBECONFIG, in its network")
    run.add_argument("--node", type=int, metavar="K", help="in all of node K instead")
    run.add_argument("argv", nargs="+", metavar="CMD", help="the command, after --")
    status = add("status", _status, "tell what runs")
    status.add_argument("--json", action="store_true", help="as one JSON object")
    _add_failures(add)
    add("build", _build, "build binaries and images, or find them in the cache")
    add("packages", _packages, "install missing Debian packages")
    return root


def _add_start(up_: argparse.ArgumentParser) -> None:
    """The arguments of `up`."""
    up_.add_argument("--nodes", type=_count, default=0, metavar="N", help="0: no root")
    up_.add_argument("--json", action="store_true", help="last line: a JSON object")
    up_.add_argument("--timeout", type=float, default=120, metavar="SECONDS")
    up_.add_argument("--lease", type=_count, default=40, metavar="SECONDS")
    up_.add_argument("--proxy-mode", default="nftables", choices=_MODES)
    for name, program in _FLAGS.items():
        text = f"one more flag for {program}, as --{name}=--flag=...; repeatable"
        up_.add_argument(f"--{name}", action="append", default=[], help=text)
    up_.add_argument("--foreground", action="store_true", help="stop it on ^C")


_MODES = ("nftables", "iptables")
_FLAGS = {
    "api-flag": "kube-apiserver",
    "controller-flag": "kube-controller-manager",
    "kubelet-flag": "every kubelet",
}


def _add_failures(add: Callable[..., argparse.ArgumentParser]) -> None:
    """The commands that do harm to nodes and services, and undo it."""
    for name, text in {
        "power-off": "take a node's power: all its processes end at once",
        "power-on": "give it power again; it comes up empty",
        "cut": "pull a node's network cable; its pods run on",
        "join": "put the cable in again",
    }.items():
        add(name, _on_node, text).add_argument("node", type=int, metavar="NODE")
    for name, text in {
        "hold": "kill a service and keep it down",
        "release": "let it start again",
    }.items():
        added = add(name, _on_service, text)
        added.add_argument("--node", type=int, metavar="K", help="a service of node K")
        added.add_argument("service", help="kubelet, containerd, kube-apiserver, ...")
    added = add("load", _load, "import an image archive on every node")
    added.add_argument("archive", type=Path)


def _count(text: str) -> int:
    """A number that is not negative."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is negative")
    return number


def _steps() -> Say:
    """Tells steps on stderr with the seconds since now."""
    start = time.monotonic()

    def say(step: str) -> None:
        seconds = time.monotonic() - start
        print(f"{seconds:6.1f}s  {step}", file=sys.stderr, flush=True)

    return say


def _up(parsed: argparse.Namespace) -> None:
    """Start a cluster; the last line says how to use it."""
    options = Options(
        timeout=parsed.timeout,
        lease=parsed.lease,
        api_flags=parsed.api_flag,
        controller_flags=parsed.controller_flag,
        kubelet_flags=parsed.kubelet_flag,
        proxy_mode=parsed.proxy_mode,
    )
    cluster = up(parsed.dir, nodes=parsed.nodes, options=options, say=_steps())
    if parsed.json:
        print(json.dumps(_summary(cluster)), flush=True)
    elif parsed.nodes:
        root = cluster.layout.root
        print(f"python -m tests.lab.cluster exec --dir {root} -- kubectl get nodes")
    else:
        print(f"export KUBECONFIG={cluster.kubeconfig}", flush=True)
    if parsed.foreground:
        _stay(cluster)


def _stay(cluster: Cluster) -> None:
    """Wait for ^C or SIGTERM and stop the cluster."""
    ending = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    signal.sigwait(ending)
    cluster.down()


def _summary(cluster: Cluster) -> dict[str, object]:
    """What programs want to know of a cluster."""
    return {
        "dir": str(cluster.layout.root),
        "kubeconfig": str(cluster.kubeconfig),
        "server": cluster.server,
        "audit_log": str(cluster.audit_log),
        "binaries": cluster.plan.binaries,
        "nodes": cluster.plan.options.nodes,
        "services": cluster.services(),
    }


def _down(parsed: argparse.Namespace) -> None:
    """Stop a cluster; one that does not run any more is all right."""
    layout = Layout(parsed.dir.absolute())
    Plan.load(layout)
    stop(layout)
    if parsed.clean:
        shutil.rmtree(layout.root)


def _exec(parsed: argparse.Namespace) -> None:
    """Become the command."""
    cluster = Cluster.attach(parsed.dir)
    words = cluster.command(*parsed.argv, node=parsed.node)
    environment = cluster.environment()
    program = shutil.which(words[0], path=environment["PATH"])
    if program is None:
        raise ClusterError(f"{words[0]}: no such command")
    os.execve(program, words, environment)  # noqa: S606  # that is the point


def _status(parsed: argparse.Namespace) -> None:
    """Tell what runs."""
    cluster = Cluster.attach(parsed.dir)
    if parsed.json:
        print(json.dumps(_summary(cluster)))
        return
    print(f"server  {cluster.server}")
    for name, pid in cluster.services().items():
        print(f"{pid:7} {name}")


def _on_node(parsed: argparse.Namespace) -> None:
    """Do to a node what the command is called."""
    node = Cluster.attach(parsed.dir).node(parsed.node)
    getattr(node, parsed.verb.replace("-", "_"))()


def _on_service(parsed: argparse.Namespace) -> None:
    """Hold or release a service of the control plane, or of a node."""
    cluster = Cluster.attach(parsed.dir)
    owner = cluster if parsed.node is None else cluster.node(parsed.node)
    getattr(owner, parsed.verb)(parsed.service)


def _load(parsed: argparse.Namespace) -> None:
    """Bring an image archive to all nodes."""
    Cluster.attach(parsed.dir).load(parsed.archive)


def _build(_: argparse.Namespace) -> None:
    """Build what is not in the cache; tell where it is."""
    say = _steps()
    binaries = build_binaries(say)
    print(binaries)
    print(build_images(binaries, say))
    operator_kinds(say)


def _packages(_: argparse.Namespace) -> None:
    """Install what is missing."""
    say = _steps()
    install_packages(say)
    promtool(say)
