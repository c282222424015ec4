"""A cluster of several tenants in virtual time: both processes, and drivers that hang.

A driver's host says how it behaves: `hang...` answers nothing, `half...` nothing about
what is called noisy, `serial...` does one thing at a time, any other answers after
`LATENCY`. Requests of the API server take
`API_LATENCY` and wait for their turn as those of the real transport do.
"""

import asyncio
import itertools

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Self, cast
from urllib.parse import urlsplit

import attrs

from prometheus_client import CollectorRegistry

from lbcf.controller.app import Controller
from lbcf.core.model.access import Secret
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.shards import WHOLE, Shard
from lbcf.core.model.values import MemberKey
from lbcf.deregistrar.app import DeregistrarProgram
from lbcf.drivers.client import DriverClient
from lbcf.drivers.errors import TimedOut
from lbcf.drivers.pool import DriverPool
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder, Limits
from lbcf.kube.requests import ApiRequest, namespace_of, rank_of
from lbcf.kube.secrets import Secrets
from lbcf.kube.transport import AT_ONCE, KEPT
from lbcf.process import RELEASES_AT_ONCE, Dependencies, Program
from lbcf.runtime.clock import Clock
from lbcf.runtime.metrics import Metrics
from lbcf.runtime.semaphore import PrioritySemaphore
from lbcf.settings import Settings
from lbcf.wire.driver import parse_request, render_answer
from lbcf.wire.driver_answers import HealthzAnswer, ValidationAnswer
from tests.fairness.objects import Thing
from tests.fakes.clock import EPOCH, VirtualClock
from tests.kube.tiny_api import TinyApi
from tests.kube.tiny_history import Change
from tests.kube.tiny_rules import Json, ending, metadata_of, place_of
from tests.lab.sweep.balancer import Balancer as Members


ROLES = ("controller", "deregistrar")
LATENCY = 0.05
SERIAL = 0.03
API_LATENCY = 0.005
LISTING = timedelta(seconds=2)
STARTED = 2.0
"""Seconds in which both processes have read everything and begun."""

_AGREED: Mapping[Operation, bytes] = {
    Operation.HEALTHZ: render_answer(HealthzAnswer(healthy=True)),
    Operation.VALIDATE_LOAD_BALANCER: render_answer(ValidationAnswer(succ=True)),
}


@attrs.frozen
class Call:
    """A call as it arrived at a driver.

    Attributes:
        at: seconds of the world.
        about: the record's or load balancer's id, empty where it names none.
    """

    at: float
    host: str
    operation: Operation
    about: str


