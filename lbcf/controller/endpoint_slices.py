"""EndpointSlices of the Services with externalTrafficPolicy Local that groups name.

An informer follows those of each such Service, and no others: where no group names one, not
a single EndpointSlice is read.
"""

import asyncio

from collections.abc import Callable, Mapping

import structlog

from lbcf.core.model.nodes import SERVICE_LABEL, EndpointSlice, LocalState, local_states
from lbcf.core.model.values import ObjectKey
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import ENDPOINT_SLICES
from lbcf.kube.list_watch import Selection
from lbcf.kube.reader import KubeReader
from lbcf.kube.store import Store
from lbcf.runtime.clock import Clock


_log = structlog.get_logger(__name__)


class EndpointSliceCache:
    """Stores of EndpointSlices by Service."""

    def __init__(self) -> None:
        self._read: dict[ObjectKey, Store[EndpointSlice]] = {}

    def open(self, service: ObjectKey, slices: Store[EndpointSlice]) -> None:
        """Take in the store of a Service that holds a whole list from now on."""
        self._read[service] = slices

    def close(self, service: ObjectKey) -> None:
        """Forget a Service that nobody follows any more."""
        self._read.pop(service, None)

    def states(self, service: ObjectKey, port: str) -> Mapping[str, LocalState] | None:
        """Return what each node has of a Service's port, None where it is not read yet."""
        slices = self._read.get(service)
        return None if slices is None else local_states(slices.values(), port)

    def unreadable(self, service: ObjectKey) -> str | None:
        """Return why some of a Service's endpoints cannot be understood."""
        slices = self._read.get(service)
        found = slices.unreadable.items() if slices is not None else ()
        return next((f"EndpointSlice {key}: {told}" for key, told in found), None)


class EndpointSliceInformers:
    """Starts an informer for each Service that needs one, and ends it afterwards.

    Args:
        client: the API server.
        clock: of the informers.
        book: takes what they read.
        is_wanted: tells whether the endpoints of a Service matter to anybody.
        changed: told of a Service whose nodes have something else than before.
    """

    def __init__(
        self,
        client: KubeReader,
        clock: Clock,
        book: EndpointSliceCache,
        is_wanted: Callable[[ObjectKey], bool],
        changed: Callable[[ObjectKey], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._book = book
        self._is_wanted = is_wanted
        self._changed = changed
        self._doubtful: set[ObjectKey] = set()
        self._asked = asyncio.Event()
        self._following: dict[ObjectKey, asyncio.Task[None]] = {}

    @property
    def followed(self) -> frozenset[ObjectKey]:
        """Return the Services whose endpoints are being read."""
        return frozenset(self._following)

    def consider(self, service: ObjectKey) -> None:
        """Look soon whether a Service is to be followed; cheap, never waits."""
        self._doubtful.add(service)
        self._asked.set()

    async def run(self) -> None:
        """Follow what is wanted until cancelled."""
        try:
            while True:
                await self._asked.wait()
                self._asked.clear()
                while self._doubtful:
                    await self._settle(self._doubtful.pop())
        finally:
            for service in list(self._following):
                await self._end(service)

    async def _settle(self, service: ObjectKey) -> None:
        """Begin to follow a Service, or cease to."""
        wanted = self._is_wanted(service)
        if wanted and service not in self._following:
            _log.info("endpoints.followed", service=str(service))
            self._following[service] = asyncio.create_task(self._follow(service))
        elif not wanted and service in self._following:
            _log.info("endpoints.left", service=str(service))
            await self._end(service)

    async def _end(self, service: ObjectKey) -> None:
        task = self._following.pop(service)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self._book.close(service)

    async def _follow(self, service: ObjectKey) -> None:
        """Follow one Service until cancelled."""
        slices: Store[EndpointSlice] = Store()

        def slice_changed(old: EndpointSlice | None, new: EndpointSlice | None) -> None:
            # A pod's new name or address changes nothing on its node.
            if _deciding_parts(old) != _deciding_parts(new):
                self._changed(service)

        slices.on_change(slice_changed)
        slices.on_unreadable(lambda _key: self._changed(service))
        chosen = Selection(service.namespace, f"{SERVICE_LABEL}={service.name}")
        informer = Informer(
            self._client, ENDPOINT_SLICES, self._clock, store=slices, selection=chosen
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            await informer.synced.wait()
            self._book.open(service, slices)
            self._changed(service)


def _deciding_parts(found: EndpointSlice | None) -> tuple[object, ...]:
    return () if found is None else (found.ports, found.nodes)
