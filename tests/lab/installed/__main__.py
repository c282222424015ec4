"""The program: installs, stirs under load, uninstalls; status 1 if anything failed."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from pathlib import Path

import attrs

from tests.lab.cluster import Cluster
from tests.lab.cluster.binaries import find_binaries
from tests.lab.cluster.fixtures import QUICK_FAILURES, running
from tests.lab.cluster.images import build_images
from tests.lab.cluster.packages import install_packages
from tests.lab.demo.traffic import FailedRequest
from tests.lab.installed import acts, images, install, traces, verdict
from tests.lab.installed.install import SYSTEM
from tests.lab.installed.witness import Witness, told_about, watching
from tests.lab.traced.corruptions import CORRUPTIONS, misjudged
from tests.lab.traced.judge import told


RATE = "60"  # requests per second
AT_MOST = "1800"  # seconds; it ends when its standard input is closed
BETWEEN = 5.0
TOLD = "told.jsonl"
SHOWN = 10  # failed requests that are told at length on the screen


def main() -> int:
    """Run; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    install_packages(_say)
    build_images(find_binaries(alone=False, say=_say), _say)
    folder = Path(tempfile.mkdtemp(prefix="lbcf-installed-", dir="/tmp"))
    with running(3, attrs.evolve(QUICK_FAILURES, audit_bodies=True)) as cluster:
        for archive in images.archives(folder):
            _say(f"loading {archive.name}")
            cluster.load(archive)
            archive.unlink()
        failed = _run(cluster, folder)
    if failed:
        _say(f"kept to be looked at: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _run(cluster: Cluster, folder: Path) -> bool:
    """Install, stir, uninstall; returns whether anything went wrong."""
    overlay = traces.write_overlay(folder / "first")
    _say("installing")
    install.install(cluster, overlay)
    install.add_app(cluster)
    _say(cluster.kubectl("get", "pods", "-A", "-o", "wide"))
    scene = acts.Scene(cluster, folder)
    with watching(cluster, folder) as witness:
        load = _start_load(cluster, folder)
        try:
            _stir(scene, witness)
        finally:
            requests, failures = _end_load(load, folder)
            log = cluster.kubectl(*SYSTEM, "logs", "deployment/haproxy", "--tail=-1")
        _say("uninstalling")
        _say(install.uninstall(cluster))
    (folder / "haproxy.log").write_text(log)
    lost = verdict.examine(failures, verdict.read_log(log))
    failed = verdict.unexcused(lost, scene.outages)
    _explain(failed, folder)
    left = install.left_over(cluster)
    _say(
        f"requests {requests}, failed {len(failed)}, with pods of a node without power "
        f"{len(lost) - len(failed)}, left over {left}"
    )
    followed = traces.follow(cluster, folder, witness)
    _say(told(followed))
    refused = followed.refusal is not None or not followed.steps
    return not requests or refused or bool(failed or left) or _is_misjudged(folder)


def _is_misjudged(folder: Path) -> bool:
    """Tell whether the judge lets pass what was not so: the same tape with one step changed."""
    wrong = misjudged(json.loads((folder / traces.TAPE).read_text()))
    _say(f"the same, each time with one step changed: {len(CORRUPTIONS)} times")
    _say("\n".join(wrong) or "refused each time")
    return bool(wrong)


def _start_load(cluster: Cluster, folder: Path) -> "subprocess.Popen[bytes]":
    """Send requests to HAProxy from the cluster's side of the network."""
    where = ("-o", "jsonpath={.items[0].status.podIP}")
    address = cluster.kubectl(*SYSTEM, "get", "pods", "-l", "app=haproxy", *where)
    flags = ("--address", f"{address}:8080", "--rate", RATE, "--seconds", AT_MOST)
    program = (sys.executable, "-m", "tests.lab.demo.load", *flags)
    with (folder / TOLD).open("wb") as told:
        return subprocess.Popen(
            cluster.command(*program, "--record", folder / "requests.csv"),
            cwd=install.ROOT,
            stdin=subprocess.PIPE,
            stdout=told,
        )


def _end_load(
    load: "subprocess.Popen[bytes]", folder: Path
) -> tuple[int, list[FailedRequest]]:
    """End the load; return how many requests there were, and those that failed."""
    load.communicate()
    told = [json.loads(line) for line in (folder / TOLD).read_text().splitlines()]
    failures = [FailedRequest(**one["failure"]) for one in told if "failure" in one]
    final: dict[str, int] = next(one["final"] for one in told if "final" in one)
    return final["requests"], failures


def _stir(scene: acts.Scene, witness: Witness) -> None:
    """Let everything happen that an operator's week brings."""
    for act in acts.ALL:
        name, began = act.__name__, time.monotonic()
        witness.note(f"act {name} begins")
        act(scene)
        witness.note(f"act {name} is over")
        took, load = time.monotonic() - began, os.getloadavg()[0]
        _say(f"{name}: from {began:.0f} on, {took:.0f} s, machine load {load:.1f}")
        time.sleep(BETWEEN)


def _explain(failed: list[verdict.Lost], folder: Path) -> None:
    """Tell all that is known of the requests that should not have failed."""
    story = (folder / "story.txt").read_text()
    with (folder / "failures.txt").open("w") as kept:
        for number, one in enumerate(failed):
            failure = one.failure
            ended = failure.sent + failure.took_ms / 1000
            around = told_about(story, one.member, failure.sent, ended)
            text = "\n".join([f"failed: {failure}", one.logged, *around, ""])
            kept.write(text + "\n")
            if number < SHOWN:
                _say(text)


def _say(text: str) -> None:
    """Tell whoever watches."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
