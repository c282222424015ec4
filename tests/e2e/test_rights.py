"""The processes under their own service accounts: no right is missing, none is unused.

All that they do is done once, under the shipped roles, where nobody else may write
records. Then every request in the audit log is held against every right.
"""

import json

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import yaml

from lbcf.admission.objects import WEBHOOK_CONFIGURATIONS
from lbcf.core.model.names import API_VERSION, READINESS_GATE
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.kube import kinds
from lbcf.kube.address_locks import AddressLocks, Taken
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import connect
from lbcf.kube.errors import KubeError
from lbcf.kube.events import EventRecorder, Reference
from lbcf.runtime.clock import SystemClock
from tests.e2e import objects
from tests.e2e.node_objects import Nodes
from tests.e2e.stage import Stage
from tests.lab.cluster import AuditEvent
from tests.lab.cluster.ports import free_ports
from tests.manifests import accounts
from tests.manifests.accounts import NAMESPACE, Right


pytestmark = pytest.mark.cluster

PROCESSES = ("admission", "controller", "deregistrar")
FOR_A_PLUGIN = {
    Right("", "lbcf.tkestack.io", f"{kind}/finalizers", "update")
    for kind in ("backendgroups", "binds")
} | {Right("", "", "services/finalizers", "update")}
"""Asked for by OwnerReferencesPermissionEnforcement, which is not on here."""
WITH_SHARDS = {Right("", "", "namespaces", verb) for verb in ("list", "watch")}
"""Used with `--shards` alone; see `test_shards`."""
IN_NAMESPACE = ("--namespace", NAMESPACE)


async def _live(stage: Stage) -> None:
    """Do all that the three processes do, with locks in the namespace of their own."""
    stage.namespaces.add(NAMESPACE)
    await stage.start_driver("Address")
    await _start_webhook(stage)
    await stage.start("controller", *IN_NAMESPACE)
    await stage.start("deregistrar", *IN_NAMESPACE)
    await stage.setting(memberKey="Address", addressSource="Driver")
    await stage.behave("ensureBackend", "fail", times=1, msg="full")
    await stage.behave("drainBackend", "run", times=1)
    await stage.behave("deregisterBackend", "fail", times=2, msg="busy")
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await _change_parameters(stage)
    await stage.delete(objects.PODS, "a")
    await stage.until_registered()
    await _open_gate(stage)
    await stage.delete(objects.GROUPS, "web")
    await _serve_from_nodes(stage)
    await stage.delete(objects.LOAD_BALANCERS, "front")
    await stage.create(objects.BINDS, objects.a_bind())
    await stage.add_pod("b", "10.0.0.2")
    await stage.until_registered("10.0.0.2:80")
    await _read_after_conflict(stage)
    await stage.delete(objects.BINDS, "both")
    await stage.until_registered()
    await _balance_service(stage)

    async def gone() -> bool:
        return await stage.get(objects.LOAD_BALANCERS, "front") is None

    await stage.until("the load balancer is gone", gone)


async def _change_parameters(stage: Stage) -> None:
    """Give the one record other parameters."""
    heavier = {"spec": {"parameters": {"weight": "2"}}}
    await stage.patch(objects.GROUPS, "web", heavier)

    async def changed() -> bool:
        [record] = await stage.listed(objects.RECORDS)
        return bool(record.body["spec"].get("parameters"))

    await stage.until("the record has the new parameters", changed)


async def _open_gate(stage: Stage) -> None:
    """Let a pod wait for its readiness gate."""
    body = objects.a_pod("gated")
    body["spec"]["readinessGates"] = [{"conditionType": READINESS_GATE}]
    await stage.create(objects.PODS, body)
    status = objects.pod_status("10.0.0.3", ready=False)
    status["status"]["conditions"].append({"type": "ContainersReady", "status": "True"})
    await stage.patch(objects.PODS, "gated", status, "status")

    async def is_open() -> bool:
        found = await stage.get(objects.PODS, "gated")
        conditions = [] if found is None else found.body["status"]["conditions"]
        return READINESS_GATE in {one["type"] for one in conditions}

    await stage.until("the gate is open", is_open)
    await stage.delete(objects.PODS, "gated")
    await stage.until_registered()


async def _serve_from_nodes(stage: Stage) -> None:
    """Register a node's port for a Service that keeps to local endpoints."""
    nodes = Nodes(stage)
    try:
        await nodes.add(1)
        port = await nodes.service(externalTrafficPolicy="Local")
        await nodes.serve(n1="ready")
        await nodes.group("nodes")
        await stage.until_registered(f"192.0.2.1:{port}")
        await stage.delete(objects.GROUPS, "nodes")
        await stage.until_registered()
    finally:
        await nodes.end()


