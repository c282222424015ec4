"""Which records there are while the script runs: followed beside it, by a watch."""

from collections.abc import Mapping
from typing import Any

import attrs

from tests.lab.demo.api import Api
from tests.lab.demo.census import RECORDS


NODES = frozenset({"n1", "n2", "n3"})


@attrs.define
class Records:
    """The records that there are, and all that there ever were.

    Attributes:
        live: by uid.
        members: node of each member that there ever was, by its name at HAProxy.
    """

    live: dict[str, Mapping[str, Any]] = attrs.field(factory=dict)
    members: dict[str, str] = attrs.field(
        factory=lambda: {f"lbcf-naive-{node}": node for node in NODES}
    )

    async def follow(self, api: Api, namespace: str) -> None:
        """Keep up with the cluster until cancelled."""
        async for kind, found in api.follow(RECORDS.format(namespace=namespace)):
            if kind == "LISTED":
                self.live.clear()
            for record in found["items"] if kind == "LISTED" else [found]:
                self._see(kind, record)

    def _see(self, kind: str, record: Mapping[str, Any]) -> None:
        """Take one record in."""
        uid = record["metadata"]["uid"]
        if kind == "BOOKMARK":
            return
        self.members[f"lbcf-{uid}"] = record["spec"]["serviceBackend"]["nodeName"]
        if kind == "DELETED":
            self.live.pop(uid, None)
        else:
            self.live[uid] = record

    def address_of(self, node: str) -> tuple[str, int]:
        """Say where the node port of a node is."""
        specs = [record["spec"] for record in self.live.values()]
        [address] = [
            spec["backendAddr"]
            for spec in specs
            if spec["serviceBackend"]["nodeName"] == node
        ]
        host, _, port = address.rpartition(":")
        return host, int(port)

    def settled_at(self) -> frozenset[str] | None:
        """Name the nodes that are registered, None while anything is under way."""
        conditions = [
            {c["type"]: c["status"] for c in r.get("status", {}).get("conditions", [])}
            for r in self.live.values()
        ]
        leaving = any("deletionTimestamp" in r["metadata"] for r in self.live.values())
        if leaving or any(c.get("Registered") != "True" for c in conditions):
            return None
        specs = (r["spec"]["serviceBackend"] for r in self.live.values())
        return frozenset(spec["nodeName"] for spec in specs)
