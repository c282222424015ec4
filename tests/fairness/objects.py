"""What tenants put into the API server: drivers, load balancers, groups, records."""

from collections.abc import Mapping

import attrs

from lbcf.core.model.names import (
    API_VERSION,
    BIND_VERSION,
    FINALIZER_DRIVER,
    FINALIZER_LOAD_BALANCER,
    FINALIZER_RECORD,
)
from lbcf.core.model.operations import Operation
from tests.kube.tiny_rules import Json
from tests.lab.sweep.objects import condition


def path_of(plural: str, namespace: str, name: str) -> str:
    """Return the path of an object of ours."""
    return f"/apis/{API_VERSION}/namespaces/{namespace}/{plural}/{name}"


@attrs.frozen
class Driver:
    """A driver.

    Attributes:
        url: its host says how it behaves: see `world`.
        timeouts: seconds, of the operations that it declares.
        at_once: its maxConcurrentCalls.
        is_new: the controller has not seen it yet.
        batched: operations that it takes in batches, without times of their own.
    """

    namespace: str
    name: str
    url: str
    timeouts: Mapping[Operation, int] = attrs.field(factory=dict)
    at_once: int = 32
    is_new: bool = False
    batched: tuple[Operation, ...] = ()

    @property
    def path(self) -> str:
        """Return where it is."""
        return path_of("loadbalancerdrivers", self.namespace, self.name)

    def body(self) -> Json:
        """Write it."""
        held: Json = {} if self.is_new else {"finalizers": [FINALIZER_DRIVER]}
        accepted = [] if self.is_new else [condition("Accepted", "Accepted")]
        return {
            "metadata": {"generation": 1, **held},
            "spec": {
                "driverType": "Webhook",
                "url": self.url,
                "memberKey": "Record",
                "addressSource": "Backend",
                "maxConcurrentCalls": self.at_once,
                "webhooks": [
                    *(
                        {"name": name, "timeout": f"{seconds}s"}
                        for name, seconds in self.timeouts.items()
                    ),
                    *(
                        {"name": name, "batch": {"maxItems": 100}}
                        for name in self.batched
                    ),
                ],
            },
            "status": {"conditions": accepted},
        }


@attrs.frozen
class Balancer:
    """A load balancer.

    Attributes:
        at_once: its maxConcurrentCalls; None: no limit of its own.
        is_new: its driver has not created it yet.
    """

    namespace: str
    name: str
    driver: str
    at_once: int | None = None
    is_new: bool = False

    @property
    def path(self) -> str:
        """Return where it is."""
        return path_of("loadbalancers", self.namespace, self.name)

    def body(self) -> Json:
        """Write it."""
        identity = {"id": f"{self.namespace}/{self.name}"}
        spec: Json = {"lbDriver": self.driver, "lbSpec": identity}
        if self.at_once is not None:
            spec["maxConcurrentCalls"] = self.at_once
        if self.is_new:
            return {"metadata": {"generation": 1}, "spec": spec}
        told = [
            condition("Created", "Created"),
            condition("AttributesSynced", "AttributesSynced"),
        ]
        return {
            "metadata": {"generation": 1, "finalizers": [FINALIZER_LOAD_BALANCER]},
            "spec": spec,
            "status": {"lbInfo": identity, "epoch": "epoch-1", "conditions": told},
        }


@attrs.frozen
class Bind:
    """A Bind with a load balancer at each of its drivers, and no backends."""

    namespace: str
    name: str
    drivers: tuple[str, ...]

    @property
    def path(self) -> str:
        """Return where it is."""
        return f"/apis/{BIND_VERSION}/namespaces/{self.namespace}/binds/{self.name}"

    def body(self) -> Json:
        """Write it."""
        entries: list[object] = [
            {"name": driver, "driver": driver, "spec": {"id": f"{self.name}/{driver}"}}
            for driver in self.drivers
        ]
        chosen: Json = {"ports": [{"port": 80}], "byLabel": {"selector": {"no": "one"}}}
        return {
            "metadata": {"generation": 1},
            "spec": {"loadBalancers": entries, "pods": chosen},
        }


@attrs.frozen
class Group:
    """A group of static addresses."""

    namespace: str
    name: str
    balancer: str
    addresses: tuple[str, ...]
    parameters: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def path(self) -> str:
        """Return where it is."""
        return path_of("backendgroups", self.namespace, self.name)

    def body(self) -> Json:
        """Write it."""
        return {
            "metadata": {"generation": 1},
            "spec": {
                "loadBalancers": [self.balancer],
                "static": list(self.addresses),
                "parameters": dict(self.parameters),
                "drain": {"timeoutSeconds": 30},
            },
        }


@attrs.frozen
class Record:
    """A record whose group is gone, or is not looked at.

    Attributes:
        driver: as LoadBalancers name it.
        since: when its deletion was asked for, as RFC 3339; None: it lives.
        is_new: it has not been registered yet; otherwise it is, and settled.
    """

    namespace: str
    name: str
    balancer: str
    driver: str
    since: str | None = None
    is_new: bool = False

    @property
    def path(self) -> str:
        """Return where it is."""
        return path_of("backendrecords", self.namespace, self.name)

    def body(self) -> Json:
        """Write it."""
        told = [] if self.is_new else [condition("Registered", "Registered")]
        ended: Json = {} if self.since is None else {"deletionTimestamp": self.since}
        return {
            "metadata": {
                "generation": 1 if self.since is None else 2,
                "finalizers": [FINALIZER_RECORD],
                **ended,
            },
            "spec": {
                "lbName": self.balancer,
                "lbDriver": self.driver,
                "lbInfo": {"id": f"{self.namespace}/{self.balancer}"},
                "staticAddr": f"{self.name}:80",
                "backendAddr": f"{self.name}:80",
                "drain": {"timeoutSeconds": 30},
            },
            "status": {"conditions": told},
        }


Thing = Driver | Balancer | Bind | Group | Record
