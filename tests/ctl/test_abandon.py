"""`abandon`: what it refuses, and in whose words."""

from typing import Any

import pytest

from lbcf.core.model.names import (
    ANNOTATION_ABANDON,
    FINALIZER_LOAD_BALANCER,
    SYSTEM_NAMESPACE,
)
from lbcf.ctl.errors import CtlError
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import LOAD_BALANCERS
from tests.ctl.servers import Guarded, put, run_command
from tests.e2e import objects
from tests.kube.tiny_api import TinyApi


PATH = "/apis/lbcf.tkestack.io/v1beta1/namespaces/shop/loadbalancers/front"
LET_GO = ("abandon", "lb/front", "--reason", "it is gone", "--yes")


def an_api(
    *finalizers: str, name: str = "front", namespace: str = "shop", **metadata: Any
) -> TinyApi:
    """Make an API server with a load balancer that is being deleted."""
    api, body = TinyApi(), objects.a_load_balancer(name)
    body["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": list(finalizers),
        "namespace": namespace,
        **metadata,
    }
    put(api, LOAD_BALANCERS, body)
    return api


def refusing(code: int, words: str, method: str = "PATCH") -> Guarded:
    """Make one that refuses a verb with these words."""
    api = an_api(FINALIZER_LOAD_BALANCER)
    return Guarded(api, lambda verb, _path: (code, words) if verb == method else None)


async def test_annotation_has_the_reason() -> None:
    """Also of a load balancer that is shared."""
    api = an_api(FINALIZER_LOAD_BALANCER, name="lbcf-x", namespace=SYSTEM_NAMESPACE)
    words = ("abandon", "lb/lbcf-x", *LET_GO[2:])
    status, [report] = await run_command(KubeClient(api), *words)

    [found] = api.objects.values()
    annotations: Any = found["metadata"]
    assert (0, {ANNOTATION_ABANDON: "it is gone"}) == (
        status,
        annotations["annotations"],
    )
    assert (SYSTEM_NAMESPACE, "lb/lbcf-x") == (report.namespace, report.subject)


async def test_object_that_others_hold_is_not_ours_to_let_go() -> None:
    """The annotation would be heeded by nobody."""
    api = an_api("example.com/x")
    told = "lb/front is not held by us any more; its finalizers: example.com/x"
    with pytest.raises(CtlError, match=told):
        await run_command(KubeClient(api), *LET_GO)

    assert "annotations" not in str(api.objects)


async def test_right_that_is_missing_is_named() -> None:
    """To read as well as to write."""
    words = 'is forbidden: User "t" cannot {} resource "loadbalancers" in API group'
    told = "may not {} loadbalancers.lbcf.tkestack.io in namespace shop"
    for method, verb in (("GET", "get"), ("PATCH", "patch")):
        guarded = refusing(403, words.format(verb), method)
        with pytest.raises(CtlError, match=f"^{told.format(verb)}$"):
            await run_command(KubeClient(guarded), *LET_GO)


async def test_rule_of_admission_is_told_in_its_own_words() -> None:
    """It is no right that is missing."""
    words = "is forbidden: ValidatingAdmissionPolicy 'x' denied request: not on Fridays"

    with pytest.raises(CtlError, match="not on Fridays"):
        await run_command(KubeClient(refusing(403, words)), *LET_GO)


async def test_kind_that_is_not_installed_is_named() -> None:
    """The API server can be asked very well."""
    told = "the cluster knows no loadbalancers: install manifests/crds"

    with pytest.raises(CtlError, match=told):
        await run_command(KubeClient(refusing(404, "", "GET")), *LET_GO)


async def test_load_balancer_of_a_bind_is_no_object() -> None:
    """Its Bind has the annotation."""
    api = an_api(FINALIZER_LOAD_BALANCER)
    words = ("abandon", "lb/bind/both/front", *LET_GO[2:])

    with pytest.raises(CtlError, match="lb/bind/both/front goes with its Bind"):
        await run_command(KubeClient(api), *words)
    assert [] == api.requests
