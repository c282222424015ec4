"""The program: installs, runs the tests, uninstalls; status 1 if anything went wrong."""

import argparse
import shutil
import subprocess
import sys
import tempfile

from pathlib import Path

from tests.lab.cluster import Cluster
from tests.lab.cluster.binaries import find_binaries
from tests.lab.cluster.fixtures import running
from tests.lab.cluster.images import build_images
from tests.lab.cluster.packages import install_packages
from tests.lab.installed import envoy, install
from tests.lab.kubernetes_e2e import building
from tests.lab.kubernetes_e2e.verdict import (
    Spec,
    read_report,
    shortfall,
    unexpected,
)


FOCUS = "LoadBalancer"


def main() -> int:
    """Run; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--focus", default=FOCUS, help="regular expression of names")
    parser.add_argument("--skip", default="", help="the same, of those to leave out")
    flags = parser.parse_args()
    install_packages(_say)
    build_images(find_binaries(alone=False, say=_say), _say)
    folder = Path(tempfile.mkdtemp(prefix="lbcf-e2e-", dir="/tmp"))
    archive = building.image(folder, _say)
    with running(3) as cluster:
        cluster.load(archive)
        archive.unlink()
        _say("installing")
        envoy.deploy(cluster, folder)
        envoy.add_class(cluster, default=True)
        specs = _tested(cluster, folder, flags.focus, flags.skip)
        _keep_logs(cluster, folder)
        _say("uninstalling")
        _say(install.uninstall(cluster))
        left = install.left_over(cluster)
    if not _is_well(specs, left, is_all=(flags.focus, flags.skip) == (FOCUS, "")):
        _say(f"kept to be looked at: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _is_well(specs: list[Spec], left: list[str], *, is_all: bool) -> bool:
    """Tell what became of each test; return whether nothing is wrong."""
    for one in specs:
        _say(str(one))
    passed = sum(one.state == "passed" for one in specs)
    wrong, short = unexpected(specs), shortfall(specs, is_all=is_all)
    _say(f"specs {len(specs)}, passed {passed}, wrong {len(wrong)}, left over {left}")
    if short:
        _say(f"too few: {short}")
    return not (wrong or left or short)


def _tested(cluster: Cluster, folder: Path, focus: str, skip: str) -> list[Spec]:
    """Run the tests; return what became of each."""
    report = folder / "report.json"
    words = [
        building.built(_say) / "e2e.test",
        *("--kubeconfig", cluster.kubeconfig, "--provider", "skeleton"),
        *("--ginkgo.focus", focus, "--ginkgo.no-color", "--ginkgo.timeout", "3h"),
        *("--ginkgo.json-report", report),
        *(("--ginkgo.skip", skip) if skip else ()),
    ]
    with (folder / "tests.log").open("wb") as log:
        subprocess.run(
            cluster.command(*words),
            cwd=folder,
            env=cluster.environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        )
    return read_report(report)


def _keep_logs(cluster: Cluster, folder: Path) -> None:
    """Keep what our processes have logged."""
    for name in (*install.PROCESSES, "envoy"):
        words = ("logs", f"deployment/lbcf-{name}", "--tail=-1")
        log = cluster.kubectl(*install.SYSTEM, *words)
        (folder / f"{name}.log").write_text(log)


def _say(text: str) -> None:
    """Tell whoever watches."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
