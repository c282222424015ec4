"""Uninstalling, both ways, with our processes at work: nothing stays, nothing is stuck.

A control plane of their own: these tests take the kinds themselves away. All that is
shipped holds there, so that our processes have their own accounts.
"""

import asyncio
import contextlib
import json
import sys

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from lbcf.core.model.names import API_GROUP
from lbcf.core.model.values import ObjectKey
from lbcf.ctl.uninstall.removal import OURS
from lbcf.kube.leases import LEASES, micro_time
from tests.e2e import objects
from tests.e2e.stage import Stage
from tests.e2e.traces import followed
from tests.lab.cluster import Cluster, Options
from tests.lab.cluster.fixtures import running
from tests.lab.demo.stack import beside
from tests.manifests import accounts
from tests.manifests.documents import ROOT
from tests.patience import PATIENCE


pytestmark = [pytest.mark.cluster, pytest.mark.long]

SYSTEM = "lbcf-system"
WORKERS = ("controller", "deregistrar")
WAIT = f"--timeout={PATIENCE:.0f}s"
TRACES = (
    "customresourcedefinitions,clusterroles,clusterrolebindings,priorityclasses,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings,"
    "mutatingadmissionpolicies,mutatingadmissionpolicybindings,"
    "validatingwebhookconfigurations,namespaces"
)
GIVEN = ("lbcf-gate", f"{API_GROUP}/registered", f"{API_GROUP}/drain-gate-seconds")
"""What pods have of the two gates."""
ENVOY_SECRETS = {"token": SYSTEM, "driver": SYSTEM, "proxies": "lbcf-envoy"}
LEFT = {
    "namespace/lbcf-envoy",
    f"namespace/{SYSTEM}",
    "priorityclass.scheduling.k8s.io/lbcf",
}
"""Without a priority class that it names no pod of the driver could be made."""
BOTH = {"10.0.0.1:80", "10.0.0.2:80"}


@pytest.fixture(scope="module", name="own")
def _own() -> Iterator[Cluster]:
    """A control plane for these tests alone."""
    with running(0, Options(audit_bodies=True)) as cluster:
        yield cluster


@pytest.fixture(name="installed")
async def _installed(
    own: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Stage]:
    """All is applied, with both gates, our processes run, a group and a Bind have a pod each.

    The epochs of both load balancers are known.
    """
    manifests = ROOT / "manifests"
    own.kubectl("apply", "--server-side", "-k", manifests / "crds")
    established = ("wait", "--for=condition=Established", WAIT)
    own.kubectl(*established, "-f", manifests / "crds")
    for parts in ("overlays/without-webhook", "drain-gate", "readiness-gate"):
        own.kubectl("apply", "--server-side", "-k", manifests / parts)
    with own.namespace() as name:
        async with followed(own, name, tmp_path, request) as stage:
            stage.namespaces.add(SYSTEM)
            await stage.start_driver()
            for process in WORKERS:
                account = f"lbcf-{process}"
                stage.logins[process] = accounts.login(own, account, tmp_path)
                await stage.start(process, "--namespace", SYSTEM)
            await stage.setting()
            selector = {
                "byLabel": {"selector": {"app": "bound"}},
                "ports": [{"port": 80}],
            }
            bind = objects.a_bind("both", objects.an_entry("back"), pods=selector)
            await stage.create(objects.BINDS, bind)
            await _expose(stage)
            await stage.until_epoch()
            await stage.add_pod("a", "10.0.0.1")
            await stage.add_pod("b", "10.0.0.2", app="bound")
            await stage.until_registered(*BOTH)
            both = partial(_has_gates, stage, set(GIVEN))
            await stage.until("pods get both gates", both)
            yield stage


async def _expose(stage: Stage) -> None:
    """Have a Service of type LoadBalancer taken up that has no pods yet."""
    spec = {"driver": "memory", "lbSpec": {"name": "{service}", "address": "192.0.2.1"}}
    edge = {"metadata": {"name": "edge"}, "spec": spec}
    await stage.client.create(objects.CLASSES, "", edge)
    exposed = {
        "type": "LoadBalancer",
        "loadBalancerClass": "lbcf.tkestack.io/edge",
        "selector": {"app": "nobody"},
        "ports": [{"port": 80}],
    }
    service = {"metadata": {"name": "exposed"}, "spec": exposed}
    await stage.create(objects.SERVICES, service)
    await stage.until("the Service has an address", lambda: _addresses(stage))


