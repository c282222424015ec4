"""What the demo puts into the cluster: the web app, and how it is load-balanced.

The web app does nothing for its load balancing: it ends at SIGTERM, in the middle of its answers,
has no preStop, and counts as available as soon as its probe succeeds. What keeps requests from
failing are the two gates, which its pods get by their labels: with the drain gate (docs/gates.md)
they get SIGTERM when the load balancer has let go of them, with the readiness gate (docs/readiness.md)
they are Ready when it has taken them in.

In a foreign cluster, whose pods may not reach the deregistrar here, there are no gates: the app serves on
for `GRACE` seconds after it was told to end (`preStop`), and new pods count as available after
`MIN_READY` seconds (`minReadySeconds`).
"""

import json

from collections.abc import Mapping
from typing import Any

import attrs

from lbcf.core.model.names import API_GROUP
from tests.lab.demo.options import Options


REPLICAS = 6
SURGE = 3
SURGING = {"maxUnavailable": 0, "maxSurge": SURGE}
QUARTER = {"maxUnavailable": "25%", "maxSurge": 0}
PORT = 8080
GRACE = 10
TERMINATION_GRACE = 120
DRAIN_TIMEOUT = 15
MIN_READY = 3
APP = "web"
GROUP = "web"
RUN_LABEL = "lbcf-demo-run"  # a label that no pod of other people has
API_VERSION = f"{API_GROUP}/v1beta1"

Manifest = Mapping[str, Any]


@attrs.frozen
class Place:
    """Where things are, as the manifests need to say.

    Attributes:
        namespace: the demo's namespace.
        driver_url: where the driver listens.
        lb_spec: of the LoadBalancer.
        attributes: of the LoadBalancer.
        told: where pods tell of their SIGTERM, as HOST:PORT; empty: nowhere.
    """

    namespace: str
    driver_url: str
    lb_spec: Mapping[str, str]
    attributes: Mapping[str, str] = {}
    told: str = ""


def render(manifests: list[Manifest]) -> str:
    """One text that `kubectl apply -f -` takes."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})


def gate_labels() -> dict[str, str]:
    """What a pod says to get both gates."""
    return {
        f"{API_GROUP}/drain-gate": "enabled",
        f"{API_GROUP}/readiness-gate": "true",
    }


def web_app(place: Place, options: Options) -> list[Manifest]:
    """The web app and its disruption budget."""
    selector = {"matchLabels": {"app": APP}}
    labels = {"app": APP, RUN_LABEL: place.namespace}
    if options.gates:
        labels |= gate_labels()
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": APP, "namespace": place.namespace},
            "spec": {
                "replicas": REPLICAS,
                "minReadySeconds": MIN_READY if options.foreign else 0,
                "selector": selector,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": SURGING},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": _pod_spec(place, options),
                },
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": APP, "namespace": place.namespace},
            "spec": {"minAvailable": REPLICAS - 2, "selector": selector},
        },
    ]


def _pod_spec(place: Place, options: Options) -> Manifest:
    """The pods: spread over the nodes, at an end at SIGTERM."""
    ends = {"DRAIN": "0"} if options.foreign else {"AT_ONCE": "yes", "TELL": place.told}
    env = {"VERSION": "0"} | ends
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": APP}},
    }
    container = {
        "name": APP,
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "http"},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
        },
    }
    if options.foreign and options.drain:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": GRACE}}}
    return {
        "terminationGracePeriodSeconds": TERMINATION_GRACE,
        "automountServiceAccountToken": False,
        "topologySpreadConstraints": [spread],
        "containers": [container],
    }


def load_balancing(place: Place, options: Options) -> list[Manifest]:
    """The driver, the load balancer and the group of backends."""
    declared = [
        {"name": "drainBackend", "timeout": "5s"},
        {"name": "listBackends", "timeout": "5s"},
    ]
    driver = {
        "driverType": "Webhook",
        "url": place.driver_url,
        "memberKey": "Record",
        "addressSource": "Backend",
        "webhooks": declared,
    }
    balancer = {
        "lbDriver": options.driver,
        "lbSpec": place.lb_spec,
        "attributes": place.attributes,
    }
    group = {
        "loadBalancers": [options.driver],
        "pods": {
            "ports": [{"port": PORT, "protocol": "TCP"}],
            "byLabel": {"selector": {"app": APP}},
        },
        "drain": {"enabled": options.drain, "timeoutSeconds": DRAIN_TIMEOUT},
    }
    return [
        _resource(place, "LoadBalancerDriver", options.driver, driver),
        _resource(place, "LoadBalancer", options.driver, balancer),
        _resource(place, "BackendGroup", GROUP, group),
    ]


def _resource(place: Place, kind: str, name: str, spec: Manifest) -> Manifest:
    """An object of one of our own kinds."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": place.namespace},
        "spec": spec,
    }