async def _balance_service(stage: Stage) -> None:
    """Take a Service of type LoadBalancer through its life."""
    spec = {
        "driver": "memory",
        "lbSpec": {"name": "{service}"},
        "addresses": ["192.0.2.0/28"],
    }
    whole = {"metadata": {"name": stage.namespace}, "spec": spec}
    await stage.client.create(objects.CLASSES, "", whole)
    ports = [{"port": 80}]
    exposed = {
        "type": "LoadBalancer",
        "loadBalancerClass": f"lbcf.tkestack.io/{stage.namespace}",
        "selector": {"app": "web"},
        "ports": ports,
    }
    service = {"metadata": {"name": "exposed"}, "spec": exposed}
    await stage.create(objects.SERVICES, service)
    await stage.until_registered("10.0.0.2:80")
    nobody = {"spec": {"selector": {"app": "nobody"}}}
    await stage.patch(objects.SERVICES, "exposed", nobody)
    await stage.until_registered()
    await _read_after_creates_without_answers(stage)
    await stage.delete(objects.SERVICES, "exposed")

    async def gone() -> bool:
        return await stage.get(objects.SERVICES, "exposed") is None

    await stage.until("the Service is gone", gone)
    await stage.client.delete(objects.CLASSES, ObjectKey("", stage.namespace))


async def _read_after_creates_without_answers(stage: Stage) -> None:
    """Read what was derived, as the controller does when its name is taken."""
    connection = await connect(str(stage.logins["controller"]))
    async with connected(connection, SystemClock()) as client:
        key = stage.key("svc-exposed-80-tcp")
        await client.get(kinds.LOAD_BALANCERS, key)
        await client.get(kinds.GROUPS, key)


async def _read_after_conflict(stage: Stage) -> None:
    """Read a Bind as the controller does when its write came too late."""
    connection = await connect(str(stage.logins["controller"]))
    async with connected(connection, SystemClock()) as client:
        await client.get(kinds.BINDS, stage.key("both"))


async def _start_webhook(stage: Stage) -> None:
    """Install the webhook for the stage's namespace, and start its process."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    document = yaml.safe_load((accounts.WEBHOOK / "configuration.yaml").read_text())
    document["webhooks"][0].update(
        clientConfig={"url": f"https://{address}/validate"},
        namespaceSelector={
            "matchLabels": {"kubernetes.io/metadata.name": stage.namespace}
        },
    )
    stage.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(document))
    flags = ("--bind-address", address, "--tls-host", "127.0.0.1", *IN_NAMESPACE)
    process = await stage.start("admission", *flags)
    await stage.until_logged(process, "webhook.serving")


async def _sweep(client: KubeClient) -> None:
    """Sweep a lock as after two hours."""
    locks = AddressLocks(client, NAMESPACE, SystemClock())
    taken = await locks.take("addr-rights", "nobody/nobody/0")
    assert isinstance(taken, Taken)
    assert await locks.sweep(taken.lease)


async def _tell_twice(client: KubeClient, namespace: str) -> None:
    """Tell the same Event again, which raises its counter."""
    recorder = EventRecorder(
        client, SystemClock(), controller="lbcf.tkestack.io/test", instance="1"
    )
    about = Reference(API_VERSION, "BackendGroup", ObjectKey(namespace, "web"))
    for _ in range(2):
        recorder.record(about, reason=Reason.REGISTERED, action="Try", note="again")
    await recorder.flush()
    assert 0 == recorder.dropped


@pytest.fixture(name="guarded")
def _guarded(bare: Stage, tmp_path: Path) -> Iterator[Stage]:
    """A stage on which each process has its own service account."""
    accounts.apply(bare.cluster)
    for process in PROCESSES:
        login = accounts.login(bare.cluster, f"lbcf-{process}", tmp_path)
        bare.logins[process] = login
    with accounts.guarding_records(bare.cluster, bare.namespace):
        yield bare


async def test_roles_are_just_what_is_needed(guarded: Stage) -> None:
    """Every request is allowed by a right, and every right is used by a request."""
    stage, begun = guarded, _now()
    try:
        await _live(stage)
        for process in ("controller", "deregistrar"):
            connection = await connect(str(stage.logins[process]))
            async with connected(connection, SystemClock()) as client:
                await _tell_twice(client, stage.namespace)
                if process == "controller":
                    await _sweep(client)
    finally:
        configuration = ObjectKey("", "lbcf.tkestack.io")
        await stage.client.delete(WEBHOOK_CONFIGURATIONS, configuration)
    for process in PROCESSES:
        # A watch is in the audit log once it has ended.
        await stage.processes[process].end()
        account = f"lbcf-{process}"
        user, rights = accounts.user_of(account), accounts.rights_of(account)
        asked = partial(_asked, stage, user, begun)
        used = partial(_all_used, asked, rights)
        await stage.until(f"every right of {account} is used", used)
        events = asked()

        assert [] == [event for event in events if event.code in {401, 403}]
        assert [] == [e for e in events if not any(r.allows(e) for r in rights)]


def _now() -> str:
    """The time as the audit log has it."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _asked(stage: Stage, user: str, begun: str) -> list[AuditEvent]:
    """What an account's process has asked since this test began.

    Tests of who may write records ask in its name, and send no User-Agent; those of the
    webhook's certificate ask as its process does, also for what it may not do.
    """
    asked = stage.cluster.audit(user)
    return [event for event in asked if event.agent and event.time > begun]


async def _all_used(asked: Callable[[], list[AuditEvent]], rights: list[Right]) -> bool:
    """Whether every right was used.

    Raises:
        KubeError: one was not; waiting shows the last one of these.
    """
    events = asked()
    unused = {r for r in rights if not any(r.allows(e) for e in events)}
    if unused <= FOR_A_PLUGIN | WITH_SHARDS:
        return True
    raise KubeError(f"never used: {sorted(map(str, unused))}")
