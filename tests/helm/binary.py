"""Helm itself, built once of its Go module and kept beside the cluster's binaries."""

from pathlib import Path

from tests.lab.cluster.binaries import Say, cache_folder, check_go, made_once, run_go


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
            flags = f"-ldflags={' '.join(['-s', '-w', *stamps])}"
            words = ["install", "-trimpath", flags, f"{MODULE}/cmd/helm@{VERSION}"]
            run_go(words, "of Helm", GOBIN=str(fresh))
    return folder / "helm"
