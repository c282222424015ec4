"""Namespaces on a control plane, watched; the driver in memory; who writes specs.

The rig is that of `tests.e2e.stage`; only the driver runs in this process, since its
members are looked at after each change.
"""

import asyncio
import contextlib
import json
import time

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import attrs

from lbcf import sdk
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
)
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import NAMESPACES, Resource
from lbcf.runtime.clock import SystemClock
from tests.e2e import objects
from tests.e2e.node_objects import NODES
from tests.e2e.objects import Whole
from tests.e2e.stage import Stage
from tests.lab.faults.witness import served
from tests.lab.specs.chains import UNREADY, State, merge
from tests.lab.specs.meaning import NODE_ADDRESSES, Member, Scene, address_of
from tests.lab.specs.oracle import complaints
from tests.lab.specs.schemas import NS, NUMBER
from webhooks.memory import MemoryDriver
from webhooks.memory_members import Members


RESOURCES: Final[Mapping[str, Resource[Whole]]] = {
    "LoadBalancerDriver": objects.DRIVERS,
    "LoadBalancer": objects.LOAD_BALANCERS,
    "BackendGroup": objects.GROUPS,
    "BackendRecord": objects.RECORDS,
    "Bind": objects.BINDS,
    "LoadBalancerClass": objects.CLASSES,
    "Service": objects.SERVICES,
    "Pod": objects.PODS,
}
SYSTEM: Final = "kube-system"
QUIET: Final = 0.4
"""Seconds without any news of a namespace that count as rest."""
LONG_QUIET: Final = 3.0
"""The same in the end of a chain: over a period of listBackends, and a second."""
LOOK: Final = 0.1
_OF_LOAD_BALANCERS: Final = (
    "allocateLoadBalancerNodePorts",
    "loadBalancerSourceRanges",
)
REFUSED: Final = (Invalid, Forbidden)


class Told(Members):
    """Members that know which load balancers each namespace has."""

    def __init__(self, key: sdk.MemberKey) -> None:
        super().__init__(key, sdk.SystemClock())
        self.known: defaultdict[str, dict[frozenset[Any], Mapping[str, str]]] = (
            defaultdict(dict)
        )

    def ensure(self, request: sdk.EnsureBackendRequest) -> bool | None:
        """Put the member in."""
        info = request.lb_info
        self.known[info.get("ns", "")][frozenset(info.items())] = info
        return super().ensure(request)

    def within(self, namespace: str) -> list[Member]:
        """The members of a namespace."""
        return [
            Member(
                one.record_id,
                one.backend_addr,
                dict(one.parameters),
                one.state is sdk.BackendState.ACTIVE,
            )
            for info in self.known[namespace].values()
            for one in self.of(info)
        ]


class Driver(MemoryDriver):
    """The driver in memory, with such members."""

    def __init__(self, key: sdk.MemberKey) -> None:
        super().__init__(key)
        self.members = self.told = Told(key)

    async def ensure_load_balancer(
        self, request: sdk.EnsureLoadBalancerRequest
    ) -> sdk.Succ | sdk.Running:
        """Refuse here, too: a controller that was killed does not ask for objections again."""
        await self.validate_load_balancer(
            sdk.ValidateLoadBalancerRequest(attributes=request.attributes)
        )
        return await super().ensure_load_balancer(request)


@attrs.define
class World:
    """What is known of all namespaces.

    Attributes:
        stage: starts our processes.
        drivers: by the token in `chains` that stands for their URL.
        urls: of the same.
        seen: objects by namespace and `Kind/name`.
        news: when something of a namespace was last told, in monotonic seconds.
    """

    stage: Stage
    drivers: Mapping[str, Driver]
    urls: Mapping[str, str]
    seen: defaultdict[str, dict[str, Mapping[str, Any]]] = attrs.field(
        factory=lambda: defaultdict(dict)
    )
    news: defaultdict[str, float] = attrs.field(factory=lambda: defaultdict(float))
    last: dict[str, str] = attrs.field(factory=dict)

    def listen(self, kind: str, informer: Informer[Whole]) -> None:
        """Take in what an informer tells."""

        def changed(old: Whole | None, new: Whole | None) -> None:
            one = new or old
            assert one is not None
            name = one.meta.key.name
            namespace = one.meta.key.namespace or name
            if namespace == SYSTEM:
                namespace = name.removeprefix("lbcf-")
            key = f"{kind}/{name}"
            if new is None:
                self.seen[namespace].pop(key, None)
            else:
                self.seen[namespace][key] = {**new.body, "kind": kind}
            self.news[namespace] = time.monotonic()
            self.last[namespace] = key

        informer.store.on_change(changed)


