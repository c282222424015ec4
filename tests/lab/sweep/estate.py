"""Drivers, load balancers, nodes and Services of a `World`, and who may change them.

`objects` spells them, and `Cluster` adds pods and groups. A driver is an object with a URL; behind the URL is a physical system (a `Balancer`), and one system may
be behind several URLs, as one pool of it may be spelled in several ways.
"""

import asyncio

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import cast

import attrs

from tests.fakes.clock import EPOCH
from tests.kube.tiny_api import TinyApi
from tests.kube.tiny_rules import Json, ending, metadata_of, place_of, with_metadata
from tests.lab.sweep import objects
from tests.lab.sweep.balancer import Balancer, target_of
from tests.lab.sweep.objects import PROXY, PROXY_URL, Setting


@attrs.frozen
class Place:
    """A pool of a physical system: where a member is, however it is spelled."""

    balancer: Balancer = attrs.field(eq=id)
    target: str


class Estate:
    """What there is beside pods and groups, and what administrators may do with it.

    Attributes:
        setting: what kind of world it is.
        api: the API server.
        forced: load balancers that somebody removed although their finalizer held them.
        on_empty: told the record whose drain found nothing left.
        on_cut: told the record that takes a member out, and how many sessions it has.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.api = TinyApi(self.now)
        self.forced: set[str] = set()
        self.on_empty: Callable[[str], None] = lambda _record_id: None
        self.on_cut: Callable[[str, int], None] = lambda _record_id, _sessions: None
        self._drivers: dict[str, tuple[str, Setting]] = {}
        self._same: dict[str, str] = {}
        self._systems: dict[str, Balancer] = {}

    @staticmethod
    def second() -> float:
        """Return the seconds since the beginning."""
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        """Return the moment."""
        return EPOCH + timedelta(seconds=self.second())

    # --- drivers, and what is behind them -----------------------------------------------

    @property
    def balancer(self) -> Balancer:
        """Return the system behind the driver that all plays begin with."""
        return self.behind(PROXY_URL)

    @property
    def balancers(self) -> tuple[Balancer, ...]:
        """Return all systems that a driver ever led to."""
        return tuple(self._systems.values())

    def behind(self, url: str) -> Balancer:
        """Return the system behind a URL."""
        name = self._same.get(url, url)
        if name not in self._systems:
            found = (s for u, s in self._drivers.values() if u == url)
            setting = next(found, self.setting)
            system = Balancer(setting.member_key)
            system.names_pools = setting.names_pools
            system.on_empty = self._found_empty
            system.on_cut = self._cut
            self._systems[name] = system
        return self._systems[name]

    def _found_empty(self, record_id: str) -> None:
        """Pass on what a drain found, to whoever listens by then."""
        self.on_empty(record_id)

    def _cut(self, record_id: str, sessions: int) -> None:
        """Pass on whose sessions end with their member, likewise."""
        self.on_cut(record_id, sessions)

    def serve_also(self, url: str, as_well_as: str = PROXY_URL) -> None:
        """Let a second URL lead to the system behind another one."""
        self._same[url] = as_well_as

    def put_driver(
        self, name: str = PROXY, url: str = PROXY_URL, setting: Setting | None = None
    ) -> None:
        """Create a driver, or change its spec."""
        setting = self.setting if setting is None else setting
        self._drivers[name] = (url, setting)
        self.behind(url)
        self._put_spec(objects.driver_path(name), objects.driver(setting, url))

    def drop_driver(self, name: str = PROXY) -> None:
        """Remove a driver, whatever holds it; it may be made again."""
        self.drop(objects.driver_path(name))

    def setting_of(self, driver: str) -> Setting:
        """Return what kind of driver it is, or was when it was last there."""
        return self._drivers[driver][1]

    def place_of(self, driver: str, target: str) -> Place:
        """Say where members of a driver's pool are."""
        return Place(self.behind(self._drivers[driver][0]), target)

    # --- load balancers -----------------------------------------------------------------

    def put_load_balancer(
        self,
        name: str = "front",
        target: str | None = None,
        *,
        driver: str = PROXY,
        scope: tuple[str, ...] = (),
        created: bool = True,
    ) -> None:
        """Create a load balancer, or change its spec.

        Args:
            name: of the object.
            target: the pool that it means; None: one of its own name.
            driver: whose.
            scope: namespaces that may use it beside its own.
            created: the controller has had it created already.
        """
        whole = objects.load_balancer(
            name if target is None else target,
            driver=driver,
            scope=scope,
            created=created,
            epoch=self.setting.epoch,
        )
        self._put_spec(objects.load_balancer_path(name), whole)

    def end_load_balancer(
        self, name: str = "front", annotations: dict[str, str] | None = None
    ) -> None:
        """Delete a load balancer, with annotations: its finalizer holds it."""
        path = objects.load_balancer_path(name)
        found = with_metadata(self.api.objects[path], annotations=annotations or {})
        self.api.put(path, ending(place_of(path), found, self.now()))

    def drop_load_balancer(self, name: str = "front") -> None:
        """Remove a load balancer at once: somebody takes its finalizer off."""
        self.forced.add(name)
        self.drop(objects.load_balancer_path(name))

    def has_load_balancer(self, name: str) -> bool:
        """Tell whether a load balancer exists; without it its records are held."""
        return objects.load_balancer_path(name) in self.api.objects

    def pool_of(self, name: str, namespace: str = "shop") -> Place | None:
        """Say where members of a load balancer are; None: it takes none from there.

        That of one that is not created yet is said by its spec.
        """
        whole = self.api.objects.get(objects.load_balancer_path(name))
        if whole is None or metadata_of(whole).get("deletionTimestamp"):
            return None
        spec = cast("Json", whole["spec"])
        scope = cast("list[str]", spec.get("scope") or [])
        home = str(metadata_of(whole)["namespace"])
        if namespace != home and not {namespace, "*"} & set(scope):
            return None
        target = target_of(cast("Json", spec["lbSpec"]))
        return self.place_of(str(spec["lbDriver"]), target)

    # --- nodes and Services -------------------------------------------------------------

    def put_node(self, name: str, address: str) -> None:
        """Let there be a node, or give it another address."""
        path, fresh = objects.node_path(name), objects.node(address)
        found = self.api.objects.get(path)
        self.api.put(path, fresh if found is None else {**found, **_but_meta(fresh)})

    def drop_node(self, name: str) -> None:
        """Remove a node at once."""
        self.drop(objects.node_path(name))

    def nodes(self) -> Iterator[tuple[str, str]]:
        """Say all nodes with their addresses."""
        for path, whole in self.api.objects.items():
            if place_of(path).plural == "nodes":
                yield place_of(path).name, objects.node_address(whole)

    def put_service(self, name: str = "web", node_port: int = 30080) -> None:
        """Let there be a Service with a node port."""
        path, fresh = objects.service_path(name), objects.service(node_port)
        found = self.api.objects.get(path)
        self.api.put(path, fresh if found is None else {**found, **_but_meta(fresh)})

    def drop_service(self, name: str = "web") -> None:
        """Remove a Service at once."""
        self.drop(objects.service_path(name))

    def node_port(self, name: str) -> int | None:
        """Say the node port of a Service, None: there is none."""
        match self.api.objects.get(objects.service_path(name)):
            case {"spec": {"ports": [{"nodePort": int(port)}]}}:
                return port
            case _:
                return None

    # --- what all of it is made of ------------------------------------------------------

    def drop(self, path: str) -> None:
        """Remove an object at once."""
        if path in self.api.objects:
            self.api.remove(path)

    def _put_spec(self, path: str, whole: Json) -> None:
        """Create an object, or change its spec, which raises its generation."""
        found = self.api.objects.get(path)
        if found is not None:
            generation = cast("int", metadata_of(found)["generation"]) + 1
            whole = {**found, "spec": whole["spec"]}
            whole = with_metadata(whole, generation=generation)
        self.api.put(path, whole)


def _but_meta(whole: Json) -> Json:
    """Return an object without its metadata."""
    return {key: value for key, value in whole.items() if key != "metadata"}
