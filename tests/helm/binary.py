"""Helm itself, built once of its Go module and kept beside the cluster's binaries."""

import os
import subprocess

from pathlib import Path

from tests.cluster.binaries import Say, cache_folder, check_go, made_once
from tests.cluster.errors import ClusterError


VERSION = "v3.22.0"
MODULE = "helm.sh/helm/v3"
# Helm takes `helm template`'s Kubernetes version from how it was linked.
KUBERNETES = {"k8sVersionMajor": "1", "k8sVersionMinor": "36"}


def find_helm(say: Say) -> Path:
    """Return the program, built now if need be.

    Raises:
        MissingError: There is no Go.
        ClusterError: The build failed.
    """
    stamps = [
        f"-X {MODULE}/pkg/{package}.{name}={text}"
        for package in ("lint/rules", "chartutil")
        for name, text in KUBERNETES.items()
    ]
    folder = cache_folder() / f"helm-{VERSION}"
    with made_once(folder, say) as fresh:
        if fresh is not None:
            check_go()
            say(f"building Helm {VERSION}, once: a minute or two")
            _install(fresh, " ".join(["-s", "-w", *stamps]))
    return folder / "helm"


def _install(folder: Path, linker_flags: str) -> None:
    """Build it into a folder.

    Raises:
        ClusterError: The build failed; the text ends with what Go said.
    """
    argv = ["go", "install", "-trimpath", f"-ldflags={linker_flags}"]
    done = subprocess.run(
        [*argv, f"{MODULE}/cmd/helm@{VERSION}"],
        env={**os.environ, "CGO_ENABLED": "0", "GOBIN": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ClusterError(
            f"`go install` of Helm failed:\n{done.stdout[-2000:].strip()}"
        )
