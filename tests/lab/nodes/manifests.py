"""What the bench puts into the cluster: the web app, its Service, and the group."""

from typing import Any

from tests.lab.demo.haproxy import BACKEND


APP, BALANCER, HOST_LABEL = "web", "haproxy", "app-host"
REPLICAS, SPARE = 4, 1
SERVING_ON = 8  # seconds that a pod serves after it was told to end
_OURS = "lbcf.tkestack.io/v1beta1"
Manifest = dict[str, Any]


def web_app(namespace: str) -> list[Manifest]:
    """The app on the nodes with the label, its disruption budget, its Service."""
    selector = {"matchLabels": {"app": APP}}
    return [
        _object(
            "apps/v1",
            "Deployment",
            namespace,
            {
                "replicas": REPLICAS,
                "minReadySeconds": 1,
                "selector": selector,
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 2},
                },
                "template": {"metadata": {"labels": {"app": APP}}, "spec": _pod()},
            },
        ),
        _object(
            "policy/v1",
            "PodDisruptionBudget",
            namespace,
            {"minAvailable": REPLICAS - SPARE, "selector": selector},
        ),
        _object(
            "v1",
            "Service",
            namespace,
            {
                "type": "NodePort",
                "selector": {"app": APP},
                "ports": [{"port": 80, "targetPort": "http"}],
            },
        ),
    ]


def _pod() -> Manifest:
    """Pods that spread over their nodes, and serve on after they were told to end."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": APP}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    container = {
        "name": APP,
        "image": "lbcf.local/web:1",
        "imagePullPolicy": "Never",
        "env": [{"name": "DRAIN", "value": "0"}],
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "http"},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
        },
        "lifecycle": {"preStop": {"sleep": {"seconds": SERVING_ON}}},
    }
    return {
        "terminationGracePeriodSeconds": 30,
        "automountServiceAccountToken": False,
        "nodeSelector": {HOST_LABEL: "yes"},
        "topologySpreadConstraints": [spread],
        "containers": [container],
    }


def load_balancing(namespace: str, url: str, socket: str) -> list[Manifest]:
    """The driver, the load balancer, and the group of the Service's node ports."""
    driver = {
        "driverType": "Webhook",
        "url": url,
        "memberKey": "Record",
        "addressSource": "Backend",
        "webhooks": [
            {"name": "drainBackend", "timeout": "5s"},
            {"name": "listBackends", "timeout": "5s"},
        ],
    }
    balancer = {"lbDriver": BALANCER, "lbSpec": {"sockets": socket, "backend": BACKEND}}
    group = {
        "loadBalancers": [BALANCER],
        "service": {"name": APP, "port": {"port": 80}},
        "drain": {"timeoutSeconds": 10},
    }
    return [
        _object(_OURS, "LoadBalancerDriver", namespace, driver, BALANCER),
        _object(_OURS, "LoadBalancer", namespace, balancer, BALANCER),
        _object(_OURS, "BackendGroup", namespace, group),
    ]


def _object(
    version: str, kind: str, namespace: str, spec: Manifest, name: str = APP
) -> Manifest:
    """An object."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
