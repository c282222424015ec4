"""The world without its processes: API server, load balancer, users and kubelets.

`World` adds what runs; `scenarios` are played with what users do here.
"""

import asyncio
import contextvars

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, cast

import attrs

from lbcf.core.lifecycle.orphans import confirmation
from lbcf.core.model.names import (
    ANNOTATION_ABANDON,
    ANNOTATION_DRAIN,
    ANNOTATION_REMOVE_ORPHANS,
)
from tests.kube.tiny_rules import (
    Json,
    ending,
    metadata_of,
    place_of,
    stamp,
    with_metadata,
)
from tests.lab.sweep import objects
from tests.lab.sweep.estate import Estate, Place
from tests.lab.sweep.objects import Setting


WishKey = tuple[str, str, str]
"""Group, load balancer and backend, as `seen` spells them."""


@attrs.frozen
class Wish:
    """A backend that should be in."""

    place: Place
    address: str
    parameters: Mapping[str, str]


class Cluster(Estate):
    """What there is, and what users may do with it."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._nobody = contextvars.copy_context()

    def later(self, seconds: float, act: Callable[..., object], *args: object) -> None:
        """Let the world act in a while, whatever becomes of whoever was the cause."""
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, act, *args, context=self._nobody)

    def put_pod(
        self,
        name: str,
        address: str,
        *,
        ready: bool = True,
        node: str = "",
        waits: bool = False,
    ) -> None:
        """Let a pod run, or change it."""
        path = objects.pod_path(name)
        fresh = objects.pod(address, ready=ready, waits=waits)
        if node:
            fresh = {**fresh, "spec": {"nodeName": node}}
        found = self.api.objects.get(path)
        if found is not None:
            fresh = {**found, "status": fresh["status"]}
        self.api.put(path, fresh)

    def put_gated_pod(self, name: str, address: str) -> None:
        """Let a pod with our readiness gate run; its containers are ready."""
        self.api.put(objects.pod_path(name), objects.gated_pod(address))

    def see_gate(self, name: str) -> None:
        """Let the kubelet see that a gate is open."""
        path = objects.pod_path(name)
        whole = self.api.objects.get(path)
        if whole is None:
            return
        status = cast("Json", whole["status"])
        kept = [
            {"type": "Ready", "status": "True"} if c["type"] == "Ready" else c
            for c in cast("list[Json]", status["conditions"])
        ]
        self.api.put(path, {**whole, "status": {**status, "conditions": kept}})

    def drain_by_hand(self, path: str, why: str = "") -> None:
        """Put the annotation that drains on an object, or take it off."""
        self._annotate(path, ANNOTATION_DRAIN, why)

    def confirm_orphans(self, path: str, record_ids: Iterable[str] = ()) -> None:
        """Order the removal of a load balancer's orphans, or take the order back."""
        self._annotate(path, ANNOTATION_REMOVE_ORPHANS, confirmation(record_ids))

    def let_go(self, why: str) -> None:
        """Let all records that end go without their drivers."""
        for path, whole in list(self.api.objects.items()):
            is_ending = metadata_of(whole).get("deletionTimestamp")
            if is_ending and place_of(path).plural == "backendrecords":
                self._annotate(path, ANNOTATION_ABANDON, why)

    def _annotate(self, path: str, name: str, said: str) -> None:
        found = self.api.objects.get(path)
        if found is None:
            return
        given = cast("Json", metadata_of(found).get("annotations") or {})
        rest = {key: text for key, text in given.items() if key != name}
        fresh = {**rest, name: said} if said else rest
        self.api.put(path, with_metadata(found, annotations=fresh))

    def is_drained(self, path: str) -> bool:
        """Tell whether an object has the annotation that drains."""
        found = self.api.objects.get(path)
        given = metadata_of(found).get("annotations") if found is not None else None
        return bool(cast("Json", given or {}).get(ANNOTATION_DRAIN))

    def drop_pod(self, name: str) -> None:
        """Remove a pod at once, as a node does that is gone."""
        self.drop(objects.pod_path(name))

    def end_pod(self, name: str, after: float = 60.0) -> None:
        """Delete a pod: it terminates for some seconds, its deletionTimestamp says until when.

        For longer than a drain if nothing else is said: one ends with its pod.
        """
        path = objects.pod_path(name)
        ends = stamp(self.now() + timedelta(seconds=after))
        whole = with_metadata(
            self.api.objects[path],
            deletionTimestamp=ends,
            deletionGracePeriodSeconds=int(after),
        )
        self.api.put(path, whole)
        self.later(after, self.drop, path)

    def put_group(self, name: str = "web", **spec: Any) -> None:
        """Create a group, or change its spec."""
        self._put_spec(objects.group_path(name), objects.group(**spec))

    def drop_group(self, name: str = "web", after: float = 1.0) -> None:
        """Delete a group; the garbage collector ends its records some time later."""
        path = objects.group_path(name)
        uid = str(metadata_of(self.api.objects[path])["uid"])
        self.drop(path)
        self.later(after, self._collect, uid)

    def spoil(self, path: str, seconds: float) -> None:
        """Let an object say for a while what nobody can understand."""
        whole = self.api.objects[path]
        self.api.put(path, {**whole, "spec": ["not", "a", "spec"]})
        self.later(seconds, self.api.put, path, whole)

    def _collect(self, group_uid: str) -> None:
        """End the records of a group that is gone, and those made since."""
        for path, whole in list(self.api.objects.items()):
            place = place_of(path)
            if (
                place.plural != "backendrecords"
                or objects.owner_uid(whole) != group_uid
            ):
                continue
            self._end(path)

    def delete_records(self) -> None:
        """Delete all records that live, as a person may who takes them for useless."""
        for path in list(self.api.objects):
            if place_of(path).plural == "backendrecords":
                self._end(path)

    def _end(self, path: str) -> None:
        """Delete an object that a finalizer holds."""
        whole = self.api.objects[path]
        if not metadata_of(whole).get("deletionTimestamp"):
            self.api.put(path, ending(place_of(path), whole, self.now()))

    def keep_collecting(self) -> None:
        """Let the garbage collector look once more, when everybody has seen the end."""
        for after in (60.0, 200.0):
            self.later(after, self.collect_orphans)

    def collect_orphans(self) -> None:
        """End the records of all groups that are gone, as the garbage collector does."""
        groups = {
            str(metadata_of(whole)["uid"])
            for path, whole in self.api.objects.items()
            if place_of(path).plural == "backendgroups"
        }
        owners = {
            objects.owner_uid(whole)
            for path, whole in self.api.objects.items()
            if place_of(path).plural == "backendrecords"
        }
        for uid in owners - groups:
            self._collect(uid)

    def set_sessions(self, address: str, number: int) -> None:
        """Let sessions begin or end, also at a member that is yet to come."""
        for balancer in self.balancers:
            balancer.busy[address] = number
            for member in balancer.find(address):
                member.sessions = number

    def wanted(self) -> dict[WishKey, Wish]:
        """Say which backends should be in, by group, load balancer and backend."""
        return dict(self._wishes())

    def _wishes(self) -> Iterator[tuple[WishKey, Wish]]:
        """Read groups, and what they select, as their users mean them."""
        for path, whole in self.api.objects.items():
            if place_of(path).plural != "backendgroups":
                continue
            if self.is_drained(path):
                continue
            spec = cast("Json", whole["spec"])
            parameters = cast("dict[str, str]", spec.get("parameters") or {})
            name = place_of(path).name
            for front in cast("list[str]", spec["loadBalancers"]):
                place = self.pool_of(front)
                if place is None:
                    continue
                for backend, address in self._backends(spec):
                    yield (name, front, backend), Wish(place, address, parameters)

    def _backends(self, spec: Json) -> Iterator[tuple[str, str]]:
        """Say a group's backends with their addresses."""
        match spec:
            case {"static": [*addresses]}:
                yield from ((str(address), str(address)) for address in addresses)
            case {"nodes": {"ports": [{"port": int(port)}]}}:
                yield from self._on_nodes(port)
            case {"service": {"name": str(name)}}:
                port = self.node_port(name) or 0
                yield from self._on_nodes(port) if port else ()
            case _:
                yield from self._ready_pods()

    def _is_pod_drained(self, path: str) -> bool:
        """Tell whether a pod, or its node, is drained by hand."""
        spec = cast("Json", self.api.objects[path].get("spec") or {})
        node = objects.node_path(str(spec.get("nodeName", "")))
        return self.is_drained(path) or self.is_drained(node)

    def _on_nodes(self, port: int) -> Iterator[tuple[str, str]]:
        """Say a port of every node."""
        for name, address in self.nodes():
            if self.is_drained(objects.node_path(name)):
                continue
            yield f"node {name}:{port}", f"{address}:{port}"

    def _ready_pods(self) -> Iterator[tuple[str, str]]:
        """Say the pods that are ready."""
        for path, whole in self.api.objects.items():
            metadata = metadata_of(whole)
            if place_of(path).plural == "pods" and not metadata.get(
                "deletionTimestamp"
            ):
                status = cast("Json", whole["status"])
                if objects.can_serve(whole) and not self._is_pod_drained(path):
                    yield (
                        f"{metadata['name']}/{metadata['uid']}",
                        f"{status['podIP']}:80",
                    )
