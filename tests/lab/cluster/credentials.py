"""Who is who in a cluster: the files of `certificates` that its parts read.

After `layout`, before `supervisor`: `lifecycle` calls `make_credentials` once.
"""

import re

from collections.abc import Iterable
from pathlib import Path

from tests.lab.cluster.certificates import (
    Pair,
    new_authority,
    new_leaf,
    render_kubeconfig,
    write_private,
)
from tests.lab.cluster.layout import SERVICE_ADDRESS, Layout, Plan, node_address


MASTERS = "system:masters"
API_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
    "127.0.0.1",
    SERVICE_ADDRESS,
)
COMPONENTS = ("kube-controller-manager", "kube-scheduler", "kube-proxy")


def make_credentials(layout: Layout, plan: Plan) -> None:
    """Make every key, certificate and kubeconfig of a new cluster."""
    authority, front = new_authority("cluster-ca"), new_authority("front-proxy-ca")
    authority.save(layout.pki / "ca")
    front.save(layout.pki / "front-proxy-ca")
    new_leaf(front, "front-proxy-client").save(layout.pki / "front-proxy-client")
    # The key alone matters here: it signs service account tokens.
    new_leaf(authority, "service-accounts").save(layout.pki / "service-accounts")
    names = [*API_NAMES, plan.address]
    new_leaf(authority, "kube-apiserver", names=names).save(layout.pki / "apiserver")
    kubelet_client = new_leaf(authority, "kube-apiserver-kubelet-client", [MASTERS])
    kubelet_client.save(layout.pki / "apiserver-kubelet-client")
    write_kubeconfig(layout, plan, layout.kubeconfig, "admin", [MASTERS])
    for name in COMPONENTS:
        path = layout.pki / f"{name}.kubeconfig"
        write_kubeconfig(layout, plan, path, f"system:{name}")
    for number in range(1, plan.options.nodes + 1):
        _make_node(layout, plan, authority, number)


def _make_node(layout: Layout, plan: Plan, authority: Pair, number: int) -> None:
    """The serving certificate and the kubeconfig of one kubelet."""
    node, groups = f"n{number}", ["system:nodes"]
    user, stem = f"system:node:{node}", layout.pki / f"kubelet-{node}"
    new_leaf(authority, user, groups, [node, node_address(number)]).save(stem)
    write_kubeconfig(layout, plan, Path(f"{stem}.kubeconfig"), user, groups)


def write_kubeconfig(
    layout: Layout, plan: Plan, path: Path, user: str, groups: Iterable[str] = ()
) -> None:
    """Write a kubeconfig for a user, with a new key signed by the cluster."""
    authority = Pair.load(layout.pki / "ca")
    client = new_leaf(authority, user, groups)
    write_private(path, render_kubeconfig(plan.server, authority, user, client))


def user_kubeconfig(
    layout: Layout, plan: Plan, user: str, groups: Iterable[str]
) -> Path:
    """The kubeconfig of a user of the tests' choice, made anew."""
    path = layout.root / f"{re.sub(r'[^A-Za-z0-9.-]+', '-', user)}.kubeconfig"
    write_kubeconfig(layout, plan, path, user, groups)
    return path
