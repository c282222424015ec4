"""The world without its processes: API server, load balancer, users and kubelets.

`World` adds what runs; `scenarios` are played with what users do here.
"""

import asyncio
import contextvars

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, cast

import attrs

from tests.fakes.clock import EPOCH
from tests.kube.tiny_api import TinyApi
from tests.kube.tiny_rules import (
    Json,
    ending,
    metadata_of,
    place_of,
    stamp,
    with_metadata,
)
from tests.sweep import objects
from tests.sweep.balancer import Balancer
from tests.sweep.objects import Setting


@attrs.frozen
class Wish:
    """A backend that should be in."""

    address: str
    parameters: Mapping[str, str]


class Cluster:
    """What there is, and what users may do with it.

    Attributes:
        setting: what kind of world it is.
        api: the API server.
        balancer: the load balancer.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.api = TinyApi(self.now)
        self.balancer = Balancer(setting.member_key)
        self._nobody = contextvars.copy_context()

    @staticmethod
    def second() -> float:
        """Return the seconds since the beginning."""
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        """Return the moment."""
        return EPOCH + timedelta(seconds=self.second())

    def later(self, seconds: float, act: Callable[..., object], *args: object) -> None:
        """Let the world act in a while, whatever becomes of whoever was the cause."""
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, act, *args, context=self._nobody)

    def put_pod(self, name: str, address: str, *, ready: bool = True) -> None:
        """Let a pod run, or change it."""
        path = objects.pod_path(name)
        fresh = objects.pod(address, ready=ready)
        found = self.api.objects.get(path)
        if found is not None:
            fresh = {**found, "status": fresh["status"]}
        self.api.put(path, fresh)

    def drop_pod(self, name: str) -> None:
        """Remove a pod at once, as a node does that is gone."""
        self._drop(objects.pod_path(name))

    def end_pod(self, name: str, after: float = 5.0) -> None:
        """Delete a pod: it terminates for some seconds."""
        path = objects.pod_path(name)
        self.api.put(path, with_metadata(self.api.objects[path], **self._stamp()))
        self.later(after, self._drop, path)

    def put_group(self, name: str = "web", **spec: Any) -> None:
        """Create a group, or change its spec."""
        path, whole = objects.group_path(name), objects.group(**spec)
        found = self.api.objects.get(path)
        if found is None:
            self.api.put(path, whole)
            return
        generation = cast("int", metadata_of(found)["generation"]) + 1
        self.api.put(
            path,
            with_metadata({**found, "spec": whole["spec"]}, generation=generation),
        )

    def drop_group(self, name: str = "web") -> None:
        """Delete a group; the garbage collector ends its records a second later."""
        path = objects.group_path(name)
        uid = str(metadata_of(self.api.objects[path])["uid"])
        self._drop(path)
        self.later(1.0, self._collect, uid)

    def end_load_balancer(self, name: str = "front") -> None:
        """Delete a load balancer: its finalizer holds it."""
        path = objects.load_balancer_path(name)
        found = self.api.objects[path]
        self.api.put(path, ending(place_of(path), found, self.now()))

    def _collect(self, group_uid: str) -> None:
        """End the records of a group that is gone, and those made since."""
        for path, whole in list(self.api.objects.items()):
            place = place_of(path)
            if (
                place.plural != "backendrecords"
                or objects.owner_uid(whole) != group_uid
            ):
                continue
            if not metadata_of(whole).get("deletionTimestamp"):
                self.api.put(path, ending(place, whole, self.now()))

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

    def _drop(self, path: str) -> None:
        """Remove an object at once."""
        if path in self.api.objects:
            self.api.remove(path)

    def _stamp(self) -> Json:
        """Say that something is being deleted since now."""
        return {"deletionTimestamp": stamp(self.now())}

    def set_sessions(self, address: str, number: int) -> None:
        """Let sessions begin or end, also at a member that is yet to come."""
        self.balancer.busy[address] = number
        for member in self.balancer.find(address):
            member.sessions = number

    def wanted(self) -> dict[tuple[str, str, str], Wish]:
        """Say which backends should be in, by group, load balancer and backend."""
        return dict(self._wishes())

    def _wishes(self) -> Iterator[tuple[tuple[str, str, str], Wish]]:
        """Read groups and pods as their users mean them."""
        for path, whole in self.api.objects.items():
            if place_of(path).plural != "backendgroups":
                continue
            spec = cast("Json", whole["spec"])
            parameters = cast("dict[str, str]", spec.get("parameters") or {})
            name = place_of(path).name
            for front in cast("list[str]", spec["loadBalancers"]):
                found = self.api.objects.get(objects.load_balancer_path(front))
                if found is None or metadata_of(found).get("deletionTimestamp"):
                    continue
                for backend, address in self._backends(spec):
                    yield (name, front, backend), Wish(address, parameters)

    def _backends(self, spec: Json) -> Iterator[tuple[str, str]]:
        """Say a group's backends with their addresses."""
        if "static" in spec:
            for address in cast("list[str]", spec["static"]):
                yield address, address
            return
        for path, whole in self.api.objects.items():
            metadata = metadata_of(whole)
            if place_of(path).plural == "pods" and not metadata.get(
                "deletionTimestamp"
            ):
                status = cast("Json", whole["status"])
                ready = cast("list[Json]", status["conditions"])[0]["status"] == "True"
                if ready:
                    yield (
                        f"{metadata['name']}/{metadata['uid']}",
                        f"{status['podIP']}:80",
                    )

    def has_load_balancer(self, name: str) -> bool:
        """Tell whether a load balancer exists; without it its records are held."""
        return objects.load_balancer_path(name) in self.api.objects
