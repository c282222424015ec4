"""Puts the two gates for pods into the demo's own cluster (docs/gates.md, docs/readiness.md).

The policies are those that ship. Our programs run beside the cluster, not in it: the Service by which
pods find the deregistrar's replicas has no selector but their addresses, one for each.
"""

import asyncio
import json

from tests.lab.cluster.layout import CONTROL_PLANE_ADDRESS
from tests.lab.demo.errors import DemoError
from tests.lab.demo.ground import Ground
from tests.lab.demo.manifests import Manifest, gate_labels, render


SIDES = (CONTROL_PLANE_ADDRESS, "198.18.0.2")
"""Addresses that pods reach and the cluster's own side has, one for each replica."""
PORT = 11037
SERVICE = {"name": "lbcf-gate", "namespace": "lbcf-system"}
POLICIES = ("manifests/drain-gate/policy.yaml", "manifests/readiness-gate/policy.yaml")
GIVEN = ("lbcf.tkestack.io/drain-gate-seconds", "lbcf.tkestack.io/registered")
"""What a pod has of either policy."""
ATTEMPTS = 100
PAUSE = 0.1


async def give_addresses(ground: Ground) -> None:
    """Give the cluster's own side its further address.

    Raises:
        DemoError: the system refuses.
    """
    for address in SIDES[1:]:
        argv = ground.command("ip", "address", "add", f"{address}/32", "dev", "lo")
        child = await asyncio.create_subprocess_exec(*argv)
        if await child.wait():
            raise DemoError(f"the cluster's own side cannot have {address}")


async def install(ground: Ground, namespace: str) -> None:
    """Install the policies, and have pods find the deregistrar's replicas.

    Raises:
        DemoError: something is refused, or a policy has no effect.
    """
    await ground.kubectl("apply", "-f", "-", stdin=render(_service()))
    for policy in POLICIES:
        await ground.kubectl("apply", "--server-side", "-f", str(ground.root / policy))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "labels": gate_labels()},
        "spec": {"containers": [{"name": "probe", "image": "probe"}]},
    }
    words = ("-n", namespace, "create", "--dry-run=server", "-ojson", "-f", "-")
    for _ in range(ATTEMPTS):
        made = await ground.kubectl(*words, stdin=json.dumps(pod))
        if all(given in made for given in GIVEN):
            return
        await asyncio.sleep(PAUSE)
    raise DemoError("a policy of the gates has no effect")


def _service() -> list[Manifest]:
    """The namespace that the waiter asks in, and the Service that it asks for."""
    port = {"name": "gate", "port": PORT}
    labels = {"kubernetes.io/service-name": SERVICE["name"]}
    name = SERVICE["namespace"]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": SERVICE,
            "spec": {"clusterIP": "None", "ports": [port]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**SERVICE, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address]} for address in SIDES],
            "ports": [port],
        },
    ]
