"""`kubectl lbcf check` on a control plane of its own: whole, and with each part taken out."""

import base64
import json

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lbcf.core.model.values import ObjectKey
from lbcf.kube.leases import LEASES
from tests.e2e.asking import Answer, a_tenant, ask
from tests.e2e.stage import Stage
from tests.e2e.traces import followed
from tests.lab.cluster import Cluster, Options
from tests.lab.cluster.fixtures import running
from tests.manifests import accounts
from tests.manifests.documents import ROOT
from tests.patience import PATIENCE


pytestmark = pytest.mark.cluster

SYSTEM = ("-n", "lbcf-system")
MANIFESTS = ROOT / "manifests"
GROUPS = "crd/backendgroups.lbcf.tkestack.io"
FIELD = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/drain"
POLICY = "loadbalancers.lbcf.tkestack.io"
NAME = "lbcf.tkestack.io"
WEBHOOK = f"validatingwebhookconfiguration/{NAME}"
WORKERS = ("controller", "deregistrar")
ACCOUNT_AND_PROCESS = {
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Deployment",
}


@pytest.fixture(scope="module", name="own")
def _own() -> Iterator[Cluster]:
    """A control plane for these tests alone, with all that is applied but the webhook."""
    with running(0, Options(audit_bodies=True)) as cluster:
        cluster.kubectl("apply", "--server-side", "-k", MANIFESTS / "crds")
        established = (
            "wait",
            "--for=condition=Established",
            f"--timeout={PATIENCE:.0f}s",
        )
        cluster.kubectl(*established, "-f", MANIFESTS / "crds")
        overlay = MANIFESTS / "overlays" / "without-webhook"
        cluster.kubectl("apply", "--server-side", "-k", overlay)
        yield cluster


@pytest.fixture(name="installed")
async def _installed(
    own: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Stage]:
    """Our processes lead, and a driver in memory is well."""
    with own.namespace() as name:
        async with followed(own, name, tmp_path, request) as stage:
            stage.namespaces.add("lbcf-system")
            await stage.start_driver()
            for process in WORKERS:
                login = accounts.login(own, f"lbcf-{process}", tmp_path)
                stage.logins[process] = login
                await stage.start(process, "--namespace", "lbcf-system")
            await stage.setting()
            yield stage


def _bad(answer: Answer) -> list[str]:
    """Return what failed: subjects of the lines that say no, but for pods: no node is here."""
    return [
        line["subject"]
        for section in answer.report["sections"]
        for line in section["lines"]
        if line["mark"] == "NO" and section["title"] != "processes"
    ]


async def _checked(stage: Stage, bad: list[str]) -> Answer:
    """Check until just this is wrong: the API server takes changes in with a delay."""
    answer = await ask(stage, "check", "-o", "json")

    async def so() -> bool:
        """Ask again."""
        nonlocal answer
        answer = await ask(stage, "check", "-o", "json")
        return _bad(answer) == bad

    await stage.until(f"check says {bad}", so)
    return answer


async def test_what_is_applied_is_whole(installed: Stage) -> None:
    """But for pods, without which processes are missing; the webhook is not asked for.

    A whole installation is that of docs/quickstart.md, where its pods run.
    """
    answer = await _checked(installed, [])

    assert 1 == answer.status
    assert answer.report["headline"].startswith("2 of ")
    listed = {
        section["title"]: [line["mark"] for line in section["lines"]]
        for section in answer.report["sections"]
    }
    assert ["ok"] * 6 == listed["kinds"]
    assert ["ok"] * 2 == listed["leaders"] == listed["rights"]
    assert ["NO"] * 2 == listed["processes"]
    assert ["-"] == listed["webhook"]


async def test_a_shard_without_a_leader_is_named(installed: Stage) -> None:
    """Each up to the last that there is a Lease of; of those between there may be none."""
    shards = ("lbcf-controller-1", "lbcf-controller-3", "lbcf-deregistrar-1")
    for name in shards:
        lease = {"metadata": {"name": name}, "spec": {}}
        await installed.client.create(LEASES, "lbcf-system", lease)

    one, three, other = shards
    answer = await _checked(installed, [one, "lbcf-controller-2", three, other])

    assert "nobody leads: lbcf-controller-1 does not run" in answer.out
    assert "there is no such Lease: nobody has led this shard yet" in answer.out
    assert "component=controller: do they run" in answer.out
    for name in shards:
        await installed.client.delete(LEASES, ObjectKey("lbcf-system", name))
    await _checked(installed, [])


