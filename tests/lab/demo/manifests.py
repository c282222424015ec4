"""What the demo puts into the cluster: the web app, and how it is load-balanced.

The web app is made as somebody would make it who means it. Its pods go on serving for
`GRACE` seconds after they were told to end (`preStop`): that is the time within which
the load balancer has to be told, also when controller and deregistrar were killed just
then and have to start first. New pods count as available only after `MIN_READY` seconds
(`minReadySeconds`): a rolling update knows nothing of the load balancer and would else
take the old pods away before the new ones are registered. With the drain switched off
there is neither a drain in the group nor a preStop, and the pods end at once.
"""

import json

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tests.lab.demo.haproxy import BACKEND
from tests.lab.demo.options import Options


REPLICAS = 6
SURGE = 3
PORT = 8080
GRACE = 10
TERMINATION_GRACE = 30
DRAIN_TIMEOUT = 15
MIN_READY = 3
APP = "web"
GROUP = "web"
LOAD_BALANCER = "haproxy"
DRIVER = "haproxy"
RUN_LABEL = "lbcf-demo-run"  # a label that no pod of other people has
API_VERSION = "lbcf.tkestack.io/v1beta1"

Manifest = Mapping[str, Any]


@attrs.frozen
class Place:
    """Where things are, as the manifests need to say.

    Attributes:
        namespace: the demo's namespace.
        driver_url: where the driver listens.
        sockets: HAProxy's runtime socket.
    """

    namespace: str
    driver_url: str
    sockets: Path


def render(manifests: list[Manifest]) -> str:
    """One text that `kubectl apply -f -` takes."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})


def web_app(place: Place, options: Options) -> list[Manifest]:
    """The web app and its disruption budget."""
    selector = {"matchLabels": {"app": APP}}
    rolling = {"maxUnavailable": 0, "maxSurge": SURGE}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": APP, "namespace": place.namespace},
            "spec": {
                "replicas": REPLICAS,
                "minReadySeconds": MIN_READY,
                "selector": selector,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
                "template": {
                    "metadata": {"labels": {"app": APP, RUN_LABEL: place.namespace}},
                    "spec": _pod_spec(options),
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


def _pod_spec(options: Options) -> Manifest:
    """The pods: spread over the nodes, serving on after they were told to end."""
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
        "env": [{"name": "VERSION", "value": "0"}, {"name": "DRAIN", "value": "0"}],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "http"},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
        },
    }
    if options.drain:
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
        "lbDriver": DRIVER,
        "lbSpec": {"sockets": str(place.sockets), "backend": BACKEND},
    }
    group = {
        "loadBalancers": [LOAD_BALANCER],
        "pods": {
            "ports": [{"port": PORT, "protocol": "TCP"}],
            "byLabel": {"selector": {"app": APP}},
        },
        "drain": {"enabled": options.drain, "timeoutSeconds": DRAIN_TIMEOUT},
    }
    return [
        _resource(place, "LoadBalancerDriver", DRIVER, driver),
        _resource(place, "LoadBalancer", LOAD_BALANCER, balancer),
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
