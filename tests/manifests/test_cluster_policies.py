"""Policies on who may use what, tried with real users on the real API server.

Each is tried before its policy is there, too: what is denied then is denied by it.
"""

import json

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from tests.lab.cluster import Cluster
from tests.manifests import accounts
from tests.manifests.api import Answer, Api
from tests.manifests.documents import ROOT, Document, read_all
from tests.manifests.fixtures import await_answer


pytestmark = pytest.mark.cluster

BACKENDS = ROOT / "manifests" / "rbac" / "backends.yaml"
PRIORITY = ROOT / "manifests" / "deploy" / "priority.yaml"
WEBHOOK = ROOT / "manifests" / "webhook" / "policy.yaml"
CONFIGURATION = ROOT / "manifests" / "webhook" / "configuration.yaml"
PODS = {"ports": [{"port": 80}], "byName": ["web-0"]}
STATIC, NODES = ["198.51.100.1:80"], {"ports": [{"port": 80}]}
MERGE = "application/merge-patch+json"


@contextmanager
def enforced(
    cluster: Cluster, path: Path, denied: "Trial", allowed: "Trial"
) -> Iterator[None]:
    """Put a file's policy into force: what it denies was allowed before.

    Args:
        cluster: where.
        path: the file; what else is in it is applied, too.
        denied: is not accepted once the policy is in force.
        allowed: is accepted before and after.
    """
    assert denied().accepted, denied().message
    cluster.kubectl("apply", "-f", path)
    try:
        await_answer(lambda: not denied().accepted)
        assert allowed().accepted, allowed().message
        yield
    finally:
        for document in read_all(path):
            if document["kind"].startswith("ValidatingAdmissionPolicy"):
                cluster.kubectl(
                    "delete", document["kind"], document["metadata"]["name"]
                )


@attrs.frozen
class Trial:
    """A request that stores nothing."""

    api: Api
    path: str
    body: Mapping[str, Any]
    verb: str = "POST"
    content: str = "application/json"

    def __call__(self) -> Answer:
        """Send it."""
        return self.api.send(
            self.verb, f"{self.path}?dryRun=All", self.body, self.content
        )


def a_group(**backends: object) -> Document:
    """A group."""
    return {
        "apiVersion": "lbcf.tkestack.io/v1beta1",
        "kind": "BackendGroup",
        "metadata": {"name": "web"},
        "spec": {"loadBalancers": ["front"], **backends},
    }


@attrs.frozen
class Shop:
    """A namespace with users, and the groups that are there."""

    apis: Mapping[str, Api]

    def create(self, user: str, **backends: object) -> Answer:
        """Create a group, as a trial."""
        return self.apis[user].create(a_group(**backends))

    def change(self, user: str, group: str, change: Mapping[str, object]) -> Answer:
        """Change a group that is there, as a trial."""
        document = a_group()
        document["metadata"]["name"] = group
        path = self.apis[user].path_of(document)
        return Trial(self.apis[user], path, change, "PATCH", MERGE)()


@pytest.fixture(scope="module", name="shop")
def _shop(control_plane: Cluster, crds: Path) -> Iterator[Shop]:
    """An editor, an administrator, and editors who have one of the roles each."""
    assert crds.is_dir()
    accounts.apply(control_plane)
    for document in read_all(BACKENDS):
        if document["kind"].startswith("ValidatingAdmissionPolicy"):
            name = document["metadata"]["name"]
            control_plane.kubectl(
                "delete", document["kind"], name, "--ignore-not-found"
            )
    roles = {
        "editor": ("edit",),
        "administrator": ("admin",),
        "static": ("edit", "lbcf-static-backends"),
        "nodes": ("edit", "lbcf-node-backends"),
    }
    with ExitStack() as stack:
        namespace = stack.enter_context(control_plane.namespace("backends"))
        apis = {
            "master": stack.enter_context(
                Api.connect(control_plane.kubeconfig, namespace)
            )
        }
        for user, bound in roles.items():
            for role in bound:
                control_plane.kubectl(
                    *("create", "rolebinding", f"{user}-{role}", "-n", namespace),
                    *(f"--clusterrole={role}", f"--user={user}-of-backends"),
                )
            login = control_plane.kubeconfig_for(f"{user}-of-backends", ())
            apis[user] = stack.enter_context(Api.connect(login, namespace))
        for name, backends in (("there", {"static": STATIC}), ("pods", {"pods": PODS})):
            group = a_group(**backends)
            group["metadata"]["name"] = name
            apis["master"].store(group)
            stack.callback(apis["master"].remove, group)
        shop = Shop(apis)
        await_answer(lambda: shop.create("administrator", static=STATIC).accepted)
        await_answer(lambda: shop.create("editor", static=STATIC).accepted)
        path = apis["editor"].path_of(a_group(), named=False)
        denied = Trial(apis["editor"], path, a_group(static=STATIC))
        allowed = Trial(apis["editor"], path, a_group(pods=PODS))
        stack.enter_context(enforced(control_plane, BACKENDS, denied, allowed))
        yield shop


