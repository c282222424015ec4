"""Objects as LBCF in Go leaves them in a cluster: names, labels, owners, statuses.

Read from its source (v1.4: ConstructPodBackendRecord, ConstructStaticBackend,
generateBackendRecord of Binds, ensureBackend).
"""

import hashlib

from collections.abc import Mapping
from typing import Any

import aiohttp

from lbcf.core.model.names import API_GROUP, API_VERSION
from lbcf.core.model.resources import Meta
from tests.e2e import objects
from tests.e2e.objects import Whole
from tests.e2e.stage import Stage


THEN = "2021-03-04T05:06:07Z"


def md5(text: str) -> str:
    """Name a record as LBCF does."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def a_condition(kind: str, status: str = "True", message: str = "") -> dict[str, Any]:
    """A condition: without observedGeneration, and with a reason only on failure."""
    found = {"type": kind, "status": status, "lastTransitionTime": THEN}
    if status != "True":
        found["reason"] = "OperationFailed"
    return found | ({"message": message} if message else {})


def _metadata(name: str, owner: Meta, labels: Mapping[str, str]) -> dict[str, Any]:
    """Metadata of a record of a group."""
    return {
        "name": name,
        "labels": {
            f"{API_GROUP}/lb-driver": "memory",
            f"{API_GROUP}/lb-name": "front",
            f"{API_GROUP}/backend-group": owner.key.name,
            **labels,
        },
        "finalizers": [f"{API_GROUP}/deregister-backend"],
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": "BackendGroup",
                "name": owner.key.name,
                "uid": owner.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def _spec() -> dict[str, Any]:
    """What every record copies; Go writes maps that it does not have as null."""
    return {
        "lbName": "front",
        "lbDriver": "memory",
        "lbInfo": {"name": "front"},
        "lbAttributes": None,
        "parameters": None,
    }


def pod_record(group: Whole, pod: Whole, number: int = 80) -> dict[str, Any]:
    """A record of a pod's port, at load balancer `front` of driver `memory`."""
    name = md5(f"front_{group.meta.key.name}_{pod.meta.uid}_{number}_TCP")
    labels = {f"{API_GROUP}/backend-pod": pod.meta.key.name}
    port = {"port": number, "protocol": "TCP"}
    backend = {"podBackend": {"name": pod.meta.key.name, "port": port}}
    return {
        "metadata": _metadata(name, group.meta, labels),
        "spec": _spec() | backend,
    }


def static_record(group: Whole, address: str) -> dict[str, Any]:
    """A record of an address that the user gave."""
    name = md5(f"front_{group.meta.key.name}_{address}")
    return {
        "metadata": _metadata(name, group.meta, {}),
        "spec": _spec() | {"staticAddr": address},
    }


def status(address: str = "", registered: str = "") -> dict[str, Any]:
    """A record's status: with an address, and what LBCF said of it."""
    found: dict[str, Any] = {"backendAddr": address} if address else {}
    if registered:
        found["conditions"] = [a_condition("Registered", registered)]
    return {"status": found}


async def ask_driver(stage: Stage, operation: str, **request: object) -> Any:
    """Call the driver as LBCF would have; answers what it says."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{stage.driver_url}/{operation}", json=request) as answer,
    ):
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def leave_record(
    stage: Stage, body: Mapping[str, Any], address: str = "", registered: str = ""
) -> Whole:
    """Store a record, and register its address as LBCF would have."""
    record = await stage.create(objects.RECORDS, body)
    if registered:
        call = {
            "recordID": record.meta.uid,
            "retryID": "of-lbcf",
            "lbInfo": record.body["spec"]["lbInfo"],
            "backendAddr": address,
        }
        answer = await ask_driver(stage, "ensureBackend", **call)
        assert answer["status"] == "Succ", answer
    if address:
        left = status(address, registered)
        record = await stage.patch(
            objects.RECORDS, record.meta.key.name, left, "status"
        )
    return record


async def leave_setting(stage: Stage, **spec: object) -> Whole:
    """Store driver, load balancer and group as LBCF leaves them; returns the group."""
    await stage.setting(**spec)
    body = {
        "status": {
            "lbInfo": {"name": "front"},
            "conditions": [a_condition("Created"), a_condition("AttributesSynced")],
        }
    }
    await ask_driver(
        stage,
        "createLoadBalancer",
        recordID="lb",
        retryID="of-lbcf",
        lbSpec={"name": "front"},
    )
    await stage.patch(objects.LOAD_BALANCERS, "front", body, "status")
    held = {"finalizers": [f"{API_GROUP}/delete-load-loadbalancer"]}
    await stage.patch(objects.LOAD_BALANCERS, "front", {"metadata": held})
    group = await stage.get(objects.GROUPS, "web")
    assert group is not None
    return group


def bind_record(bind: Whole, pod: Whole, address: str) -> dict[str, Any]:
    """A record of a Bind's pod at its load balancer `front`; hashed with its address."""
    name = md5(f"{bind.meta.key.name}-front-{pod.meta.key.name}-{address}-tcp-80")
    body = pod_record(bind, pod)
    owner = body["metadata"]["ownerReferences"][0]
    labels = {
        f"{API_GROUP}/driver": "memory",
        f"{API_GROUP}/bind": bind.meta.key.name,
        f"{API_GROUP}/lb": "front",
        f"{API_GROUP}/pod": pod.meta.key.name,
    }
    owners = [{**owner, "apiVersion": f"{API_GROUP}/v1", "kind": "Bind"}]
    metadata = {**body["metadata"], "name": name, "labels": labels}
    port = {"port": 80, "protocol": "tcp"}
    backend = {"podBackend": {"name": pod.meta.key.name, "port": port}}
    return {
        "metadata": {**metadata, "ownerReferences": owners},
        "spec": {**body["spec"], **backend},
    }


def bind_status() -> dict[str, Any]:
    """The status of a Bind whose load balancer `front` is there."""
    entry = {
        "name": "front",
        "driver": "memory",
        "lbInfo": {"name": "front"},
        "deletionTimestamp": None,
        "retryAfter": None,
        "conditions": [a_condition("Created"), a_condition("Ready")],
    }
    return {"status": {"loadBalancerStatuses": [entry]}}
