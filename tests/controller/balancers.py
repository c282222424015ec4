"""An API server and drivers for load balancers and Binds, in virtual time.

Each write and each call of a driver is noted in one list, in the order in which they begin.
"""

import asyncio

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import attrs
import msgspec

from prometheus_client import CollectorRegistry

from lbcf.controller.bind_view import BindView
from lbcf.controller.binds import Binds
from lbcf.controller.legacy import LegacyLocks
from lbcf.controller.load_balancers import LoadBalancers
from lbcf.controller.record_lister import RecordLister
from lbcf.controller.view import View
from lbcf.core.model import names
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.drivers.errors import DriverError
from lbcf.drivers.pool import DriverPool, Reader
from lbcf.executor import LoadBalancerCalls
from lbcf.executor.binds import BindWriter
from lbcf.executor.load_balancer_life import LoadBalancerExecutor
from lbcf.executor.locks import AddressLocker
from lbcf.executor.object_events import AbandonmentReporter
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.address_locks import AddressLocks
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Unavailable
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import BINDS, LOAD_BALANCERS
from lbcf.kube.list_watch import Put
from lbcf.kube.requests import ApiRequest
from lbcf.runtime.limiter import Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.spans import Span
from lbcf.runtime.worker import Result
from lbcf.wire.driver import parse_answer
from tests.builders import NAMESPACE, a_driver
from tests.fakes.clock import VirtualClock
from tests.kube.tiny_api import Json, TinyApi


KEY = ObjectKey(NAMESPACE, "front")
BIND = ObjectKey(NAMESPACE, "shop")
SUCC: Json = {"status": "Succ"}