@attrs.define
class Namespace:
    """A namespace with what was written into it.

    Attributes:
        state: as it was written last.
        number: of the namespace, none other has it.
    """

    world: World
    name: str
    number: int
    state: State = attrs.field(factory=dict)

    @property
    def tokens(self) -> dict[str, str]:
        """What is called otherwise in another namespace, and how it is told."""
        ports = {
            str(port["nodePort"]): f"@{port['port']}@"
            for key, body in self.world.seen[self.name].items()
            if key.startswith("Service/")
            for port in body["spec"].get("ports", [])
            if "nodePort" in port
        }
        urls = {url: f"@url {token}@" for token, url in self.world.urls.items()}
        network = {
            f"198.18.{self.number}.": f"198.18.{NUMBER}.",
            f"fd00:{self.number}:": f"fd00:{NUMBER}:",
        }
        return {self.name: NS, **urls, **network, **ports}

    def scene(self) -> Scene:
        """How it is."""
        pods = {
            key.partition("/")[2]: body
            for key, body in self.state.items()
            if key.startswith("Pod/")
        }
        members = [
            m for d in self.world.drivers.values() for m in d.told.within(self.name)
        ]
        return Scene(dict(self.world.seen[self.name]), pods, members, self.tokens)

    def _key(self, target: str) -> tuple[Resource[Whole], ObjectKey]:
        kind, _, name = target.partition("/")
        resource = RESOURCES[kind]
        home = SYSTEM if name.startswith("lbcf-") else self.name
        named = name.replace(NS, self.name)
        return resource, ObjectKey(home if resource.namespaced else "", named)

    def _rendered(self, body: Any) -> Any:
        """A manifest with the names of this namespace."""
        text = json.dumps(body)
        for token, url in self.world.urls.items():
            text = text.replace(f"@{token}@", url)
        found = json.loads(
            text.replace(NS, self.name).replace(NUMBER, str(self.number))
        )
        if isinstance(spec := found.get("spec"), dict):
            _drop_what_is_refused(spec)
            self._set_apart(spec)
        return found

    def _set_apart(self, spec: dict[str, Any]) -> None:
        """Load balancers of two namespaces are never the same."""
        if "driver" in spec and spec.get("lbSpec") is None:
            spec["lbSpec"] = {}  # of a class
        if isinstance(spec.get("lbSpec"), dict):
            spec["lbSpec"]["ns"] = self.name
        holders = spec.get("loadBalancers", [])
        for holder in holders if isinstance(holders, list) else []:
            if isinstance(holder, dict) and isinstance(holder.get("spec"), dict):
                holder["spec"]["ns"] = self.name

    async def write(self, state: State) -> str:
        """Make it so; an answer that is not empty says why it was refused.

        What was refused leaves everything as it was: a step changes one object.
        """
        before, self_client = self.state, self.world.stage.client
        for target in [*before.keys(), *(t for t in state if t not in before)]:
            if before.get(target) == state.get(target):
                continue
            resource, key = self._key(target)
            try:
                if target not in state:
                    await self_client.delete(resource, key)
                elif target in before:
                    old, new = (
                        self._rendered(before[target]),
                        self._rendered(state[target]),
                    )
                    await self_client.patch(resource, key, merge(old, new))
                else:
                    await self._create(target, resource, key, state[target])
            except REFUSED as error:
                return str(error)
            except KubeError as error:
                if error.status in {400, 404, 409, 422}:
                    return str(error)
                raise
            now = {**self.state, target: state.get(target)}
            self.state = {t: b for t, b in now.items() if b is not None}
            self.world.news[self.name] = time.monotonic()
        return ""

    async def _create(
        self, target: str, resource: Resource[Whole], key: ObjectKey, body: Any
    ) -> None:
        client = self.world.stage.client
        rendered = self._rendered(body)
        meta = {**rendered.get("metadata", {}), "name": key.name}
        whole = {**rendered, "metadata": meta}
        if target.startswith("Pod/"):
            whole["spec"] = objects.a_pod(key.name)["spec"]
            whole["spec"]["containers"][0]["ports"] = [
                {"name": "http", "containerPort": 8080}
            ]
        end = time.monotonic() + 20
        while True:
            try:
                await client.create(resource, key.namespace, whole)
                break
            except (AlreadyExists, Conflict):
                # One of that name is on its way out.
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(LOOK)
        if target.startswith("Pod/"):
            is_ready = key.name != UNREADY
            status = objects.pod_status(address_of(key.name), ready=is_ready)
            await client.patch(resource, key, status, subresource="status")

    async def rest(self, patience: float, quiet: float = QUIET) -> list[str]:
        """Wait until all is as the specs say, and stays; what is not, else."""
        began = time.monotonic()
        judged, wrong = -1.0, ["nothing is known yet"]
        while True:
            now, news = time.monotonic(), self.world.news[self.name]
            if judged < news or wrong:
                judged, wrong = now, complaints(self.scene())
            if not wrong and now - max(news, began) >= quiet:
                wrong = complaints(self.scene())
                if not wrong:
                    return []
            if now - began > patience:
                return wrong or [f"does not come to rest: {self.world.last[self.name]}"]
            await asyncio.sleep(LOOK if wrong else max(LOOK, quiet / 2))

    async def clear(self, patience: float) -> list[str]:
        """Delete all but the pods; what is still there, else, when it should be gone."""
        client = self.world.stage.client
        order = ("Service", "BackendGroup", "Bind", "LoadBalancer", "LoadBalancerClass")
        for kind in (*order, "LoadBalancerDriver"):
            for target in [t for t in self.world.seen[self.name] if t.startswith(kind)]:
                resource, key = self._key(target)
                label = {"lbcf.tkestack.io/driver-draining": "true"}
                labels = {"lbcf.tkestack.io/do-not-delete": None, **label}
                body: dict[str, Any] = {"metadata": {"labels": labels}}
                if kind == "LoadBalancerDriver":
                    body["spec"] = {"tls": None, "auth": None}
                with contextlib.suppress(NotFound):
                    await client.patch(resource, key, body)
                    await client.delete(resource, key)
        self.state = {t: b for t, b in self.state.items() if t.startswith("Pod/")}
        end = time.monotonic() + patience
        while True:
            left = sorted(self.world.seen[self.name])
            members = self.scene().members
            if not left:
                return [f"a member is left of {m.record}: {m.address}" for m in members]
            if time.monotonic() > end:
                return [f"{target} is still there" for target in left]
            await asyncio.sleep(LOOK)