async def test_each_missing_part_is_named(installed: Stage) -> None:
    """A field, a right, a binding: in words, with what to do."""
    own = installed.cluster
    patch = ("--type=json", "-p", json.dumps([{"op": "remove", "path": FIELD}]))
    own.kubectl("patch", GROUPS, *patch)
    role = json.dumps([{"op": "remove", "path": "/rules/4"}])
    own.kubectl("patch", "clusterrole/lbcf-controller", "--type=json", "-p", role)
    own.kubectl("delete", "validatingadmissionpolicybinding", POLICY)

    kind = GROUPS.removeprefix("crd/")
    bad = [kind, "lbcf-system/lbcf-controller", POLICY]
    answer = await _checked(installed, bad)

    assert 1 == answer.status
    for words in (
        "of another version: no spec.drain",
        "0 of 2 are available",
        "may not get backendrecords, list backendrecords",
        "nothing binds it",
        "docs/install.md",
    ):
        assert words in answer.out
    overlay = MANIFESTS / "overlays" / "without-webhook"
    own.kubectl("apply", "--server-side", "--force-conflicts", "-k", overlay)
    await _checked(installed, [])


async def test_webhook_that_cannot_be_reached_is_named(installed: Stage) -> None:
    """By a load balancer that is not stored; before it ever ran, by its certificate."""
    own = installed.cluster
    for name in ("configuration.yaml", "policy.yaml"):
        own.kubectl("apply", "-f", MANIFESTS / "webhook" / name)
    try:
        before = await _checked(installed, [NAME])
        authority = base64.b64encode(_authority(own)).decode()
        where = "/webhooks/0/clientConfig/caBundle"
        added = [{"op": "add", "path": where, "value": authority}]
        own.kubectl("patch", WEBHOOK, "--type=json", "-p", json.dumps(added))
        await installed.until("it is called", lambda: _is_called(installed))
    finally:
        own.kubectl("delete", WEBHOOK)
    assert "lbcf admission has never run" in before.out


async def _is_called(stage: Stage) -> bool:
    """Whether check says that nobody answers."""
    answer = await ask(stage, "check", "-o", "json")
    return "cannot reach it" in answer.out and _bad(answer) == [NAME]


def _authority(cluster: Cluster) -> bytes:
    """Any certificate will do: there is nobody who has one of it."""
    login = json.loads(cluster.kubectl("config", "view", "--raw", "-o", "json"))
    text: str = login["clusters"][0]["cluster"]["certificate-authority-data"]
    return base64.b64decode(text)


async def test_rights_for_a_certificate_are_those_of_who_makes_it(
    installed: Stage,
) -> None:
    """With one of cert-manager's none are missing; one of its own it could not keep."""
    own = installed.cluster
    built = own.kubectl("kustomize", MANIFESTS / "overlays" / "cert-manager")
    applied = [one for one in yaml.safe_load_all(built) if _is_admission(one)]
    (deployment,) = (one for one in applied if one["kind"] == "Deployment")
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": applied})
    own.kubectl("apply", "-f", "-", stdin=text)
    try:
        await _checked(installed, [])
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        container["args"] = ["admission"]
        own.kubectl("apply", "-f", "-", stdin=json.dumps(deployment))
        answer = await _checked(installed, ["lbcf-system/lbcf-admission"])
    finally:
        own.kubectl("delete", "-f", "-", stdin=text)
    for words in ("get secrets", "patch validatingwebhookconfigurations"):
        assert words in answer.out


def _is_admission(document: dict[str, Any]) -> bool:
    """Whether it is the webhook's process, or the account and the rights of it."""
    labels = document["metadata"].get("labels", {})
    return (
        labels.get("app.kubernetes.io/component") == "admission"
        and document["kind"] in ACCOUNT_AND_PROCESS
    )


async def test_token_that_is_missing_or_empty_is_named(installed: Stage) -> None:
    """The Secret that a driver names, beside what the controller says of the driver."""
    own, where = installed.cluster, ("-n", installed.namespace)
    secret = {"bearerTokenSecretRef": {"name": "shared", "key": "token"}}
    change = ("--type=merge", "-p", json.dumps({"spec": {"auth": secret}}))
    own.kubectl(*where, "patch", "loadbalancerdriver/memory", *change)
    token = f"secret/shared -n {installed.namespace}"

    async def says(words: str) -> bool:
        """Whether the Secret's line says so."""
        answer = await ask(installed, "check", "-o", "json")
        return token in _bad(answer) and words in answer.out

    await installed.until("it is missing", lambda: says("it does not exist"))
    own.kubectl(
        *where, "create", "secret", "generic", "shared", "--from-literal=token="
    )
    await installed.until("it is empty", lambda: says("its token is empty"))


async def test_what_may_not_be_read_is_left_open(installed: Stage) -> None:
    """A tenant learns that much, and is not told that anything is missing."""
    login = await a_tenant(installed)
    answer = await ask(installed, "check", "-o", "json", login=login)

    assert (0, []) == (answer.status, _bad(answer)), answer.out
    assert "could not be made" in answer.report["headline"]
    assert "may not list deployments.apps in all namespaces" in answer.out