@pytest.mark.parametrize(
    ("user", "taken"),
    [
        ("editor", {"pods"}),
        ("administrator", {"pods"}),
        ("static", {"pods", "static"}),
        ("nodes", {"pods", "nodes"}),
        ("master", {"pods", "static", "nodes"}),
    ],
)
def test_addresses_that_are_nobodys_pod(shop: Shop, user: str, taken: set[str]) -> None:
    """Static addresses and nodes are for whom the operator lets."""
    kinds: Mapping[str, object] = {"pods": PODS, "static": STATIC, "nodes": NODES}
    answers = {kind: shop.create(user, **{kind: spec}) for kind, spec in kinds.items()}

    assert taken == {kind for kind, answer in answers.items() if answer.accepted}
    for kind in kinds.keys() - taken:
        assert f"spec.{kind}: " in answers[kind].message
        assert "ask the cluster's operator" in answers[kind].message


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({"spec": {"static": ["198.51.100.2:80"]}}, {"static", "master"}),
        ({"spec": {"loadBalancers": ["other"]}}, {"static", "master"}),
        ({"metadata": {"labels": {"team": "web"}}}, {"editor", "static", "master"}),
    ],
    ids=["addresses", "load balancers", "labels"],
)
def test_group_of_such_addresses_that_is_there(
    shop: Shop, change: Mapping[str, object], taken: set[str]
) -> None:
    """Who may not make it may not send it elsewhere either; its labels are free."""
    users = ("editor", "static", "master")

    assert taken == {u for u in users if shop.change(u, "there", change).accepted}


def a_pod(priority: str | None) -> Document:
    """A pod that names a PriorityClass, or none."""
    named = {"priorityClassName": priority} if priority else {}
    containers = [{"name": "web", "image": "web"}]
    return {"metadata": {"name": "web"}, "spec": {**named, "containers": containers}}


def test_priority_is_for_who_is_let(control_plane: Cluster) -> None:
    """A tenant's pod cannot name it; ours can, and those of a namespace with the label."""
    accounts.apply(control_plane)
    classes = [d for d in read_all(PRIORITY) if d["kind"] == "PriorityClass"]
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(classes[0]))
    with (
        control_plane.namespace("tenant") as tenant,
        control_plane.namespace("let") as let,
        Api.connect(control_plane.kubeconfig, tenant) as api,
    ):
        control_plane.kubectl(
            "label", "namespace", let, "lbcf.tkestack.io/priority=allowed"
        )

        def trial(namespace: str, priority: str | None = "lbcf") -> Trial:
            """A pod there."""
            path = f"/api/v1/namespaces/{namespace}/pods"
            return Trial(api, path, a_pod(priority))

        for namespace in (tenant, let):
            account = ("get", "serviceaccount", "default", "-n", namespace)
            control_plane.kubectl("wait", "--for=create", *account[1:])
        with enforced(control_plane, PRIORITY, trial(tenant), trial(tenant, None)):
            answer = trial(tenant)()
            assert "spec.priorityClassName: lbcf is for pods of" in answer.message
            await_answer(lambda: trial(let)().accepted)
            ours = trial(accounts.NAMESPACE)()
            assert "priorityClassName" not in ours.message


def test_webhook_pods_write_the_ca_bundle_alone(control_plane: Cluster) -> None:
    """What RBAC cannot tell apart: the same patch right, and no other field."""
    configuration = yaml.safe_load(CONFIGURATION.read_text())
    configuration["metadata"]["name"] = "trial.lbcf.tkestack.io"
    webhook = configuration["webhooks"][0]
    # Nothing of other tests is to come here.
    webhook["namespaceSelector"] = {"matchLabels": {"none": "none"}}
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(configuration))
    ours = control_plane.kubeconfig_for(accounts.user_of("lbcf-admission"))
    kind = "validatingwebhookconfigurations"
    path = f"/apis/admissionregistration.k8s.io/v1/{kind}/trial.lbcf.tkestack.io"
    with Api.connect(ours, "default") as api:

        def trial(field: str, value: object) -> Trial:
            """A patch as `lbcf admission` sends it."""
            body = [{"op": "add", "path": field, "value": value}]
            content = "application/json-patch+json"
            return Trial(api, path, body, "PATCH", content)  # type: ignore[arg-type]

        everything = [
            {
                "apiGroups": ["*"],
                "apiVersions": ["*"],
                "resources": ["*/*"],
                "operations": ["*"],
            }
        ]
        hook = "/webhooks/0"
        bundle = trial(f"{hook}/clientConfig/caBundle", "QQ==")
        with enforced(
            control_plane, WEBHOOK, trial(f"{hook}/rules", everything), bundle
        ):
            second = {**webhook, "name": "second.lbcf.tkestack.io", "rules": everything}
            for field, value in (
                (f"{hook}/rules", everything),
                ("/webhooks/-", second),
                ("/webhooks", []),
                (f"{hook}/matchConditions", []),
                (f"{hook}/namespaceSelector", {}),
                (f"{hook}/objectSelector", {"matchLabels": {"a": "b"}}),
                (f"{hook}/matchPolicy", "Exact"),
                (f"{hook}/failurePolicy", "Ignore"),
                (f"{hook}/sideEffects", "NoneOnDryRun"),
                (f"{hook}/timeoutSeconds", 30),
                (f"{hook}/clientConfig/service/namespace", "elsewhere"),
                (
                    f"{hook}/clientConfig",
                    {"url": "https://elsewhere", "caBundle": "QQ=="},
                ),
                ("/metadata/labels/app.kubernetes.io~1part-of", "other"),
                ("/metadata/finalizers", ["example.com/held"]),
            ):
                answer = trial(field, value)()
                assert not answer.accepted, field
                assert "writes clientConfig.caBundle" in answer.message, field
            assert bundle().accepted
    control_plane.kubectl("delete", kind, "trial.lbcf.tkestack.io")