def _drop_what_is_refused(spec: dict[str, Any]) -> None:
    """Drop what the API server takes out itself, and refuses in a new Service."""
    if spec.get("type") not in {"ClusterIP", "NodePort"}:
        return
    for name in ("loadBalancerClass", *_OF_LOAD_BALANCERS):
        spec.pop(name, None)
    if spec["type"] == "ClusterIP":
        spec.pop("externalTrafficPolicy", None)


async def new_namespace(world: World, name: str, number: int) -> Namespace:
    """Make a namespace."""
    await world.stage.client.create(NAMESPACES, "", {"metadata": {"name": name}})
    return Namespace(world, name, number)


@contextlib.asynccontextmanager
async def prepared(stage: Stage) -> AsyncIterator[World]:
    """Serve the drivers, start our processes, follow everything."""
    keys = {key.value: key for key in (sdk.MemberKey.RECORD, sdk.MemberKey.ADDRESS)}
    async with contextlib.AsyncExitStack() as stack:
        drivers = {token: Driver(key) for token, key in keys.items()}
        urls = {
            token: await stack.enter_async_context(served(driver))
            for token, driver in drivers.items()
        }
        world = World(stage, drivers, urls)
        await _make_nodes(stage.client)
        tasks = []
        for kind, resource in RESOURCES.items():
            if kind == "Pod":
                continue
            informer = Informer(stage.client, resource, SystemClock())
            world.listen(kind, informer)
            tasks.append(asyncio.create_task(informer.run()))
            await informer.synced.wait()
        limit = ("--max-records-per-namespace", "500")
        for process, flags in (("controller", limit), ("deregistrar", ())):
            how = ("--no-leader-elect", "--log-format", "json", *flags)
            started = await stage.start(process, *how)
            await stage.until_working(started)
        try:
            yield world
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _make_nodes(client: KubeClient) -> None:
    for number, address in enumerate(NODE_ADDRESSES):
        key = ObjectKey("", f"specs-{number}")
        meta = {"name": key.name, "labels": {"specs": "yes"}}
        await client.create(NODES, "", {"metadata": meta})
        status = {"addresses": [{"type": "InternalIP", "address": address}]}
        await client.patch(NODES, key, {"status": status}, subresource="status")
