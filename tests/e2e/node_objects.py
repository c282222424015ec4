"""Nodes, Services and EndpointSlices as tests write them to a cluster without kubelets.

Nodes belong to the whole cluster: their names and labels begin with the namespace of the
test that they are for.
"""

import contextlib

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from lbcf.core.model.values import ObjectKey
from lbcf.kube.errors import NotFound
from lbcf.kube.kinds import Resource
from tests.e2e import objects
from tests.e2e.objects import Whole, parse_whole
from tests.e2e.stage import Stage


NODES = Resource("", "v1", "nodes", "Node", parse_whole, namespaced=False)
SERVICES = Resource("", "v1", "services", "Service", parse_whole)
SLICES = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", parse_whole
)
EXCLUDE = "node.kubernetes.io/exclude-from-external-load-balancers"


@attrs.frozen
class Nodes:
    """The nodes of one test; they all have the label `group_label`."""

    stage: Stage

    @property
    def label(self) -> dict[str, str]:
        """A label that no node of another test has."""
        return {"test": self.stage.namespace}

    def key(self, number: int) -> ObjectKey:
        """Name a node."""
        return ObjectKey("", f"{self.stage.namespace}-n{number}")

    async def add(
        self, number: int, *addresses: tuple[str, str], **labels: str
    ) -> None:
        """Create a node; InternalIP 192.0.2.<number> where no address is given."""
        meta = {"name": self.key(number).name, "labels": {**self.label, **labels}}
        await self.stage.client.create(NODES, "", {"metadata": meta})
        known = addresses or (("InternalIP", f"192.0.2.{number}"),)
        status = {"addresses": [{"type": t, "address": a} for t, a in known]}
        await self.patch(number, {"status": status}, "status")

    async def patch(
        self, number: int, body: Mapping[str, Any], subresource: str = ""
    ) -> None:
        """Patch a node."""
        await self.stage.client.patch(
            NODES, self.key(number), body, subresource=subresource
        )

    async def mark(self, number: int, **labels: str | None) -> None:
        """Give a node labels, or take them."""
        await self.patch(number, {"metadata": {"labels": labels}})

    async def exclude(self, number: int) -> None:
        """Take a node out of load balancers by its label."""
        await self.patch(number, {"metadata": {"labels": {EXCLUDE: ""}}})

    async def taint(self, number: int, key: str) -> None:
        """Give a node a taint, as autoscalers do."""
        taints = [{"key": key, "effect": "NoSchedule"}]
        await self.patch(number, {"spec": {"taints": taints}})

    async def delete(self, number: int) -> None:
        """Delete a node."""
        await self.stage.client.delete(NODES, self.key(number))

    async def end(self) -> None:
        """Delete all of them."""
        for number in range(1, 10):
            with contextlib.suppress(NotFound):
                await self.delete(number)

    def endpoints(self, **states: str) -> Iterator[dict[str, Any]]:
        """Write endpoints, by node `n1` and so on: ready, serving, unready."""
        for name, state in states.items():
            yield {
                "addresses": [f"198.18.200.{name.removeprefix('n')}"],
                "nodeName": f"{self.stage.namespace}-{name}",
                "conditions": {
                    "ready": state == "ready",
                    "serving": state in {"ready", "serving"},
                    "terminating": state == "serving",
                },
            }

    async def serve(self, **states: str) -> None:
        """Write what the nodes have of the Service `web`."""
        body: dict[str, Any] = {"endpoints": list(self.endpoints(**states))}
        try:
            await self.stage.patch(SLICES, "web-1", body)
        except NotFound:
            label = {"kubernetes.io/service-name": "web"}
            meta = {"name": "web-1", "labels": label}
            ports = [{"name": "", "port": 8080}]
            body = {**body, "metadata": meta, "addressType": "IPv4", "ports": ports}
            await self.stage.create(SLICES, body)

    async def service(self, **spec: object) -> int:
        """Create the Service `web`, whose endpoints the test writes; its node port."""
        ports = [{"port": 80, "targetPort": 8080}]
        body = {"type": "NodePort", "ports": ports, **spec}
        made = await self.stage.create(
            SERVICES, {"metadata": {"name": "web"}, "spec": body}
        )
        return node_port_of(made)

    async def group(self, name: str = "web", **spec: object) -> None:
        """Create a group of these nodes: the Service's node port, or as it says."""
        service = {"name": "web", "port": {"port": 80}, "nodeSelector": self.label}
        meant = spec if "nodes" in spec else {"service": service, **spec}
        body = {"loadBalancers": ["front"], **meant}
        await self.stage.create(
            objects.GROUPS, {"metadata": {"name": name}, "spec": body}
        )

    async def condition(self, kind: str) -> Mapping[str, Any]:
        """A condition of the group."""
        group = await self.stage.get(objects.GROUPS, "web")
        assert group is not None
        return group.condition(kind)

    async def until_condition(self, kind: str, reason: str) -> Mapping[str, Any]:
        """Wait until a condition of the group has a reason."""

        async def says() -> Mapping[str, Any] | None:
            found = await self.condition(kind)
            return found if found.get("reason") == reason else None

        found = await self.stage.until(f"{kind} of the group says {reason}", says)
        assert found is not None
        return found


def node_port_of(service: Whole) -> int:
    """Say which node port the API server gave a Service."""
    return int(service.body["spec"]["ports"][0]["nodePort"])
