"""The objects that users and kubelets put into the API server of a `World`.

Drivers, load balancers that are created already or not, groups, pods, nodes, Services; in
namespace `shop`, but for nodes, and for shared drivers and load balancers in `kube-system`.
"""

from typing import cast

import attrs

from lbcf.core.model.names import (
    ANNOTATION_DRAIN_GATE,
    API_GROUP,
    API_VERSION,
    FINALIZER_DRIVER,
    FINALIZER_LOAD_BALANCER,
    READINESS_GATE,
    SHARED_PREFIX,
    SYSTEM_NAMESPACE,
)
from lbcf.core.model.operations import BATCHED, Operation
from lbcf.core.model.values import AddressSource, MemberKey
from lbcf.settings import Settings
from tests.kube.tiny_rules import Json


SHOP = "namespaces/shop"
PROXY = "proxy"
"""The driver of all that names no other."""
PROXY_URL = "http://driver.test"
_OURS = f"/apis/{API_VERSION}/{SHOP}"
_SINCE = "2026-01-01T00:00:00Z"


def group_path(name: str) -> str:
    """Say where a group is."""
    return f"{_OURS}/backendgroups/{name}"


def load_balancer_path(name: str) -> str:
    """Say where a load balancer is."""
    return f"{_home_of(name)}/loadbalancers/{name}"


def driver_path(name: str = PROXY) -> str:
    """Say where a driver is."""
    return f"{_home_of(name)}/loadbalancerdrivers/{name}"


def _home_of(name: str) -> str:
    """Say where a driver or load balancer is: those that are shared have a place apart."""
    is_shared = name.startswith(SHARED_PREFIX)
    namespace = SYSTEM_NAMESPACE if is_shared else SHOP.partition("/")[2]
    return f"/apis/{API_VERSION}/namespaces/{namespace}"


def node_path(name: str) -> str:
    """Say where a node is."""
    return f"/api/v1/nodes/{name}"


def namespace_path() -> str:
    """Say where the namespace is in which all plays are."""
    return f"/api/v1/{SHOP}"


def service_path(name: str) -> str:
    """Say where a Service is."""
    return f"/api/v1/{SHOP}/services/{name}"


def lease_path(name: str) -> str:
    """Say where a Lease is by which a process leads."""
    namespace = Settings("controller").namespace
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"


def lease(holder: str) -> Json:
    """Make the Lease that an election would leave."""
    return {"spec": {"holderIdentity": holder}}


def pod_path(name: str) -> str:
    """Say where a pod is."""
    return f"/api/v1/{SHOP}/pods/{name}"


_LATENCY = 0.05
_USUAL_TIMEOUT = 10
"""Seconds, where a driver says nothing."""


@attrs.frozen
class Setting:
    """What kind of world it is.

    Attributes:
        drains: the driver declares drainBackend.
        lists: the driver declares listBackends.
        names_pools: the driver answers a lockKey.
        elect: processes work only while they hold their Lease.
        events: processes record events.
        late_effect: seconds; the driver's own word on lateEffectSeconds.
        batches: how many members the driver takes in a call; 1: it declares no batches.
        at_once: how many calls the driver bears at a time.
        latency: seconds that an ensure takes.
        drain_timeout: seconds; the driver's own word on drainBackend.
        timeout: seconds; its word on ensureBackend and deregisterBackend.
        journals: a process that is killed leaves its journal to the one in its place.
        elsewhere: one that begins in its place is on another machine: nothing tells it that
            the one before it has ended.
        workers: of each queue: those of the real one, of whom all but a few would only
            wait.
        shards: among how many controllers, and deregistrars, the work is divided.
        epoch: what the load balancer's status says of its memory from the start, empty:
            nothing.
    """

    member_key: MemberKey = MemberKey.RECORD
    address_source: AddressSource = AddressSource.BACKEND
    drains: bool = False
    lists: bool = False
    names_pools: bool = False
    elect: bool = False
    events: bool = False
    late_effect: int = 10
    batches: int = 1
    at_once: int = 32
    latency: float = _LATENCY
    drain_timeout: int = 10
    timeout: int = _USUAL_TIMEOUT
    journals: bool = True
    elsewhere: bool = False
    workers: int = 3
    shards: int = 1
    epoch: str = "epoch-1"

    def latency_of(self, operation: Operation) -> float:
        """Say how long a call takes."""
        return self.latency if operation is Operation.ENSURE_BACKEND else _LATENCY


RECORD = Setting()
"""Members are named after records: no locks."""
BACKEND = Setting(MemberKey.ADDRESS, AddressSource.BACKEND)
"""Members are known by address, which the backend itself says: locks."""
DRIVER = Setting(MemberKey.ADDRESS, AddressSource.DRIVER)
"""Members are known by address, which the driver says: locks, as LBCF's drivers are."""
NAMED_BY_DRIVER = Setting(MemberKey.RECORD, AddressSource.DRIVER)
"""Members are named after records, and the driver says their addresses."""

SETTINGS = {"record": RECORD, "backend": BACKEND, "driver": DRIVER}
OR_ELSEWHERE = {**SETTINGS, "elsewhere": attrs.evolve(RECORD, elsewhere=True)}
"""With a process that may have to wait for calls of the one before it."""


SHARDED = {name: attrs.evolve(one, shards=2) for name, one in SETTINGS.items()}


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


def place_of_backend(found: Json) -> tuple[str, str] | None:
    """Say who a pod or a node is, as `seen` spells it, and where; None: nowhere."""
    match found:
        case {
            "metadata": {"name": name, "uid": uid},
            "status": {"podIP": str(address)},
        }:
            return f"{name}/{uid}", address
        case {
            "metadata": {"name": name},
            "status": {"addresses": [{"address": str(address)}]},
        }:
            return f"node {name}", address
        case _:
            return None


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


