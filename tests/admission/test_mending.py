"""An object that is stored, and that nobody understands, is mended by whoever wrote it."""

from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
import pytest

from prometheus_client import CollectorRegistry

from lbcf.admission.decisions import Admitted, Cause, Denied, DriverFailurePolicy
from lbcf.admission.review import parse_review
from lbcf.admission.reviewer import Reviewer
from lbcf.core.model.names import API_VERSION
from lbcf.drivers.pool import DriverPool
from lbcf.kube.client import KubeClient
from lbcf.kube.secrets import Secrets
from lbcf.runtime.clock import SystemClock
from tests.kube.tiny_api import Json, TinyApi


META: Json = {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1"}
PODS: Json = {"ports": [{"port": 80}], "byName": ["a"]}
ENTRIES: list[Json] = [{"name": "front", "driver": "proxy", "spec": {}}]
GOOD: dict[str, Json] = {
    "loadbalancers": {"lbDriver": "proxy", "lbSpec": {}},
    "backendgroups": {"loadBalancers": ["front"], "pods": PODS},
    "binds": {"loadBalancers": ENTRIES, "pods": PODS},
}
ODD: dict[str, Json] = {
    "loadbalancers": {"ensurePolicy": {"policy": "Sometimes"}},
    "backendgroups": {"deregisterPolicy": "Sometimes"},
    "binds": {"deregisterPolicy": "Sometimes"},
}
KINDS = sorted(GOOD)


@pytest.fixture(name="api")
def _api() -> TinyApi:
    """What objects refer to."""
    return TinyApi()


@pytest.fixture(name="reviewer")
async def _reviewer(api: TinyApi) -> AsyncIterator[Reviewer]:
    """The judge."""
    client, clock = KubeClient(api), SystemClock()
    drivers, secrets = DriverPool(clock, CollectorRegistry()), Secrets(client, clock)
    yield Reviewer(client, drivers, secrets, DriverFailurePolicy.FAIL)
    await drivers.close()


async def judged(
    reviewer: Reviewer, kind: str, old: Json, new: Json
) -> Admitted | Denied:
    """Ask about a change."""
    asked: Json = {
        "uid": "q",
        "resource": {"group": "lbcf.tkestack.io", "version": "v1", "resource": kind},
        "operation": "UPDATE",
        "namespace": "shop",
        "name": "web",
        "object": {"metadata": META, **new},
        "oldObject": {"metadata": META, **old},
    }
    version = "admission.k8s.io/v1"
    body = {"apiVersion": version, "kind": "AdmissionReview", "request": asked}
    review = parse_review(msgspec.json.encode(body))
    return await reviewer.review(review, timedelta(minutes=1))


@pytest.mark.parametrize("kind", KINDS)
async def test_spec_is_mended(reviewer: Reviewer, kind: str) -> None:
    """What is wrong with the old one is no reason to refuse the new one."""
    bad: Json = {**GOOD[kind], **ODD[kind]}
    verdict = await judged(reviewer, kind, {"spec": bad}, {"spec": GOOD[kind]})
    assert isinstance(verdict, Admitted)


@pytest.mark.parametrize("kind", KINDS)
async def test_status_that_nobody_understands(reviewer: Reviewer, kind: str) -> None:
    """It comes along with each change of the spec, which cannot mend it."""
    status: Json = {"conditions": 7}
    if kind == "binds":
        status = {"loadBalancerStatuses": 7}
    old: Json = {"spec": GOOD[kind], "status": status}
    new: Json = {"spec": {**GOOD[kind], "ensurePolicy": None}, "status": status}
    assert Admitted() == await judged(reviewer, kind, old, new)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_stays_odd_is_refused(reviewer: Reviewer, kind: str) -> None:
    """A change has to be understood, whatever was there before."""
    bad: Json = {**GOOD[kind], **ODD[kind]}
    old: Json = {"spec": bad, "status": {"conditions": 7}}
    verdict = await judged(reviewer, kind, old, old)
    assert isinstance(verdict, Denied)
    assert "Sometimes" in verdict.message


async def test_mended_group_gets_no_right_by_it(
    reviewer: Reviewer, api: TinyApi
) -> None:
    """Nobody knows what it had before: each load balancer has to be open to it."""
    name = "lbcf-front"
    path = f"/apis/{API_VERSION}/namespaces/kube-system/loadbalancers/{name}"
    spec: Json = {"lbDriver": "proxy", "lbSpec": {}, "scope": ["elsewhere"]}
    api.put(path, {"apiVersion": API_VERSION, "metadata": {"name": name}, "spec": spec})
    group: Json = {**GOOD["backendgroups"], "loadBalancers": [name]}
    bad: Json = {**group, **ODD["backendgroups"]}

    verdict = await judged(reviewer, "backendgroups", {"spec": bad}, {"spec": group})

    assert isinstance(verdict, Denied)
    assert Cause.FORBIDDEN is verdict.cause
