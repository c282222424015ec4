"""Every rule of the admission policies, broken on the real API server."""

import json

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from tests.lab.cluster import Cluster
from tests.manifests.api import Answer, Api
from tests.manifests.documents import POLICIES, Document, read_all
from tests.manifests.fixtures import await_answer
from tests.patience import PATIENCE


pytestmark = pytest.mark.cluster

SPECS: Mapping[str, Document] = {
    "LoadBalancerDriver": {"driverType": "Webhook", "url": "http://host"},
    "LoadBalancer": {"lbDriver": "driver"},
    "BackendGroup": {"loadBalancers": ["web"], "static": ["198.51.100.1:80"]},
    "Bind": {
        "loadBalancers": [{"name": "web", "driver": "driver", "spec": {"id": "1"}}],
        "pods": {"ports": [{"port": 80}], "byName": ["web-0"]},
    },
}
SYSTEM = "kube-system"
KEEP = {"lbcf.tkestack.io/do-not-delete": ""}
DRAINING = {"lbcf.tkestack.io/driver-draining": "true"}

NEEDS_PREFIX = "metadata.name must begin with lbcf- in namespace kube-system"
NO_DRIVER_PREFIX = (
    "metadata.name must not begin with lbcf- outside namespace kube-system: such names "
    "are for drivers that serve every namespace"
)
NO_PREFIX = (
    "metadata.name must not begin with lbcf- outside namespace kube-system: such names "
    "are for load balancers that serve other namespaces"
)
NO_SCOPE = "spec.scope is allowed only in namespace kube-system"
NO_DRIVER_SCOPE = (
    "spec.scope is allowed only in namespace kube-system: this driver serves its own "
    "namespace alone"
)
NOT_DRAINING = "metadata.labels: a LoadBalancerDriver can be deleted only with label"
KEPT = "metadata.labels: an object with label lbcf.tkestack.io/do-not-delete cannot be"


@attrs.frozen
class Denial:
    """An object, what is done with it, and the policy's words; none if it may be.

    Attributes:
        namespace: empty for an ordinary one.
        verb: `create` or `delete`.
    """

    what: str
    kind: str
    name: str
    says: str
    namespace: str = ""
    verb: str = "create"
    labels: Mapping[str, str] = attrs.Factory(dict)
    spec: Mapping[str, Any] = attrs.Factory(dict)

    def document(self) -> Document:
        """The object."""
        metadata: Document = {"name": self.name, "labels": dict(self.labels)}
        if self.namespace:
            metadata["namespace"] = self.namespace
        return {
            "apiVersion": f"lbcf.tkestack.io/{'v1' if self.kind == BIND else 'v1beta1'}",
            "kind": self.kind,
            "metadata": metadata,
            "spec": {**SPECS[self.kind], **self.spec},
        }

    def __str__(self) -> str:
        """The test's name."""
        return f"{self.kind} {self.what}"


LBD, LB, BG, BIND = SPECS
TEAM = {"scope": ["team"]}
DENIALS = (
    Denial("without prefix in kube-system", LBD, "memory", NEEDS_PREFIX, SYSTEM),
    Denial("with prefix in kube-system", LBD, "lbcf-memory", "", SYSTEM),
    Denial("with prefix elsewhere", LBD, "lbcf-memory", NO_DRIVER_PREFIX),
    Denial("without prefix elsewhere", LBD, "memory", ""),
    Denial("with scope elsewhere", LBD, "memory", NO_DRIVER_SCOPE, spec=TEAM),
    Denial("with empty scope elsewhere", LBD, "memory", "", spec={"scope": []}),
    Denial("with scope in kube-system", LBD, "lbcf-memory", "", SYSTEM, spec=TEAM),
    Denial("with prefix elsewhere", LB, "lbcf-web", NO_PREFIX),
    Denial("with prefix in kube-system", LB, "lbcf-web", "", SYSTEM),
    Denial("without prefix in kube-system", LB, "web", "", SYSTEM),
    Denial("with scope elsewhere", LB, "lbcf-web", NO_SCOPE, spec=TEAM),
    Denial("with scope in kube-system", LB, "lbcf-web", "", SYSTEM, spec=TEAM),
    Denial("not draining", LBD, "busy", NOT_DRAINING, verb="delete"),
    Denial("draining", LBD, "draining", "", verb="delete", labels=DRAINING),
    Denial(
        "draining: no", LBD, "no", NOT_DRAINING, verb="delete",
        labels={"lbcf.tkestack.io/driver-draining": "false"},
    ),
    Denial("do not delete", LB, "kept", KEPT, verb="delete", labels=KEEP),
    Denial("do not delete", BG, "kept", KEPT, verb="delete", labels=KEEP),
    Denial("do not delete", BIND, "kept", KEPT, verb="delete", labels=KEEP),
    Denial("with another label", LB, "free", "", verb="delete", labels={"app": "web"}),
    Denial("with another label", BG, "free", "", verb="delete", labels={"app": "web"}),
)  # fmt: skip