class World:
    """The cluster.

    Args:
        api: makes the API server.

    Attributes:
        api: the API server.
        members: of each driver that answers, by its host.
        calls: all that arrived at drivers.
    """

    def __init__(
        self, api: Callable[[Callable[[], datetime]], TinyApi] = TinyApi
    ) -> None:
        self.api = api(self.now)
        self.members: defaultdict[str, Members] = defaultdict(
            lambda: Members(MemberKey.RECORD)
        )
        self.calls: list[Call] = []
        self._watchers: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._serial: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._stack = AsyncExitStack()
        self._runs = itertools.count(1)
        self._records: defaultdict[str, dict[str, Json]] = defaultdict(dict)
        self.api.on_change.append(self._note)
        self.api.on_change.append(lambda _change: self._look())

    async def __aenter__(self) -> Self:
        """Use it for a block."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """End all that was started."""
        await self._stack.aclose()

    @staticmethod
    def second() -> float:
        """Return the seconds since the beginning."""
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        """Return the moment, for what the API server stamps."""
        return EPOCH + timedelta(seconds=self.second())

    # --- users ------------------------------------------------------------------------

    def put(self, *things: Thing) -> None:
        """Make objects, or change them."""
        for thing in things:
            self.api.put(thing.path, thing.body())

    def delete(self, thing: Thing) -> None:
        """Delete an object: what has finalizers begins to end."""
        found = self.api.objects[thing.path]
        if metadata_of(found).get("finalizers"):
            self.api.put(thing.path, ending(place_of(thing.path), found, self.now()))
        else:
            self.api.remove(thing.path)

    def find(self, thing: Thing) -> Json | None:
        """Return an object as it is now, None: it is gone."""
        return self.api.objects.get(thing.path)

    def records_of(self, namespace: str) -> list[Json]:
        """Return the records of a namespace."""
        return list(self._records[namespace].values())

    def _note(self, change: Change) -> None:
        """Keep records by namespace: thousands are not looked through at each change."""
        place = change.place
        if place.plural != "backendrecords":
            return
        if change.after is None:
            self._records[place.namespace].pop(place.name, None)
        else:
            self._records[place.namespace][place.name] = change.after

    async def until(self, test: Callable[[], bool], patience: float) -> float:
        """Wait until something is so; return the seconds that took.

        Raises:
            TimeoutError: it was not within the patience.
        """
        began = self.second()
        if not test():
            seen = asyncio.get_running_loop().create_future()
            self._watchers.append((test, seen))
            async with asyncio.timeout(patience):
                await seen
        return self.second() - began

    def _look(self) -> None:
        """Tell those whose wish has come true."""
        for one in list(self._watchers):
            test, seen = one
            if seen.done() or test():
                self._watchers.remove(one)
                if not seen.done():
                    seen.set_result(None)

    # --- drivers ----------------------------------------------------------------------

    async def answer(
        self, host: str, operation: Operation, body: bytes, limit: float
    ) -> bytes:
        """Be a driver.

        Args:
            host: of its URL.
            operation: what is asked.
            body: of the question.
            limit: seconds after which nobody waits for the answer any more.

        Raises:
            TimedOut: it is one that hangs.
        """
        request = parse_request(operation, body)
        balancer = getattr(request, "lb_info", {}).get("id", "")
        about = str(getattr(request, "record_id", "") or balancer)
        self.calls.append(Call(self.second(), host, operation, about))
        self._look()
        if host.startswith("hang") or (host.startswith("half") and b"noisy" in body):
            await asyncio.sleep(limit)
            raise TimedOut(f"{operation} of {host}: no whole answer")
        if host.startswith("serial"):
            async with self._serial[host]:
                await asyncio.sleep(SERIAL)
        else:
            await asyncio.sleep(LATENCY)
        if operation in _AGREED:
            return _AGREED[operation]
        answer = self.members[host].perform(operation, request)
        self._look()
        return answer

    def clock(self) -> Clock:
        """Make the clock of a process."""
        return VirtualClock()

    def pool(self, clock: Clock) -> DriverPool:
        """Make what calls drivers in a process."""
        return _Drivers(self, clock)

    # --- processes --------------------------------------------------------------------

    async def start(self, seconds: float) -> None:
        """Start both processes, and let them work for a while."""
        for role in ROLES:
            self.lead(self.stand_by(role))
        await asyncio.sleep(seconds)

    def stand_by(
        self, role: str, metrics: Metrics | None = None, shard: Shard = WHOLE
    ) -> Program:
        """Start a process that reads, and does not lead.

        Args:
            role: controller, or deregistrar.
            metrics: None: nobody measures.
            shard: the part of the work that it will do.
        """
        found = cast("Metrics", metrics)
        parts = attrs.evolve(self._parts(role), metrics=found, shard=shard)
        program: Program
        if role == "controller":
            program = Controller(parts)
        else:
            program = DeregistrarProgram(parts)
        reading = [asyncio.create_task(one.run()) for one in program.informers]
        self._stack.push_async_callback(parts.drivers.close)
        self._stack.push_async_callback(_cut, reading)
        return program

    def lead(self, program: Program) -> Callable[[], Awaitable[None]]:
        """Let a process work; return what ends that."""
        stop = asyncio.Event()
        role = ROLES[isinstance(program, DeregistrarProgram)]
        working = asyncio.create_task(self.run(role, partial(_work, program, stop)))

        async def end() -> None:
            stop.set()
            await working

        self._stack.push_async_callback(end)
        return end

    async def run(self, role: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run the work of a process; without a Lease, as nobody else does it."""
        del role
        await work()

    def _parts(self, role: str) -> Dependencies:
        """Put together what a process works with, as `lbcf.process` does."""
        ends_first = role == "deregistrar"
        clock = self.clock()
        client = KubeClient(_Way(self.api, RELEASES_AT_ONCE if ends_first else AT_ONCE))
        return Dependencies(
            settings=Settings(
                role, leader_elect=False, list_period=LISTING, grace=timedelta(0)
            ),
            client=client,
            elections=client,
            secrets=Secrets(client, clock),
            drivers=self.pool(clock),
            recorder=EventRecorder(
                client, clock, controller=role, instance=role, limits=Limits(queue=0)
            ),
            clock=clock,
            metrics=cast("Metrics", None),
            incarnation=f"{role}-{next(self._runs)}",
        )


async def _work(program: Program, stop: asyncio.Event) -> None:
    """Work once everything has been read."""
    for informer in program.informers:
        await informer.synced.wait()
    await program.work(stop)


async def _cut(reading: Sequence[asyncio.Task[Any]]) -> None:
    """Have a process read no more."""
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)


class _Way:
    """A process's way to the API server: implements `HttpTransport`."""

    def __init__(self, api: TinyApi, places: int) -> None:
        self._api = api
        self._places = PrioritySemaphore(places, kept=KEPT)

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Wait for a place, and for the answer."""
        async with self._places.held(
            group=namespace_of(request), rank=rank_of(request)
        ):
            await asyncio.sleep(API_LATENCY)
            return await self._api.send(request, within)

    @asynccontextmanager
    async def stream(
        self, request: ApiRequest, silence: timedelta
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch."""
        async with self._api.stream(request, silence) as chunks:
            yield chunks


class _Drivers(DriverPool):
    """The real pool over drivers of the world."""

    def __init__(self, world: World, clock: Clock) -> None:
        super().__init__(clock, CollectorRegistry())
        self._world = world

    def _connect(
        self, driver: LoadBalancerDriver, _secrets: Mapping[str, Secret]
    ) -> DriverClient:
        """Return the way to a driver."""
        return _Wire(self._world, driver.url)


class _Wire(DriverClient):
    """The way to one driver."""

    def __init__(self, world: World, url: str) -> None:
        self._world = world
        self._host = str(urlsplit(url).hostname)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    async def post(
        self,
        name: str,  # noqa: ARG002 - the URL tells more
        operation: Operation,
        body: bytes,
        timeout: timedelta,  # noqa: ASYNC109 - as the real one has it
        headers: Mapping[str, str] | None = None,  # noqa: ARG002 - nobody looks
    ) -> bytes:
        """Send one call."""
        limit = timeout.total_seconds()
        return await self._world.answer(self._host, operation, body, limit)
