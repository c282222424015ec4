"""Policies on who may use what, tried with real users on the real API server.

Each is tried before its policy is there, too: what is denied then is denied by it.
"""

import json
import subprocess

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
from tests.manifests.test_policies import KEEP, SPECS


pytestmark = pytest.mark.cluster

BACKENDS = ROOT / "manifests" / "rbac" / "backends.yaml"
PRIORITY = ROOT / "manifests" / "deploy" / "priority.yaml"
WEBHOOK = ROOT / "manifests" / "webhook" / "policy.yaml"
CONFIGURATION = ROOT / "manifests" / "webhook" / "configuration.yaml"
PODS = {"ports": [{"port": 80}], "byName": ["web-0"]}
STATIC, NODES = ["198.51.100.1:80"], {"ports": [{"port": 80}]}
MERGE = "application/merge-patch+json"
COUNTS = {
    "LoadBalancer": "backends",
    "BackendGroup": "registeredBackends",
    "Bind": "registeredBackends",
}
"""The field of each one's status that says how many members go with it."""


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


def serving(kind: str, members: int | None, **metadata: object) -> Document:
    """An object that has so many registered members; None: it has no status yet."""
    status = {} if members is None else {"status": {COUNTS[kind]: members}}
    return {
        "apiVersion": f"lbcf.tkestack.io/{'v1' if kind == 'Bind' else 'v1beta1'}",
        "kind": kind,
        "metadata": {"name": "front", **metadata},
        "spec": SPECS[kind],
        **status,
    }


def ended(api: Api, document: Document, how: str = "") -> Answer:
    """Store an object, delete it, and take away what is left of it."""
    api.store(document)
    answer = api.delete(document, how)
    api.remove(document)
    return answer


@pytest.fixture(scope="module", name="warned")
def _warned(api: Api) -> Api:
    """The API server, once it warns."""
    for kind in COUNTS:
        found = serving(kind, 1)
        api.store(found)
        await_answer(lambda one=found: bool(api.delete(one, "dryRun=All").warnings))  # type: ignore[misc]
        api.remove(found)
    return api


@pytest.mark.parametrize("how", ["", "dryRun=All"], ids=["deleted", "tried"])
@pytest.mark.parametrize("kind", COUNTS)
def test_who_deletes_what_serves_is_warned(warned: Api, kind: str, how: str) -> None:
    """How many members go, and what would have kept it; the deletion goes through."""
    answer = ended(warned, serving(kind, 3), how)

    assert answer.accepted, answer.message
    [warning] = answer.warnings
    assert "3 registered members" in warning
    assert f"the label {next(iter(KEEP))} keeps " in warning


@pytest.mark.parametrize(
    ("members", "metadata"),
    [
        (None, {}),
        (0, {}),
        # It is refused, in the words of the policy that does.
        (3, {"labels": KEEP}),
    ],
    ids=["new", "empty", "kept"],
)
@pytest.mark.parametrize("kind", COUNTS)
def test_who_deletes_nothing_that_serves_is_not(
    warned: Api, kind: str, members: int | None, metadata: Mapping[str, object]
) -> None:
    """A warning that comes each time is read by nobody."""
    answer = ended(warned, serving(kind, members, **metadata))

    assert ("labels" not in metadata) == answer.accepted
    assert () == answer.warnings


@pytest.mark.parametrize("kind", COUNTS)
def test_a_deletion_under_way_is_not_warned_of_again(warned: Api, kind: str) -> None:
    """Its members are going already."""
    held = serving(kind, 3, finalizers=["example.com/held"])
    warned.store(held)
    first, second = warned.delete(held), warned.delete(held)
    warned.remove(held)

    assert (1, 0) == (len(first.warnings), len(second.warnings))


@pytest.mark.parametrize("controller", ["namespace-controller", "garbage-collector"])
def test_controllers_of_kubernetes_are_not_warned(
    warned: Api, control_plane: Cluster, controller: str
) -> None:
    """Nobody reads it who ends a namespace, or what belonged to an object that is gone."""
    user = {
        "namespace-controller": "namespace-controller",
        "garbage-collector": "generic-garbage-collector",
    }[controller]
    login = control_plane.kubeconfig_for(f"system:serviceaccount:kube-system:{user}")
    with Api.connect(login, warned.namespace) as api:
        answers = [ended(api, serving(kind, 3)) for kind in COUNTS]

    assert [(True, ())] * 3 == [(a.accepted, a.warnings) for a in answers]


def test_kubectl_prints_the_warning(warned: Api, control_plane: Cluster) -> None:
    """Beside the line that says that it is deleted."""
    warned.store(serving("LoadBalancer", 3))
    kubectl = control_plane.plan.binary("kubectl")
    done = subprocess.run(
        [kubectl, "delete", "lb/front", "-n", warned.namespace],
        env=control_plane.environment(),
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stderr.startswith("Warning: ")
    assert "3 registered members" in done.stderr
    assert "deleted" in done.stdout