async def _addresses(stage: Stage) -> list[object]:
    """Where the Service is reached."""
    found = await stage.get(objects.SERVICES, "exposed")
    assert found is not None
    listed: list[object] = found.body["status"]["loadBalancer"].get("ingress", [])
    return listed


async def _marks(stage: Stage) -> list[str]:
    """What of us is on the Service."""
    found = await stage.get(objects.SERVICES, "exposed")
    assert found is not None
    return [*found.meta.finalizers, *found.meta.annotations]


async def _uninstall(stage: Stage, *words: str) -> tuple[int, str]:
    """Run it as an operator does; return its exit status and all that it said."""
    ran = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lbcf", "ctl", "uninstall", *words),
        cwd=ROOT,
        env=stage.cluster.environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await ran.communicate()
    assert ran.returncode is not None
    return ran.returncode, said.decode()


def _traces(cluster: Cluster) -> list[str]:
    """What of us is still there."""
    listed = cluster.kubectl("get", TRACES, "-o", "name").splitlines()
    return [name for name in listed if "lbcf" in name]


def _gated(stage: Stage) -> set[str]:
    """What a pod of ours would have that asks for both gates now."""
    labels = {
        f"{API_GROUP}/drain-gate": "enabled",
        f"{API_GROUP}/readiness-gate": "true",
    }
    asked = objects.a_pod("asks")
    asked["metadata"]["labels"] = labels
    flags = ("create", "-n", stage.namespace, "--dry-run=server", "-ojson", "-f", "-")
    kind = {"apiVersion": "v1", "kind": "Pod"}
    made = json.loads(stage.cluster.kubectl(*flags, stdin=json.dumps(kind | asked)))
    del made["metadata"]["labels"]
    return {word for word in GIVEN if word in json.dumps(made)}


async def _has_gates(stage: Stage, wanted: set[str]) -> bool:
    """Whether it would have just these."""
    return wanted == _gated(stage)


@contextlib.asynccontextmanager
async def _leading(stage: Stage, name: str) -> AsyncIterator[None]:
    """Somebody holds a Lease, and renews it, for a block."""
    key = ObjectKey(SYSTEM, name)

    def spec() -> dict[str, str]:
        now = micro_time(datetime.now(UTC))
        return {"holderIdentity": "somebody", "renewTime": now}

    async def renew() -> None:
        while True:
            await asyncio.sleep(0.2)
            await stage.client.patch(LEASES, key, {"spec": spec()})

    lease = {"metadata": {"name": name}, "spec": spec()}
    await stage.client.create(LEASES, SYSTEM, lease)
    async with beside(renew()):
        yield
    await stage.client.delete(LEASES, key)


async def test_drain_takes_everything_out_first(installed: Stage) -> None:
    """Load balancers are empty and deleted before the kinds and our rights go."""
    cluster, where = installed.cluster, ("-n", installed.namespace)
    label = "lbcf.tkestack.io/do-not-delete"
    cluster.kubectl("label", "loadbalancers/front", *where, f"{label}=yes")

    status, said = await _uninstall(installed, "drain")
    command = f"kubectl label loadbalancers/front -n {installed.namespace} {label}-"
    assert (1, True) == (status, command in said), said
    assert BOTH == await installed.registered()

    cluster.kubectl(*command.split()[1:])
    status, said = await _uninstall(installed, "drain", "--timeout", f"{PATIENCE:.0f}")
    assert (0, []) == (status, _traces(installed.cluster)), said
    assert set() == await installed.members()
    assert 3 == len(await installed.calls("deleteLoadBalancer"))
    assert ([], []) == (await _marks(installed), await _addresses(installed))
    assert set() == _gated(installed)


async def test_retain_keeps_what_load_balancers_have(installed: Stage) -> None:
    """Not before our processes have stopped; then no driver is called any more."""
    status, said = await _uninstall(installed, "retain")
    assert 1 == status
    assert "still works" in said
    assert BOTH == await installed.registered()
    # Ours may have stopped now: the gate of a pod that is made would never be opened.
    await installed.until("pods get no gate", partial(_has_gates, installed, set()))
    for process in WORKERS:
        await installed.processes[process].end()
    async with _leading(installed, "lbcf-controller-1"):
        status, said = await _uninstall(installed, "retain")
    assert (1, True) == (status, "lbcf-controller-1 (somebody) still works" in said)

    status, said = await _uninstall(installed, "retain")

    assert (0, []) == (status, _traces(installed.cluster)), said
    assert BOTH == await installed.members()
    assert [] == await _marks(installed)
    assert [] != await _addresses(installed)
    assert [] == await installed.calls("deregisterBackend")
    assert [] == await installed.calls("deleteLoadBalancer")


