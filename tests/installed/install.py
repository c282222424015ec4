"""Installs from the manifests, and takes everything away again, as docs/install.md says."""

import contextlib
import os
import time

from pathlib import Path

import yaml

from images.table import IMAGES
from tests.cluster import Cluster
from tests.cluster.errors import KubectlError


ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
OBJECTS = Path(__file__).with_name("objects.yaml")
SYSTEM = ("-n", "lbcf-system")
WAIT = "--timeout=180s"
PATIENCE = 120.0


def write_overlay(folder: Path) -> Path:
    """Write an operator's own overlay: which manifests, and where the images are."""
    parts = (MANIFESTS / "overlays" / "default", MANIFESTS / "drivers" / "haproxy")
    name, _, tag = IMAGES["haproxy"].reference.partition(":")
    image = {"name": "lbcf-haproxy", "newName": name, "newTag": tag}
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(part, folder) for part in parts],
        "images": [image],
    }
    (folder / "Kustomization").write_text(yaml.safe_dump(overlay))
    return folder


def install(cluster: Cluster, overlay: Path) -> None:
    """Install, and wait until all of it is up."""
    crds = MANIFESTS / "crds"
    cluster.kubectl("apply", "--server-side", "-k", crds)
    established = ("wait", "--for=condition=Established", WAIT)
    cluster.kubectl(*established, "-f", crds)
    cluster.kubectl("apply", "--server-side", "-k", overlay)
    for name in ("controller", "deregistrar", "admission", "haproxy"):
        deployment = f"deployment/lbcf-{name}"
        cluster.kubectl(*SYSTEM, "rollout", "status", deployment, WAIT)


def add_app(cluster: Cluster) -> None:
    """Add HAProxy, the web app and its group; wait until all backends are registered."""
    _until(cluster, ("apply", "-f", str(OBJECTS)))
    for where, name in (("lbcf-system", "haproxy"), ("shop", "web")):
        cluster.kubectl("-n", where, "rollout", "status", f"deployment/{name}", WAIT)
    registered = "--for=jsonpath={.status.registeredBackends}=6"
    cluster.kubectl("-n", "shop", "wait", registered, "backendgroup/web", WAIT)


def uninstall(cluster: Cluster, overlay: Path) -> None:
    """Take everything away in the documented order."""
    everywhere = ("--all", "--all-namespaces", WAIT)
    for kind in ("backendgroups", "backendrecords", "loadbalancers"):
        if kind != "backendrecords":
            cluster.kubectl("delete", kind, *everywhere)
        with contextlib.suppress(KubectlError):  # none is there any more
            cluster.kubectl("wait", "--for=delete", kind, *everywhere)
    drivers = ("loadbalancerdrivers", "-n", "kube-system", "--all")
    cluster.kubectl("label", *drivers, "lbcf.tkestack.io/driver-draining=true")
    cluster.kubectl("delete", *drivers, WAIT)
    cluster.kubectl("delete", "-k", overlay, "--ignore-not-found", WAIT)


def left_over(cluster: Cluster) -> list[str]:
    """Say what of us is still there."""
    kinds = (
        "customresourcedefinitions,clusterroles,clusterrolebindings,priorityclasses,"
        "validatingadmissionpolicies,validatingadmissionpolicybindings,"
        "validatingwebhookconfigurations,namespaces"
    )
    listed = cluster.kubectl("get", kinds, "-o", "name").splitlines()
    return [name for name in listed if "lbcf" in name]


def _until(cluster: Cluster, words: tuple[str, ...]) -> None:
    """Try until kubectl succeeds: policies and webhooks take effect a little later."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            cluster.kubectl(*words)
        except KubectlError:
            if time.monotonic() > end:
                raise
            time.sleep(1)
        else:
            return