def _done(denial: Denial, api: Api) -> Answer:
    """The answer to what is done, as a trial."""
    if denial.verb == "create":
        return api.create(denial.document())
    api.store(denial.document())
    return api.delete(denial.document(), "dryRun=All")


@pytest.mark.parametrize("denial", DENIALS, ids=str)
def test_denial(denial: Denial, api: Api) -> None:
    """What a policy forbids is refused with its words, and nothing else is."""
    answer = _done(denial, api)
    api.remove(denial.document())

    assert (not denial.says) == answer.accepted, answer.message
    assert denial.says in answer.message


def _denying() -> list[Document]:
    """The policies that refuse; what warns is in test_cluster_policies.py."""
    return read_all(POLICIES / "policies.yaml")


def test_every_rule_of_the_policies_has_a_row() -> None:
    """Each rule of each policy is broken by at least one row."""
    said = {denial.says for denial in DENIALS if denial.says}
    messages = [
        rule["message"] for d in _denying() for rule in d["spec"].get("validations", ())
    ]

    assert messages
    assert [] == [m for m in messages if not any(words in m for words in said)]


@pytest.mark.parametrize(
    ("name", "action", "failure"),
    [("policies", "Deny", "Fail"), ("warnings", "Warn", "Ignore")],
)
def test_every_policy_is_bound(name: str, action: str, failure: str) -> None:
    """Each has the binding of its name; what warns never stands in the way."""
    found = read_all(POLICIES / f"{name}.yaml")
    bound = {d["spec"].get("policyName"): d["spec"] for d in found}
    policies = [d for d in found if d["kind"] == "ValidatingAdmissionPolicy"]

    assert policies
    for policy in policies:
        assert [action] == bound[policy["metadata"]["name"]]["validationActions"]
        assert failure == policy["spec"]["failurePolicy"]


@pytest.mark.usefixtures("policies")
def test_policies_type_check(control_plane: Cluster) -> None:
    """The API server's type checker has nothing to say against the expressions."""
    text = control_plane.kubectl("get", "validatingadmissionpolicies", "-o", "json")
    warnings = [
        warning
        for policy in json.loads(text)["items"]
        for warning in policy.get("status", {})
        .get("typeChecking", {})
        .get("expressionWarnings", ())
    ]

    assert [] == warnings


@pytest.mark.parametrize(
    ("older", "change", "says"),
    [
        (
            Denial("", LB, "lbcf-older", "", spec=TEAM),
            {"attributes": {"timeout": "60"}},
            NO_SCOPE,
        ),
        (
            Denial("", LBD, "lbcf-older", "", spec=TEAM),
            {"maxConcurrentCalls": 8},
            NO_DRIVER_SCOPE,
        ),
    ],
    ids=["load balancer", "driver"],
)
def test_what_is_older_than_its_policy_can_change(
    control_plane: Cluster,
    api: Api,
    older: Denial,
    change: Mapping[str, Any],
    says: str,
) -> None:
    """An object that a policy came too late for can be edited, hence also released."""
    policy = f"{older.kind.lower()}s.lbcf.tkestack.io"
    old = older.document()
    control_plane.kubectl("delete", "validatingadmissionpolicybinding", policy)
    await_answer(lambda: api.create(old).accepted)
    made = api.store(old)
    control_plane.kubectl("apply", "-f", POLICIES)
    another = attrs.evolve(older, name="lbcf-new", spec={}).document()
    await_answer(lambda: not api.create(another).accepted)
    made["spec"] |= change

    edited = api.replace(made)
    widened = api.replace({**made, "spec": {**made["spec"], "scope": ["*"]}})
    narrowed = api.replace({**made, "spec": {**made["spec"], "scope": []}})
    api.remove(old)

    assert (True, "") == (edited.accepted, edited.message)
    assert says in widened.message
    assert (True, "") == (narrowed.accepted, narrowed.message)


def test_a_namespace_with_a_driver_can_end(control_plane: Cluster) -> None:
    """A namespace that is deleted takes its drivers along, draining or not."""
    with control_plane.namespace("ending") as name:
        with Api.connect(control_plane.kubeconfig, name) as api:
            api.store(Denial("", LBD, "memory", "").document())
        control_plane.kubectl("delete", "namespace", name, f"--timeout={PATIENCE}s")
        control_plane.kubectl("create", "namespace", name)
