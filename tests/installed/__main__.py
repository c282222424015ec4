"""The program: installs, stirs under load, uninstalls; status 1 if anything failed."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time

from pathlib import Path

from tests.cluster import Cluster
from tests.cluster.binaries import find_binaries
from tests.cluster.fixtures import running
from tests.cluster.images import build_images
from tests.cluster.packages import install_packages
from tests.installed import images, install
from tests.installed.install import SYSTEM, WAIT


RATE = "60"  # requests per second
AT_MOST = "900"  # seconds; it ends when its standard input is closed
BETWEEN = 5.0
TOLD = "told.jsonl"


def main() -> int:
    """Run; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    install_packages(_say)
    build_images(find_binaries(alone=False, say=_say), _say)
    folder = Path(tempfile.mkdtemp(prefix="lbcf-installed-", dir="/tmp"))
    with running(3) as cluster:
        for archive in images.archives(folder):
            _say(f"loading {archive.name}")
            cluster.load(archive)
        return _run(cluster, folder)


def _run(cluster: Cluster, folder: Path) -> int:
    """Install, stir, uninstall."""
    overlay = install.write_overlay(folder)
    _say("installing")
    install.install(cluster, overlay)
    install.add_app(cluster)
    _say(cluster.kubectl("get", "pods", "-A", "-o", "wide"))
    load = _start_load(cluster, folder)
    try:
        _stir(cluster)
    finally:
        final = _end_load(load, folder)
    _say("uninstalling")
    install.uninstall(cluster, overlay)
    left = install.left_over(cluster)
    _say(f"requests {final['requests']}, failed {final['failed']}, left over {left}")
    if not final["requests"] or final["failed"] or left:
        _say(f"kept to be looked at: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _start_load(cluster: Cluster, folder: Path) -> "subprocess.Popen[bytes]":
    """Send requests to HAProxy from the cluster's side of the network."""
    where = ("-o", "jsonpath={.items[0].status.podIP}")
    address = cluster.kubectl(*SYSTEM, "get", "pods", "-l", "app=haproxy", *where)
    flags = ("--address", f"{address}:8080", "--rate", RATE, "--seconds", AT_MOST)
    program = (sys.executable, "-m", "tests.demo.load", *flags)
    with (folder / TOLD).open("wb") as told:
        return subprocess.Popen(
            cluster.command(*program, "--record", folder / "requests.csv"),
            cwd=install.ROOT,
            stdin=subprocess.PIPE,
            stdout=told,
        )


def _end_load(load: "subprocess.Popen[bytes]", folder: Path) -> dict[str, int]:
    """End the load; return what it counted."""
    load.communicate()
    told = [json.loads(line) for line in (folder / TOLD).read_text().splitlines()]
    for one in told:
        if "failure" in one:
            _say(f"failed: {one['failure']}")
    final: dict[str, int] = next(one["final"] for one in told if "final" in one)
    return final


def _stir(cluster: Cluster) -> None:
    """Let everything happen that an operator's week brings."""
    for what in (_roll_web, _kill_leaders, _drain_leader, _roll_ours, _roll_web):
        began = time.monotonic()
        what(cluster)
        took = time.monotonic() - began
        _say(f"{what.__name__.strip('_')}: from {began:.0f} on, {took:.0f} s")
        time.sleep(BETWEEN)


def _roll_web(cluster: Cluster) -> None:
    """Replace all pods of the web app."""
    cluster.kubectl("-n", "shop", "rollout", "restart", "deployment/web")
    cluster.kubectl("-n", "shop", "rollout", "status", "deployment/web", WAIT)


def _kill_leaders(cluster: Cluster) -> None:
    """Kill both leaders, and roll the web app at the same moment."""
    leaders = [_leader(cluster, name) for name in ("controller", "deregistrar")]
    force = ("--force", "--grace-period=0", "--wait=false")
    cluster.kubectl(*SYSTEM, "delete", "pods", *leaders, *force)
    _roll_web(cluster)


def _drain_leader(cluster: Cluster) -> None:
    """Drain the node of the controller's leader, unless HAProxy itself is on it."""
    where = ("-o", "jsonpath={.spec.nodeName}")
    node = cluster.kubectl(
        *SYSTEM, "get", "pod", _leader(cluster, "controller"), *where
    )
    node = node if node != "n1" else "n2"
    cluster.kubectl(
        "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", WAIT
    )
    cluster.kubectl("uncordon", node)


def _roll_ours(cluster: Cluster) -> None:
    """Replace all pods of ours, as an upgrade does, and the web app's beside."""
    names = [f"deployment/lbcf-{n}" for n in ("controller", "deregistrar", "admission")]
    cluster.kubectl(*SYSTEM, "rollout", "restart", *names)
    _roll_web(cluster)
    for name in names:
        cluster.kubectl(*SYSTEM, "rollout", "status", name, WAIT)


def _leader(cluster: Cluster, process: str) -> str:
    """Name the pod that leads."""
    where = ("-o", "jsonpath={.spec.holderIdentity}")
    lease = cluster.kubectl(*SYSTEM, "get", "lease", f"lbcf-{process}", *where)
    return lease.partition("_")[0]


def _say(text: str) -> None:
    """Tell whoever watches."""
    print(text, flush=True)


sys.exit(main())