def driver(setting: Setting, url: str = PROXY_URL) -> Json:
    """Make a driver; the controller has accepted it already."""
    declared: dict[Operation, int] = {}
    if setting.batches > 1 or setting.timeout != _USUAL_TIMEOUT:
        declared |= dict.fromkeys(
            (Operation.ENSURE_BACKEND, Operation.DEREGISTER_BACKEND), setting.timeout
        )
    if setting.drains:
        declared[Operation.DRAIN_BACKEND] = setting.drain_timeout
    if setting.lists:
        declared[Operation.LIST_BACKENDS] = 10
    return {
        "metadata": {"generation": 1, "finalizers": [FINALIZER_DRIVER]},
        "spec": {
            "driverType": "Webhook",
            "url": url,
            "memberKey": setting.member_key.value,
            "addressSource": setting.address_source.value,
            "lateEffectSeconds": setting.late_effect,
            "maxConcurrentCalls": setting.at_once,
            "webhooks": [
                {"name": name, "timeout": f"{seconds}s", **_batch(setting, name)}
                for name, seconds in declared.items()
            ],
        },
        "status": {"conditions": [condition("Accepted", "Accepted")]},
    }


def _batch(setting: Setting, operation: Operation) -> Json:
    """Say how many members may come in a call of an operation."""
    if setting.batches == 1 or operation not in BATCHED:
        return {}
    return {"batch": {"maxItems": setting.batches, "maxDelayMilliseconds": 500}}


def load_balancer(
    target: str = "front",
    *,
    driver: str = PROXY,
    scope: tuple[str, ...] = (),
    created: bool = True,
    epoch: str = "epoch-1",
) -> Json:
    """Make a load balancer.

    Args:
        target: the pool that is meant.
        driver: whose.
        scope: namespaces that may use it beside its own.
        created: the controller has had it created already.
        epoch: what its status says of its memory, empty: nothing.
    """
    spec: Json = {"lbDriver": driver, "lbSpec": {"id": target}, "scope": list(scope)}
    if not created:
        return {"metadata": {"generation": 1}, "spec": spec}
    return {
        "metadata": {"generation": 1, "finalizers": [FINALIZER_LOAD_BALANCER]},
        "spec": spec,
        "status": {
            "lbInfo": {"id": target},
            "epoch": epoch,
            "conditions": [
                condition("Created", "Created"),
                condition("AttributesSynced", "AttributesSynced"),
            ],
        },
    }


def group(
    *,
    static: tuple[str, ...] | None = None,
    nodes: int | None = None,
    service: str | None = None,
    **spec: object,
) -> Json:
    """Make a group of the pods with label app=web.

    Args:
        static: of these addresses instead.
        nodes: of this port of all nodes instead.
        service: of port 80 of this Service instead.
        spec: fields of the spec, in the place of the usual ones.
    """
    chosen: Json = {
        "pods": {"ports": [{"port": 80}], "byLabel": {"selector": {"app": "web"}}}
    }
    if static is not None:
        chosen = {"static": list(static)}
    elif nodes is not None:
        chosen = {"nodes": {"ports": [{"port": nodes}]}}
    elif service is not None:
        chosen = {"service": {"name": service, "port": {"port": 80}}}
    return {
        "metadata": {"generation": 1},
        "spec": {
            "loadBalancers": ["front"],
            "drain": {"timeoutSeconds": 30},
            **chosen,
            **spec,
        },
    }


def pod(address: str, *, ready: bool = True, waits: bool = False) -> Json:
    """Make a pod that runs, and that perhaps waits for the end of its records."""
    said = {ANNOTATION_DRAIN_GATE: "25"} if waits else {}
    return {
        "metadata": {"labels": {"app": "web"}, "annotations": said},
        "status": {
            "phase": "Running",
            "podIP": address,
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


def gated_pod(address: str, *, ready: bool = True) -> Json:
    """Make a pod with our readiness gate, of which the kubelet says that it waits for it."""
    fresh = pod(address)
    conditions = [
        {"type": "ContainersReady", "status": str(ready)},
        {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"},
    ]
    return {
        **fresh,
        "spec": {"readinessGates": [{"conditionType": READINESS_GATE}]},
        "status": {**cast("Json", fresh["status"]), "conditions": conditions},
    }


def pod_condition(whole: Json, kind: str) -> Json:
    """Return a condition of a pod; an empty one where there is none."""
    status = cast("Json", whole.get("status") or {})
    found = cast("list[Json]", status.get("conditions") or [])
    return next((c for c in found if c["type"] == kind), {})


def can_serve(whole: Json) -> bool:
    """Tell whether a pod can serve, whether or not our readiness gate is open."""
    kinds = ("Ready", "ContainersReady")
    return any(pod_condition(whole, kind).get("status") == "True" for kind in kinds)


def node(address: str) -> Json:
    """Make a node."""
    return {
        "metadata": {},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
    }


def node_address(whole: Json) -> str:
    """Return the address of a node."""
    match whole:
        case {"status": {"addresses": [{"address": str(address)}]}}:
            return address
        case _:
            raise AssertionError(f"a node without an address: {whole}")


def service(node_port: int) -> Json:
    """Make a Service with a node port."""
    port = {"port": 80, "protocol": "TCP", "nodePort": node_port}
    return {"metadata": {}, "spec": {"type": "NodePort", "ports": [port]}}


def owner_uid(record: Json) -> str:
    """Return the uid of a record's group."""
    match record:
        case {"metadata": {"ownerReferences": [{"uid": str(uid)}]}}:
            return uid
        case _:
            raise AssertionError(f"a record of {API_GROUP} without an owner")
