"""Kinds of the Prometheus operator: the CRDs that its own releases ship.

They are files in the operator's Go module. `python -m tests.lab.cluster build` fetches the
module once and keeps the two kinds that manifests/monitoring has objects of, so that
tests can lay these before a real API server.
"""

import json
import os
import shutil
import subprocess

from pathlib import Path

from tests.lab.cluster.binaries import Say, cache_folder, check_go, made_once
from tests.lab.cluster.errors import ClusterError


MODULE = "github.com/prometheus-operator/prometheus-operator"
VERSION = "v0.85.0"
SUM = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
"""What go.sum would have of it."""
FILES = tuple(
    f"monitoring.coreos.com_{plural}.yaml"
    for plural in ("podmonitors", "prometheusrules")
)
_FOLDER = Path("example", "prometheus-operator-crd")


def operator_kinds(say: Say) -> Path:
    """The folder of these CRDs, fetched now if need be.

    Raises:
        MissingError: There is no Go.
        ClusterError: The module cannot be had, or is not the one that was meant.
    """
    folder = cache_folder() / f"prometheus-operator-{VERSION}"
    with made_once(folder, say) as fresh:
        if fresh is not None:
            check_go()
            say(f"fetching the kinds of the Prometheus operator {VERSION}")
            module = _downloaded()
            for name in FILES:
                shutil.copyfile(module / _FOLDER / name, fresh / name)
    return folder


def _downloaded() -> Path:
    """The module's folder in Go's own cache.

    Raises:
        ClusterError: It cannot be had, or is not the one that was meant.
    """
    argv = ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    done = subprocess.run(
        argv,
        env={**os.environ, "GOFLAGS": "-mod=mod"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(done.stdout or "{}")
    if done.returncode:
        raise ClusterError(
            f"`{' '.join(argv)}` failed: {told.get('Error') or done.stderr[-1500:]}"
        )
    if told["Sum"] != SUM:
        raise ClusterError(f"{MODULE}@{VERSION} has the sum {told['Sum']}, not {SUM}")
    return Path(told["Dir"])
