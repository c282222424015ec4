"""Objects of the API as tests see them: whole, as JSON."""

import json

from collections.abc import Mapping
from typing import Any

import attrs

from lbcf.core.model.names import API_GROUP
from lbcf.core.model.resources import Meta
from lbcf.kube.kinds import Resource
from lbcf.wire.metadata import parse_meta_only


@attrs.frozen
class Whole:
    """An object, whole."""

    meta: Meta
    body: Mapping[str, Any]

    @property
    def status(self) -> Mapping[str, Any]:
        """Its status, empty as long as nobody has written one."""
        status: Mapping[str, Any] = self.body.get("status", {})
        return status

    def condition(self, kind: str) -> Mapping[str, Any]:
        """Return a condition, empty where it was never set."""
        found = self.status.get("conditions", [])
        return next((c for c in found if c["type"] == kind), {})


def parse_whole(raw: bytes) -> Whole:
    """Read an object without losing anything of it."""
    return Whole(parse_meta_only(raw).meta, json.loads(raw))


def _ours(plural: str, kind: str) -> Resource[Whole]:
    """One of our own kinds."""
    return Resource(API_GROUP, "v1beta1", plural, kind, parse_whole)


PODS = Resource("", "v1", "pods", "Pod", parse_whole)
SECRETS = Resource("", "v1", "secrets", "Secret", parse_whole)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", parse_whole)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event", parse_whole)
SERVICES = Resource("", "v1", "services", "Service", parse_whole)
CLASSES = Resource(
    API_GROUP,
    "v1beta1",
    "loadbalancerclasses",
    "LoadBalancerClass",
    parse_whole,
    namespaced=False,
)
DRIVERS = _ours("loadbalancerdrivers", "LoadBalancerDriver")
LOAD_BALANCERS = _ours("loadbalancers", "LoadBalancer")
GROUPS = _ours("backendgroups", "BackendGroup")
RECORDS = _ours("backendrecords", "BackendRecord")
BINDS = Resource(API_GROUP, "v1", "binds", "Bind", parse_whole)

HELD_BY_KUBELET = "example.org/kubelet"
"""Finalizer of a pod that terminates: no kubelet is there to let it take its time."""


def epochs_of(bind: Whole) -> list[str | None]:
    """The epochs of a Bind's load balancers, None where it is not known."""
    statuses = bind.status.get("loadBalancerStatuses", [])
    found = {status["name"]: status.get("epoch") for status in statuses}
    return [found.get(entry["name"]) for entry in bind.body["spec"]["loadBalancers"]]


def a_pod(name: str, **labels: str) -> dict[str, Any]:
    """A pod that no kubelet runs: its status is the test's to write.

    It is bound to no node, since the garbage collector ends pods of nodes that do not
    exist.
    """
    return {
        "metadata": {"name": name, "labels": {"app": "web", **labels}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "web", "image": "web"}],
        },
    }


def pod_status(address: str, *, ready: bool = True) -> dict[str, Any]:
    """The status that a kubelet would write."""
    return {
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": str(ready)}],
        }
    }


def webhooks(timeout: str = "10s") -> list[dict[str, str]]:
    """What a driver can do with members, and how long each call may take.

    With LBCF's own time-out a busy machine makes no call look lost, which would be made,
    told and counted once more.
    """
    operations = ("drainBackend", "listBackends", "ensureBackend", "deregisterBackend")
    return [{"name": name, "timeout": timeout} for name in operations]


def a_driver(url: str, **spec: object) -> dict[str, Any]:
    """A driver of the kind that needs no locks and no questions about addresses."""
    return {
        "metadata": {"name": "memory"},
        "spec": {
            "driverType": "Webhook",
            "url": url,
            "memberKey": "Record",
            "addressSource": "Backend",
            "lateEffectSeconds": 1,
            "webhooks": webhooks(),
            **spec,
        },
    }


def a_load_balancer(name: str = "front", driver: str = "memory") -> dict[str, Any]:
    """A load balancer."""
    return {
        "metadata": {"name": name},
        "spec": {"lbDriver": driver, "lbSpec": {"name": name}},
    }


def a_group(
    name: str = "web", *, lbs: tuple[str, ...] = ("front",), **spec: object
) -> dict[str, Any]:
    """A group of the pods labelled app=web."""
    pods = {
        "ports": [{"port": 80, "protocol": "TCP"}],
        "byLabel": {"selector": {"app": "web"}},
    }
    return {
        "metadata": {"name": name},
        "spec": {"loadBalancers": list(lbs), "pods": pods, **spec},
    }


def an_entry(name: str, driver: str = "memory", **attributes: str) -> dict[str, Any]:
    """One of a Bind's load balancers."""
    entry = {"name": name, "driver": driver, "spec": {"name": name}}
    return entry | ({"attributes": attributes} if attributes else {})


def a_bind(
    name: str = "both", *entries: Mapping[str, Any], **spec: object
) -> dict[str, Any]:
    """A Bind of the pods labelled app=web."""
    pods = {"ports": [{"port": 80}], "byLabel": {"selector": {"app": "web"}}}
    found = list(entries) or [an_entry("front")]
    return {
        "metadata": {"name": name},
        "spec": {"loadBalancers": found, "pods": pods, **spec},
    }
