"""What people may do: the roles that are added to those that every cluster has."""

from collections.abc import Iterator

import pytest

from lbcf.core.model.names import API_GROUP
from tests.lab.cluster import Cluster
from tests.manifests import accounts
from tests.manifests.api import Api
from tests.manifests.fixtures import await_answer


pytestmark = pytest.mark.cluster

READS = ("get", "list", "watch")
WRITES = ("create", "update", "patch", "delete", "deletecollection")
KINDS = (
    "loadbalancerdrivers",
    "loadbalancers",
    "backendgroups",
    "binds",
    "backendrecords",
)


@pytest.fixture(scope="module", name="shop")
def _shop(control_plane: Cluster) -> Iterator[Api]:
    """A namespace in which viewer, editor and admin are bound to the usual roles."""
    accounts.apply(control_plane)
    with (
        control_plane.namespace("shop") as name,
        Api.connect(control_plane.kubeconfig, name) as api,
    ):
        for user, role in (("viewer", "view"), ("editor", "edit"), ("admin", "admin")):
            control_plane.kubectl(
                *("create", "rolebinding", user, "-n", name),
                *(f"--clusterrole={role}", f"--user={user}"),
            )
        # The roles are put together by a controller, which takes a moment.
        await_answer(lambda: _may(api, "admin", "create", "loadbalancerdrivers"))
        await_answer(lambda: _may(api, "viewer", "list", "backendrecords"))
        yield api


def _may(
    api: Api, user: str, verb: str, resource: str, namespace: str | None = None
) -> bool:
    """Ask the API server whether a user may do something."""
    kind, _, part = resource.partition("/")
    asked = {
        "namespace": namespace or api.namespace,
        "verb": verb,
        "group": API_GROUP,
        "resource": kind,
        "subresource": part,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": asked},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = api.send("POST", path, review)
    return bool(answer.body["status"]["allowed"])


@pytest.mark.parametrize(
    ("user", "writable"),
    [
        ("viewer", set()),
        ("editor", {"loadbalancers", "backendgroups", "binds"}),
        ("admin", {"loadbalancerdrivers", "loadbalancers", "backendgroups", "binds"}),
    ],
)
def test_people_write_what_is_theirs(shop: Api, user: str, writable: set[str]) -> None:
    """All read all kinds; nobody writes records, which are the controller's."""
    may_read = {k for k in KINDS for v in READS if _may(shop, user, v, k)}
    may_write = {k for k in KINDS for v in WRITES if _may(shop, user, v, k)}

    assert set(KINDS) == may_read
    assert writable == may_write


@pytest.mark.parametrize("user", ["viewer", "editor", "admin"])
def test_nobody_reaches_over_the_fence(shop: Api, user: str) -> None:
    """No status, and nothing in other namespaces, kube-system above all."""
    statuses = [k for k in KINDS for v in WRITES if _may(shop, user, v, f"{k}/status")]
    elsewhere = [
        (verb, kind, namespace)
        for namespace in ("default", "kube-system", accounts.NAMESPACE)
        for kind in KINDS
        for verb in (*READS, *WRITES)
        if _may(shop, user, verb, kind, namespace)
    ]

    assert [] == statuses
    assert [] == elsewhere


@pytest.mark.parametrize(
    ("account", "verb", "resource"),
    [
        ("lbcf-deregistrar", "create", "backendrecords"),
        ("lbcf-deregistrar", "delete", "backendrecords"),
        ("lbcf-deregistrar", "patch", "loadbalancers"),
        ("lbcf-controller", "create", "binds"),
        ("lbcf-controller", "delete", "loadbalancerdrivers"),
        ("lbcf-controller", "patch", "loadbalancerclasses"),
        ("lbcf-deregistrar", "delete", "loadbalancers"),
        ("lbcf-admission", "list", "loadbalancers"),
        ("lbcf-admission", "get", "backendrecords"),
        ("lbcf-haproxy", "get", "loadbalancers"),
    ],
)
def test_our_own_processes_cannot_do_each_others_work(
    shop: Api, account: str, verb: str, resource: str
) -> None:
    """One account each, with the least that works."""
    assert not _may(shop, accounts.user_of(account), verb, resource)
