"""Installs from the manifests, and takes everything away again, as docs/install.md says."""

import json
import os
import secrets
import subprocess
import sys
import time

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from images.table import IMAGES
from tests.lab.cluster import Cluster
from tests.lab.cluster.errors import KubectlError


ROOT = Path(__file__).parents[3]
MANIFESTS = ROOT / "manifests"
OBJECTS = Path(__file__).with_name("objects.yaml")
SYSTEM = ("-n", "lbcf-system")
PROCESSES = ("controller", "deregistrar", "admission")
OURS = (*PROCESSES, "haproxy")
WAIT = "--timeout=180s"
PATIENCE = 120.0
_BESIDE = "beside.yaml"


def write_overlay(
    folder: Path,
    tag: str = "",
    driver: str = "haproxy",
    patches: Sequence[Mapping[str, Any]] = (),
    beside: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Write an operator's own overlay: which manifests, and where the images are.

    Args:
        folder: where it goes.
        tag: of the images; where unsaid, that of the manifests.
        driver: which one, of those that ship.
        patches: of kustomize, that the operator has beside.
        beside: objects that are installed with it.
    """
    folder.mkdir(exist_ok=True)
    parts = (MANIFESTS / "overlays" / "default", MANIFESTS / "drivers" / driver)
    images = []
    for known, image in (("lbcf.local/lbcf", "lbcf"), (f"lbcf-{driver}", driver)):
        name, _, own = IMAGES[image].reference.partition(":")
        images.append({"name": known, "newName": name, "newTag": tag or own})
    overlay: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(part, folder) for part in parts],
        "images": images,
    }
    if beside:
        (folder / _BESIDE).write_text(yaml.safe_dump_all(beside))
        overlay["resources"].append(_BESIDE)
    overlay["patches"] = [*patches, *([_next_kinds()] if tag else [])]
    (folder / "Kustomization").write_text(yaml.safe_dump(overlay))
    return folder


def _next_kinds() -> dict[str, Any]:
    """Give every kind one more field, as a later version's may have."""
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/added"
    field = {"type": "string", "description": "Of the next version."}
    patch = [{"op": "add", "path": path, "value": field}]
    target = {"kind": "CustomResourceDefinition"}
    return {"target": target, "patch": json.dumps(patch)}


def install(cluster: Cluster, overlay: Path, driver: str = "haproxy") -> None:
    """Install or upgrade: the kinds first, then the rest; wait until all of it is up."""
    built = list(yaml.safe_load_all(cluster.kubectl("kustomize", overlay)))
    crds = [one for one in built if one["kind"] == "CustomResourceDefinition"]
    text = yaml.safe_dump_all(crds)
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text)
    established = ("wait", "--for=condition=Established", WAIT)
    cluster.kubectl(*established, *(f"crd/{one['metadata']['name']}" for one in crds))
    cluster.kubectl("apply", "--server-side", "-k", overlay)
    add_token(cluster, driver)
    await_rollout(cluster, driver)


def add_token(cluster: Cluster, driver: str) -> None:
    """Make the driver's token for both sides, unless an install before this did."""
    name, token = f"lbcf-{driver}-token", secrets.token_hex(32)
    kept = ("get", "secret", name, "--ignore-not-found", "-o", "name")
    if cluster.kubectl("-n", "kube-system", *kept).strip():
        return
    for namespace in ("lbcf-system", "kube-system"):
        made = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"app.kubernetes.io/part-of": "lbcf"},
            },
            "stringData": {"token": token},
        }
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(made))


def await_rollout(cluster: Cluster, driver: str = "haproxy") -> None:
    """Wait until all of ours is up."""
    for name in (*PROCESSES, driver):
        deployment = f"deployment/lbcf-{name}"
        cluster.kubectl(*SYSTEM, "rollout", "status", deployment, WAIT)


def add_app(cluster: Cluster) -> None:
    """Add HAProxy, the web app and its group; wait until all backends are registered.

    The cluster's one DNS server goes where HAProxy is: a node that nothing happens to.
    """
    place = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
    body = json.dumps({"spec": {"template": {"spec": place}}})
    dns = ("-n", "kube-system")
    cluster.kubectl(*dns, "patch", "deployment/coredns", "-p", body)
    cluster.kubectl(*dns, "rollout", "status", "deployment/coredns", WAIT)
    _until(cluster, ("apply", "-f", str(OBJECTS)))
    for where, name in (("lbcf-system", "haproxy"), ("shop", "web")):
        cluster.kubectl("-n", where, "rollout", "status", f"deployment/{name}", WAIT)
    await_registered(cluster)


def await_registered(cluster: Cluster) -> None:
    """Wait until all pods of the web app are backends, and registered."""
    for count in ("backends", "registeredBackends"):
        whole = f"--for=jsonpath={{.status.{count}}}=6"
        cluster.kubectl("-n", "shop", "wait", whole, "backendgroup/web", WAIT)


def uninstall(cluster: Cluster) -> str:
    """Take everything away by the program that operators use; return what it said.

    Raises:
        KubectlError: it could not.
    """
    done = subprocess.run(
        cluster.command(sys.executable, "-m", "lbcf", "ctl", "uninstall", "drain"),
        cwd=ROOT,
        env=cluster.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise KubectlError(done.stdout)
    return done.stdout


def left_over(cluster: Cluster) -> list[str]:
    """Say what of us is still there."""
    kinds = (
        "customresourcedefinitions,clusterroles,clusterrolebindings,priorityclasses,"
        "validatingadmissionpolicies,validatingadmissionpolicybindings,"
        "mutatingadmissionpolicies,mutatingadmissionpolicybindings,"
        "validatingwebhookconfigurations,namespaces"
    )
    inside = (
        "all,secrets,configmaps,roles,rolebindings,leases,serviceaccounts,"
        "persistentvolumeclaims,networkpolicies"
    )
    listed = cluster.kubectl("get", kinds, "-o", "name").splitlines()
    listed += cluster.kubectl("get", inside, "-A", "-o", "name").splitlines()
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