class Noting(TinyApi):
    """An API server that notes each write."""

    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self._seen = seen
        self.listed: list[str] = []
        self.fails_lists = False
        self.refused = 0

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Note it, and carry it out."""
        if request.method == "GET" and request.path.endswith("/backendrecords"):
            self.listed.append(request.path)
            if self.fails_lists:
                raise Unavailable(f"{request}: 503", sent=True, status=503)
        if self.refused and request.path.endswith("/leases"):
            self.refused -= 1
            raise Unavailable(f"{request}: 503", sent=True, status=503)
        if request.method != "GET" and "/events" not in request.path:
            self._seen.append(_in_words(request))
        return await super().send(request, within)


def _in_words(request: ApiRequest) -> str:
    """Say what a patch says: of each condition the status and the reason."""
    body: Any = msgspec.json.decode(request.body or b"{}")
    status, found = body.get("status", {}), []
    if "finalizers" in body.get("metadata", {}):
        found.append("hold" if body["metadata"]["finalizers"] else "release")
    for one in status.get("loadBalancerStatuses", [status] if status else []):
        told = [f"{c['type']}={c['status']}:{c['reason']}" for c in one["conditions"]]
        found.append(" ".join([one.get("name", ""), *told]).strip())
    return f"{request.method} " + " | ".join(found)


class Scripted(DriverPool):
    """Drivers that answer what they are told to, in some time, and else succeed."""

    def __init__(self, seen: list[str]) -> None:
        super().__init__(VirtualClock(), CollectorRegistry())
        self._seen = seen
        self.answers: dict[str, deque[Json | DriverError]] = {}
        self.lasts = 0.0

    @asynccontextmanager
    async def slot(self, *_where: Any, **_limits: Any) -> AsyncIterator[None]:
        """Let everybody in."""
        yield

    async def call(
        self,
        driver: LoadBalancerDriver,
        operation: Operation,
        request: Any,
        *,
        timeout: timedelta,  # noqa: ASYNC109 - the pool's own
        until: float | None = None,
        read: Reader = parse_answer,
        links: Sequence[Span] = (),
    ) -> Any:
        """Answer."""
        del request, timeout, until, links
        self._seen.append(f"{operation.value} {driver.meta.key.name}")
        await asyncio.sleep(self.lasts)
        script = self.answers.get(operation.value)
        answer: Json | DriverError = script.popleft() if script else _success(operation)
        if isinstance(answer, DriverError):
            raise answer
        return read(operation, msgspec.json.encode(answer))


def _success(operation: Operation) -> Json:
    """Answer as a driver that has done it."""
    is_validation = operation is Operation.VALIDATE_LOAD_BALANCER
    return {"succ": True} if is_validation else dict(SUCC)


@attrs.define
class Cluster:
    """The reconcilers of load balancers over one API server.

    Attributes:
        seen: writes and calls, in order.
    """

    seen: list[str] = attrs.Factory(list)
    view: View = attrs.Factory(View)
    clock: VirtualClock = attrs.Factory(VirtualClock)
    api: Noting = attrs.field(init=False)
    drivers: Scripted = attrs.field(init=False)
    client: KubeClient = attrs.field(init=False)
    queue: WorkQueue[ObjectKey] = attrs.field(init=False)
    load_balancers: LoadBalancers = attrs.field(init=False)
    binds: Binds = attrs.field(init=False)
    _driver_version: int = 0

    def __attrs_post_init__(self) -> None:
        clock = self.clock
        self.api, self.drivers = Noting(self.seen), Scripted(self.seen)
        self.client, self.queue = KubeClient(self.api), WorkQueue("binds", clock)
        recorder = EventRecorder(self.client, clock, controller="test", instance="test")
        calls = LoadBalancerCalls(self.drivers, clock)
        told = AbandonmentReporter(recorder, None)
        locks = AddressLocks(self.client, "kube-system", clock)
        locker = AddressLocker(self.client, locks, clock, self.view.lock_keys)
        inheritance = LegacyLocks(self.view, locker, clock)
        lists = RecordLister(self.client, self.view.observe_record)
        self.load_balancers = LoadBalancers(
            self.view,
            LoadBalancerExecutor(
                ObjectWriter(self.client, LOAD_BALANCERS, self.view.load_balancers),
                calls,
                clock,
            ),
            told,
            inheritance=inheritance,
            lists=lists,
        )
        self.binds = Binds(
            self.view,
            BindWriter(ObjectWriter(self.client, BINDS, self.view.binds)),
            calls,
            clock,
            told,
            queue=self.queue,
            shares=Shares(8),
            inheritance=inheritance,
            lists=lists,
        )
        BindView(self.view).listen()
        for name in ("proxy", "edge"):
            self.show_driver(name)

    def show_driver(
        self, name: str, *, leaving: bool = False, held: bool = True, **changes: Any
    ) -> None:
        """Let there be a driver, held or not, with some fields changed."""
        self._driver_version += 1
        found = a_driver(name, version=self._driver_version)
        labels = {names.LABEL_DRAINING: "true"} if leaving else {}
        finalizers = (names.FINALIZER_DRIVER,) if held else ()
        meta = attrs.evolve(found.meta, finalizers=finalizers, labels=labels)
        self.view.drivers.apply(Put(attrs.evolve(found, meta=meta, **changes)))

    def put(self, key: ObjectKey, kind: Any, body: Json) -> None:
        """Store an object as its user does."""
        self.api.put(kind.path(key), body)

    async def turn(self) -> Result:
        """Let the watch catch up, and take one turn of the load balancer, or of the Bind."""
        if BINDS.path(BIND) in self.api.objects:
            self.view.binds.apply(Put(await self.client.get(BINDS, BIND)))
            return await self.binds.reconcile(BIND)
        found = await self.client.get(LOAD_BALANCERS, KEY)
        self.view.load_balancers.apply(Put(found))
        return await self.load_balancers.reconcile(KEY)

    def body(self, kind: Any, key: ObjectKey) -> Any:
        """Read what is stored."""
        return self.api.objects[kind.path(key)]

    def mark(self, kind: Any, key: ObjectKey, **metadata: object) -> None:
        """Change metadata as a user, or the API server, does."""
        whole = dict(self.body(kind, key))
        before = whole["metadata"]
        generation = before["generation"] + 1
        whole["metadata"] = {**before, **metadata, "generation": generation}
        self.api.put(kind.path(key), whole)

    def change(self, kind: Any, key: ObjectKey, **spec: object) -> None:
        """Change the spec as a user does."""
        whole = dict(self.body(kind, key))
        whole["spec"] = {**whole["spec"], **spec}
        self.api.put(kind.path(key), whole)
        self.mark(kind, key)
