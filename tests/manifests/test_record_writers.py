"""Who may write records, and who takes their finalizer off, on the real API server."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest

from lbcf.core.model.names import ANNOTATION_ABANDON, FINALIZER_RECORD, LABEL_BUCKET
from tests.lab.cluster import Cluster
from tests.manifests import accounts
from tests.manifests.api import Answer, Api
from tests.manifests.documents import Document, samples


pytestmark = pytest.mark.cluster

ADMINISTRATOR = "administrator"
CONTROLLER = accounts.user_of("lbcf-controller")
DEREGISTRAR = accounts.user_of("lbcf-deregistrar")
NAMESAKE = "system:serviceaccount:shop:lbcf-deregistrar"
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
USERS = (ADMINISTRATOR, CONTROLLER, DEREGISTRAR, NAMESAKE, COLLECTOR)

NOT_YOURS = "a BackendRecord is what drivers were told"
HELD = "metadata.finalizers: only the deregistrar takes"
SHARD = f"metadata.labels: {LABEL_BUCKET} says which shard ends the record"
SAMPLE = "BackendRecord pod"
OTHER = "example.com/held"


@attrs.frozen
class Shop:
    """A namespace whose records our accounts alone write, one of which is there.

    Attributes:
        apis: the API server as each user asks it; all of them may do everything.
    """

    apis: Mapping[str, Api]

    def patch(self, user: str, change: Mapping[str, Any], part: str = "") -> Answer:
        """Change the record, as a trial."""
        api = self.apis[user]
        tail = f"/{part}" if part else ""
        path = f"{api.path_of(samples()[SAMPLE])}{tail}?dryRun=All"
        return api.send("PATCH", path, change, "application/merge-patch+json")

    def delete(self, user: str) -> Answer:
        """Delete the record, as a trial."""
        return self.apis[user].delete(samples()[SAMPLE], "dryRun=All")


@pytest.fixture(scope="module", name="shop")
def _shop(control_plane: Cluster, crds: Path) -> Iterator[Shop]:
    """A record with a finalizer of ours and one of somebody else's."""
    assert crds.is_dir()
    with ExitStack() as stack:
        namespace = stack.enter_context(control_plane.namespace("records"))
        logins = {user: control_plane.kubeconfig_for(user) for user in USERS}
        apis = {
            user: stack.enter_context(Api.connect(login, namespace))
            for user, login in logins.items()
        }
        uid = ("namespace", namespace, "--output", "jsonpath={.metadata.uid}")
        record = _held(
            samples()[SAMPLE], namespace, control_plane.kubectl("get", *uid).strip()
        )
        apis[ADMINISTRATOR].store(record)
        stack.callback(apis[ADMINISTRATOR].remove, record)
        stack.enter_context(accounts.guarding_records(control_plane, namespace))
        yield Shop(apis)


def _held(record: Document, namespace: str, uid: str) -> Document:
    """The record with finalizers and a bucket, and an owner that lives as long as it."""
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": namespace, "uid": uid}
    labels = {**record["metadata"].get("labels", {}), LABEL_BUCKET: "7"}
    held = {
        "finalizers": [FINALIZER_RECORD, OTHER],
        "labels": labels,
        "ownerReferences": [owner],
    }
    return {**record, "metadata": {**record["metadata"], **held}}


def _meta(**change: object) -> Mapping[str, Any]:
    """A change of metadata."""
    return {"metadata": change}


SPEC = {"spec": {"parameters": {"weight": "9"}}}
STATUS = {"status": {"nextAttempt": "2026-01-01T00:00:06Z"}}
RELEASE = _meta(finalizers=[OTHER])
BARE = _meta(finalizers=None)


@pytest.mark.parametrize(
    ("user", "change", "part", "says"),
    [
        (ADMINISTRATOR, SPEC, "", NOT_YOURS),
        (ADMINISTRATOR, STATUS, "status", NOT_YOURS),
        (NAMESAKE, SPEC, "", NOT_YOURS),
        (CONTROLLER, SPEC, "", ""),
        (CONTROLLER, STATUS, "status", ""),
        (DEREGISTRAR, STATUS, "status", ""),
        (ADMINISTRATOR, RELEASE, "", HELD),
        (ADMINISTRATOR, BARE, "", HELD),
        (NAMESAKE, RELEASE, "", HELD),
        (CONTROLLER, RELEASE, "", HELD),
        (DEREGISTRAR, RELEASE, "", ""),
        (DEREGISTRAR, BARE, "", ""),
        (ADMINISTRATOR, _meta(finalizers=[FINALIZER_RECORD]), "", ""),
        (ADMINISTRATOR, _meta(annotations={ANNOTATION_ABANDON: "gone"}), "", ""),
        (ADMINISTRATOR, _meta(labels={"team": "shop"}), "", ""),
        (ADMINISTRATOR, _meta(labels={LABEL_BUCKET: "8"}), "", SHARD),
        (ADMINISTRATOR, _meta(labels={LABEL_BUCKET: None}), "", SHARD),
        (ADMINISTRATOR, _meta(labels=None), "", SHARD),
        (CONTROLLER, _meta(labels={LABEL_BUCKET: "8"}), "", SHARD),
        (COLLECTOR, _meta(ownerReferences=None), "", ""),
    ],
)
def test_change_of_a_record(
    shop: Shop, user: str, change: Mapping[str, Any], part: str, says: str
) -> None:
    """What is not ours alone may be changed, our finalizer goes by one hand."""
    answer = shop.patch(user, change, part)

    assert (not says) == answer.accepted, answer.message
    assert says in answer.message


@pytest.mark.parametrize("user", USERS)
def test_new_record(shop: Shop, user: str) -> None:
    """Our processes write them, nobody else."""
    answer = shop.apis[user].create(samples()["BackendRecord static"])

    assert (user in {CONTROLLER, DEREGISTRAR}) == answer.accepted, answer.message
    assert answer.accepted or NOT_YOURS in answer.message


@pytest.mark.parametrize("user", USERS)
def test_record_can_always_be_deleted(shop: Shop, user: str) -> None:
    """That is how its end is asked for; the finalizer sees to the rest."""
    assert shop.delete(user).accepted
