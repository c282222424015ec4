"""The objects that users and kubelets put into the API server of a `World`.

One driver `proxy`, load balancers of it that are created already, groups, pods; all in
namespace `shop`.
"""

import attrs

from lbcf.core.names import (
    API_GROUP,
    API_VERSION,
    FINALIZER_DRIVER,
    FINALIZER_LOAD_BALANCER,
)
from lbcf.core.operations import Operation
from lbcf.core.values import AddressSource, MemberKey
from tests.kube.tiny_rules import Json


SHOP = "namespaces/shop"
_OURS = f"/apis/{API_VERSION}/{SHOP}"
_SINCE = "2026-01-01T00:00:00Z"


def group_path(name: str) -> str:
    """Say where a group is."""
    return f"{_OURS}/backendgroups/{name}"


def load_balancer_path(name: str) -> str:
    """Say where a load balancer is."""
    return f"{_OURS}/loadbalancers/{name}"


def driver_path() -> str:
    """Say where the driver is."""
    return f"{_OURS}/loadbalancerdrivers/proxy"


def pod_path(name: str) -> str:
    """Say where a pod is."""
    return f"/api/v1/{SHOP}/pods/{name}"


_LATENCY = 0.05


@attrs.frozen
class Setting:
    """What kind of world it is.

    Attributes:
        drains: the driver declares drainBackend.
        lists: the driver declares listBackends.
        elect: processes work only while they hold their Lease.
        events: processes record events.
        late_effect: seconds; the driver's own word on lateEffectSeconds.
        at_once: how many calls the driver bears at a time.
        latency: seconds that an ensure takes.
        drain_timeout: seconds; the driver's own word on drainBackend.
    """

    member_key: MemberKey = MemberKey.RECORD
    address_source: AddressSource = AddressSource.BACKEND
    drains: bool = False
    lists: bool = False
    elect: bool = False
    events: bool = False
    late_effect: int = 10
    at_once: int = 32
    latency: float = _LATENCY
    drain_timeout: int = 10

    def latency_of(self, operation: Operation) -> float:
        """Say how long a call takes."""
        return self.latency if operation is Operation.ENSURE_BACKEND else _LATENCY


RECORD = Setting()
"""Members are named after records: no locks."""
BACKEND = Setting(MemberKey.ADDRESS, AddressSource.BACKEND)
"""Members are known by address, which the backend itself says: locks."""
DRIVER = Setting(MemberKey.ADDRESS, AddressSource.DRIVER)
"""Members are known by address, which the driver says: locks, as LBCF's drivers are."""

SETTINGS = {"record": RECORD, "backend": BACKEND, "driver": DRIVER}


def with_drain(setting: Setting, *, drains: bool) -> Setting:
    """Let the driver declare drainBackend, or not."""
    return attrs.evolve(setting, drains=drains)


def address_of(found: Json | None, otherwise: str) -> str:
    """Return the address of a pod; where there is none, another."""
    match found:
        case {"status": {"podIP": str(address)}}:
            return address
        case _:
            return otherwise


def condition(kind: str, reason: str) -> Json:
    """Make a condition that is true at the first generation."""
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": "",
        "observedGeneration": 1,
        "lastTransitionTime": _SINCE,
    }


def driver(setting: Setting) -> Json:
    """Make the driver; the controller has accepted it already."""
    declared: dict[Operation, int] = {}
    if setting.drains:
        declared[Operation.DRAIN_BACKEND] = setting.drain_timeout
    if setting.lists:
        declared[Operation.LIST_BACKENDS] = 10
    return {
        "metadata": {"generation": 1, "finalizers": [FINALIZER_DRIVER]},
        "spec": {
            "url": "http://driver.test",
            "memberKey": setting.member_key.value,
            "addressSource": setting.address_source.value,
            "lateEffectSeconds": setting.late_effect,
            "maxConcurrentCalls": setting.at_once,
            "webhooks": [
                {"name": name, "timeout": f"{seconds}s"}
                for name, seconds in declared.items()
            ],
        },
        "status": {"conditions": [condition("Accepted", "Accepted")]},
    }


def load_balancer(name: str = "front") -> Json:
    """Make a load balancer that the controller has created already."""
    return {
        "metadata": {"generation": 1, "finalizers": [FINALIZER_LOAD_BALANCER]},
        "spec": {"lbDriver": "proxy", "lbSpec": {"id": name}},
        "status": {
            "lbInfo": {"id": name},
            "epoch": "epoch-1",
            "conditions": [
                condition("Created", "Created"),
                condition("AttributesSynced", "AttributesSynced"),
            ],
        },
    }


def group(*, static: tuple[str, ...] | None = None, **spec: object) -> Json:
    """Make a group of the pods with label app=web, or of static addresses."""
    pods: Json = {"ports": [{"port": 80}], "byLabel": {"selector": {"app": "web"}}}
    chosen: Json = {"pods": pods} if static is None else {"static": list(static)}
    return {
        "metadata": {"generation": 1},
        "spec": {
            "loadBalancers": ["front"],
            "drain": {"timeoutSeconds": 30},
            **chosen,
            **spec,
        },
    }


def pod(address: str, *, ready: bool = True) -> Json:
    """Make a pod that runs."""
    return {
        "metadata": {"labels": {"app": "web"}},
        "status": {
            "phase": "Running",
            "podIP": address,
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


def owner_uid(record: Json) -> str:
    """Return the uid of a record's group."""
    match record:
        case {"metadata": {"ownerReferences": [{"uid": str(uid)}]}}:
            return uid
        case _:
            raise AssertionError(f"a record of {API_GROUP} without an owner")
