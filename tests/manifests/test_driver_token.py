"""The token of the driver that ships: who shows it, who asks for it, who may read it."""

import argparse
import json

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lbcf.sdk.run import check_exposed, credential_files, driver_parser
from tests.lab.cluster import Cluster
from tests.lab.cluster.errors import KubectlError
from tests.manifests import accounts
from tests.manifests.documents import ROOT
from tests.manifests.fixtures import await_answer
from webhooks.haproxy import __main__ as haproxy
from webhooks.haproxy.driver import HaproxyDriver


FOLDER = ROOT / "manifests" / "drivers" / "haproxy"
SYSTEM = "kube-system"
NAMED = "lbcf-haproxy-token"


def _objects() -> dict[str, dict[str, Any]]:
    """The objects of the folder, by kind."""
    text = (FOLDER / "deployment.yaml").read_text()
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


def _pod() -> dict[str, Any]:
    """What the driver runs in."""
    pod: dict[str, Any] = _objects()["Deployment"]["spec"]["template"]["spec"]
    return pod


def _flags() -> argparse.Namespace:
    """The flags of the manifest, read by the driver."""
    parser = driver_parser(HaproxyDriver, haproxy.DEFAULT_PORT)
    haproxy.add_flags(parser)
    return parser.parse_args(_pod()["containers"][0]["args"])


def test_both_sides_have_one_token() -> None:
    """The driver reads the file that its Secret is mounted at; callers show the same."""
    flags = _flags()
    files = credential_files(flags)
    check_exposed(flags, files)
    (mount,) = _pod()["containers"][0]["volumeMounts"]
    (volume,) = _pod()["volumes"]
    driver = _objects()["LoadBalancerDriver"]
    reference = driver["spec"]["auth"]["bearerTokenSecretRef"]

    assert Path(mount["mountPath"], reference["key"]) == files.tokens
    assert mount["name"] == volume["name"]
    assert NAMED == reference["name"] == volume["secret"]["secretName"]
    assert SYSTEM == driver["metadata"]["namespace"]


@pytest.fixture(scope="module", name="granted")
def _granted(control_plane: Cluster) -> Iterator[Cluster]:
    """The accounts, and the right to read the token."""
    accounts.apply(control_plane)
    found = _objects()
    rights = [found["Role"], found["RoleBinding"]]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": rights})
    control_plane.kubectl("apply", "-f", "-", stdin=text)
    yield control_plane
    control_plane.kubectl("delete", "-f", "-", stdin=text)


@pytest.mark.cluster
@pytest.mark.parametrize("account", ["controller", "deregistrar", "admission"])
def test_our_processes_read_the_token_alone(granted: Cluster, account: str) -> None:
    """Listed and watched by its name, as they do; no other Secret of kube-system."""
    for verb in ("get", "list", "watch"):
        await_answer(lambda: _may(granted, account, verb, NAMED))  # noqa: B023
        assert not _may(granted, account, verb, "other")


def _may(cluster: Cluster, account: str, verb: str, secret: str) -> bool:
    """What the API server says of an account and a Secret of kube-system."""
    whose = f"system:serviceaccount:{accounts.NAMESPACE}:lbcf-{account}"
    question = ("auth", "can-i", verb, f"secrets/{secret}", "--as", whose)
    try:
        return cluster.kubectl("-n", SYSTEM, *question).strip() == "yes"
    except KubectlError:  # the answer no is an exit status, too
        return False
