"""Our service accounts on a control plane: their tokens, and what their roles say."""

import json

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import yaml

from tests.lab.cluster import AuditEvent, Cluster
from tests.manifests.api import Api
from tests.manifests.documents import ROOT, samples
from tests.manifests.fixtures import await_answer


RBAC = ROOT / "manifests" / "rbac"
RECORDS = RBAC / "records.yaml"
WEBHOOK = ROOT / "manifests" / "webhook"
NAMESPACE = "lbcf-system"


@attrs.frozen
class Right:
    """One verb on one resource, perhaps on some objects of it alone.

    Attributes:
        namespace: where; empty for everywhere.
        names: of objects; empty for all.
    """

    namespace: str
    group: str
    resource: str
    verb: str
    names: tuple[str, ...] = ()

    def allows(self, event: AuditEvent) -> bool:
        """Whether it is what a request needs."""
        asked = (event.group, event.resource, event.verb)
        if asked != (self.group, self.resource, self.verb):
            return False
        if self.names and event.name not in self.names:
            return False
        return self.namespace in {"", event.namespace}


def apply(cluster: Cluster) -> None:
    """Make the namespace, the accounts, the roles, and the webhook's own Secret.

    Not who may write records: most tests have processes of other accounts.
    """
    for path in [*_files(RBAC), WEBHOOK / "rbac.yaml", WEBHOOK / "service.yaml"]:
        if path != RECORDS:
            cluster.kubectl("apply", "-f", path)


@contextmanager
def guarding_records(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Have our accounts alone write the records of a namespace, as is shipped for all."""
    policy, binding = _all(RECORDS)
    own = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding["spec"]["matchResources"] = {"namespaceSelector": own}
    for document in (policy, binding):
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(document))
    trial = samples()["BackendRecord static"]
    with Api.connect(cluster.kubeconfig, namespace) as api:
        await_answer(lambda: not api.create(trial).accepted)
        try:
            yield
        finally:
            cluster.kubectl("delete", "-f", RECORDS)
            await_answer(lambda: api.create(trial).accepted)


def _files(folder: Path) -> list[Path]:
    """The files of a folder in the order in which kustomize takes them."""
    listed = yaml.safe_load((folder / "Kustomization").read_text())["resources"]
    return [folder / name for name in listed]


def rights_of(account: str) -> list[Right]:
    """All that the shipped roles give to one of our accounts, one by one."""
    documents = [
        d for path in [*_files(RBAC), WEBHOOK / "rbac.yaml"] for d in _all(path)
    ]
    return [
        right
        for binding in documents
        if binding["kind"] in {"ClusterRoleBinding", "RoleBinding"}
        for subject in binding["subjects"]
        if subject["name"] == account
        for role in documents
        if (role["kind"], role["metadata"]["name"])
        == (binding["roleRef"]["kind"], binding["roleRef"]["name"])
        for right in _spelled_out(role, binding["metadata"].get("namespace", ""))
    ]


def _all(path: Path) -> list[dict[str, Any]]:
    """All documents of a file."""
    return [d for d in yaml.safe_load_all(path.read_text()) if d]


def _spelled_out(role: dict[str, Any], namespace: str) -> Iterator[Right]:
    """Every combination that a role's rules stand for."""
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    names = tuple(rule.get("resourceNames", ()))
                    yield Right(namespace, group, resource, verb, names)


def user_of(account: str) -> str:
    """Under which name one of our accounts is in the audit log."""
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def login(cluster: Cluster, account: str, folder: Path) -> Path:
    """A kubeconfig with a token of one of our accounts."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.kubectl("create", "token", account, "-n", NAMESPACE).strip()
    config["users"][0]["user"] = {"token": token}
    path = folder / f"{account}.kubeconfig"
    path.write_text(json.dumps(config))
    return path
