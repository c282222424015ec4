"""The token of the driver that ships: who shows it, who asks for it, who may read it."""

import argparse
import base64
import json
import subprocess
import sys

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
MAKER = ROOT / "manifests" / "drivers" / "haproxy-token"


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
    assert [{"key": "token", "path": "token"}] == volume["secret"]["items"]
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


@pytest.fixture(name="empty")
def _empty(control_plane: Cluster) -> Iterator[Cluster]:
    """What is applied before the Job runs: both Secrets, and its account."""
    accounts.apply(control_plane)
    for name in ("secrets.yaml", "rbac.yaml"):
        control_plane.kubectl("apply", "--server-side", "-f", MAKER / name)
    yield control_plane
    for name in ("secrets.yaml", "rbac.yaml"):
        control_plane.kubectl("delete", "-f", MAKER / name)


def _job_arguments() -> list[str]:
    """The arguments of the Job's one container."""
    job = yaml.safe_load((MAKER / "job.yaml").read_text())
    arguments: list[str] = job["spec"]["template"]["spec"]["containers"][0]["args"]
    return arguments


def _run_as_job(cluster: Cluster, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run what the Job runs, by its account."""
    login = str(accounts.login(cluster, "lbcf-driver-token", folder))
    argv = (sys.executable, "-m", "lbcf", *_job_arguments(), "--kubeconfig", login)
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


def _token(cluster: Cluster, namespace: str) -> str:
    """What a Secret holds, in base64."""
    return cluster.kubectl(
        "-n", namespace, "get", "secret", NAMED, "-o", "jsonpath={.data.token}"
    )


@pytest.mark.cluster
def test_job_gives_both_sides_one_token_and_keeps_it(
    empty: Cluster, tmp_path: Path
) -> None:
    """By its own account; the manifests applied once more leave the token alone."""
    namespaces = (SYSTEM, accounts.NAMESPACE)
    assert ["", ""] == [_token(empty, namespace) for namespace in namespaces]

    done = _run_as_job(empty, tmp_path)

    assert (0, "") == (done.returncode, done.stderr)
    made, same = (_token(empty, namespace) for namespace in namespaces)
    assert made == same
    assert len(made) > 64

    empty.kubectl("apply", "--server-side", "-f", MAKER / "secrets.yaml")
    again = _run_as_job(empty, tmp_path)

    assert 0 == again.returncode, again.stderr
    assert again.stdout.count("keeps its token") == 2
    assert [made, made] == [_token(empty, namespace) for namespace in namespaces]


@pytest.mark.cluster
def test_job_copies_the_callers_token_to_a_driver_without_one(
    empty: Cluster, tmp_path: Path
) -> None:
    """Of a rotation's lines the newest; nothing that is there is changed."""
    change = json.dumps({"stringData": {"token": "old\nnewest\n"}})
    where = ("-n", SYSTEM, "patch", "secret", NAMED, "--type=merge", "-p", change)
    empty.kubectl(*where)
    before = _token(empty, SYSTEM)

    done = _run_as_job(empty, tmp_path)

    assert 0 == done.returncode, done.stderr
    assert before == _token(empty, SYSTEM)
    assert b"newest" == base64.b64decode(_token(empty, accounts.NAMESPACE))


@pytest.mark.cluster
def test_job_may_write_these_secrets_alone(empty: Cluster, tmp_path: Path) -> None:
    """Another Secret, and a new one, are refused to its account."""
    login = accounts.login(empty, "lbcf-driver-token", tmp_path)
    for verb, what in (
        ("get", "secrets/other"),
        ("patch", "secrets/other"),
        ("create", "secrets"),
        ("list", "secrets"),
    ):
        question = ("auth", "can-i", verb, what, "-n", SYSTEM)
        with pytest.raises(KubectlError):
            empty.kubectl(*question, kubeconfig=login)


@pytest.mark.cluster
def test_missing_secret_is_named(empty: Cluster, tmp_path: Path) -> None:
    """The Job's log says which one; nothing is written to the other."""
    empty.kubectl("-n", accounts.NAMESPACE, "delete", "secret", NAMED)

    done = _run_as_job(empty, tmp_path)

    empty.kubectl("apply", "--server-side", "-f", MAKER / "secrets.yaml")
    assert 1 == done.returncode
    assert NAMED in done.stderr
    assert "" == _token(empty, SYSTEM)