async def test_retain_leaves_envoys_and_what_they_start_anew_from(
    installed: Stage,
) -> None:
    """All that they and their driver have, and both namespaces; a drain takes it away."""
    cluster = installed.cluster
    cluster.kubectl("apply", "-k", ROOT / "manifests" / "drivers" / "envoy")
    _make_envoy_secrets(cluster)
    before = _envoys(cluster)
    assert all(f"lbcf-envoy-{part}" in str(before) for part in ENVOY_SECRETS)
    for process in WORKERS:
        await installed.processes[process].end()

    status, said = await _uninstall(installed, "retain")

    assert (0, before) == (status, _envoys(cluster)), said
    assert LEFT == set(_traces(cluster)), said
    for words in ("deployment.apps/lbcf-envoy", "daemonset.apps/lbcf-envoy-edge"):
        assert words in said
    again = said.partition("kubectl lbcf uninstall ")[2].split()[0]
    status, said = await _uninstall(installed, again)
    assert (0, []) == (status, _traces(cluster)), said


def _make_envoy_secrets(cluster: Cluster) -> None:
    """Make the Secrets as docs/envoy.md does: some with our label, some without any."""
    for name, namespace in ENVOY_SECRETS.items():
        where = ("-n", namespace)
        made = ("generic", f"lbcf-envoy-{name}", "--from-literal=a=b")
        cluster.kubectl(*where, "create", "secret", *made)
    cluster.kubectl("-n", SYSTEM, "label", "secret", "lbcf-envoy-token", OURS)


def _envoys(cluster: Cluster) -> set[tuple[str, ...]]:
    """What Envoys and their driver have that nobody deletes: kind, name and UID."""
    kinds = (
        "deployments,daemonsets,services,serviceaccounts,networkpolicies,secrets,"
        "configmaps,poddisruptionbudgets,persistentvolumeclaims"
    )
    found = json.loads(cluster.kubectl("get", kinds, "-A", "-o", "json"))["items"]
    return {
        (one["kind"], one["metadata"]["name"], one["metadata"]["uid"])
        for one in found
        if one["metadata"]["name"].startswith("lbcf-envoy")
        and "deletionTimestamp" not in one["metadata"]
    }


async def test_drain_tells_what_it_waits_for_and_how_to_go_on(installed: Stage) -> None:
    """The driver is down: it is named, nothing else is taken away; abandon ends it."""
    known = {str(r.meta.key) for r in await _records(installed)}
    assert 2 == len(known)
    await installed.processes["driver"].end()
    await installed.delete(objects.GROUPS, "web")
    await installed.until_reason("Drained", "DriverUnreachable")

    status, said = await _uninstall(installed, "drain", "--timeout", "6")
    assert 1 == status
    assert "DriverUnreachable (driver memory)" in said
    assert f"-n {installed.namespace} lbcf.tkestack.io/abandon=" in said
    found = [r.status.get("backendAddr") for r in await _records(installed)]
    # A record that is made of a Bind whose end nobody has told of yet has no address.
    assert BOTH == {address for address in found if address}
    assert [] != _traces(installed.cluster)

    why = ("--timeout", "6", "--objects-only", "--abandon", "its host has burnt down")

    async def is_done() -> bool:
        """Run it, again if our processes have not let go in time."""
        return (await _uninstall(installed, "drain", *why))[0] == 0

    await installed.until("all is let go", is_done)
    assert () == await _records(installed)
    assert [] != _traces(installed.cluster)
    # Each try is logged, and one that meets another version is made again.
    told = installed.processes["deregistrar"].events("record.abandoned")
    assert known <= {event["record"] for event in told}
    told += installed.processes["controller"].events("bind.abandoned")
    assert {"its host has burnt down"} == {event["why"] for event in told}
    assert "bind.abandoned" == told[-1]["event"]


async def _records(stage: Stage) -> tuple[objects.Whole, ...]:
    """The records that are there."""
    return await stage.listed(objects.RECORDS)
