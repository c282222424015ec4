"""EndpointSlices of the Services with externalTrafficPolicy Local that groups name.

An informer follows those of each namespace with such a Service, and no others: where no group
names one, not a single EndpointSlice is read. One for each Service would cost the controller a
connection, and the API server a watch, for each Service that a tenant makes.
"""

import asyncio

from collections.abc import Callable, Iterator, Mapping

import structlog

from lbcf.core.model.nodes import SERVICE_LABEL, EndpointSlice, LocalState, local_states
from lbcf.core.model.values import ObjectKey
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import ENDPOINT_SLICES
from lbcf.kube.list_watch import Selection
from lbcf.kube.reader import KubeReader
from lbcf.kube.store import Store
from lbcf.runtime.clock import Clock
from lbcf.runtime.shutdown import until_asked
from lbcf.runtime.tasks import end_tasks


_log = structlog.get_logger(__name__)


def slice_store(namespace: str) -> Store[EndpointSlice]:
    """Make what holds the EndpointSlices of a namespace, and finds those of a Service."""
    return Store(
        {"service": _services_of}, where=lambda key: key.namespace == namespace
    )


def _services_of(found: EndpointSlice) -> Iterator[ObjectKey]:
    name = found.meta.labels.get(SERVICE_LABEL)
    if name:
        yield ObjectKey(found.meta.key.namespace, name)


class EndpointSliceCache:
    """Stores of EndpointSlices by namespace."""

    def __init__(self) -> None:
        self._read: dict[str, Store[EndpointSlice]] = {}

    def open(self, namespace: str, slices: Store[EndpointSlice]) -> None:
        """Take in the store of a namespace that holds a whole list from now on."""
        self._read[namespace] = slices

    def close(self, namespace: str) -> None:
        """Forget a namespace that nobody follows any more."""
        self._read.pop(namespace, None)

    def states(self, service: ObjectKey, port: str) -> Mapping[str, LocalState] | None:
        """Return what each node has of a Service's port, None where it is not read yet."""
        slices = self._read.get(service.namespace)
        if slices is None:
            return None
        return local_states(slices.by_index("service", service), port)

    def unreadable(self, service: ObjectKey) -> str | None:
        """Return why some of a Service's endpoints may not be understood.

        Whose an EndpointSlice is that cannot be read nobody knows: it counts as of each
        Service of its namespace.
        """
        slices = self._read.get(service.namespace)
        found = slices.unreadable.items() if slices is not None else ()
        return next((f"EndpointSlice {key}: {told}" for key, told in found), None)


class EndpointSliceInformers:
    """Starts an informer for each namespace that needs one, and ends it afterwards.

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
        self._wanted: dict[str, set[ObjectKey]] = {}
        self._following: dict[str, asyncio.Task[None]] = {}

    def consider(self, service: ObjectKey) -> None:
        """Look soon whether a Service's endpoints are to be read; cheap, never waits."""
        self._doubtful.add(service)
        self._asked.set()

    async def run(self) -> None:
        """Follow what is wanted until cancelled.

        Raises:
            Exception: what ended the following of a namespace, a defect.
        """
        try:
            while True:
                await until_asked(self._asked, self._following.values())
                self._asked.clear()
                while self._doubtful:
                    await self._settle(self._doubtful.pop())
        finally:
            for namespace in list(self._following):
                await self._end(namespace)

    async def _settle(self, service: ObjectKey) -> None:
        """Begin to follow a Service's namespace, or cease to."""
        namespace = service.namespace
        wanted = self._wanted.setdefault(namespace, set())
        if self._is_wanted(service):
            wanted.add(service)
        else:
            wanted.discard(service)
        if wanted and namespace not in self._following:
            _log.info("endpoints.followed", namespace=namespace)
            self._following[namespace] = asyncio.create_task(self._follow(namespace))
        elif not wanted:
            if namespace in self._following:
                _log.info("endpoints.left", namespace=namespace)
                await self._end(namespace)
            del self._wanted[namespace]

    async def _end(self, namespace: str) -> None:
        await end_tasks([self._following.pop(namespace)])
        self._book.close(namespace)

    async def _follow(self, namespace: str) -> None:
        """Follow one namespace until cancelled."""
        slices = slice_store(namespace)

        def slice_changed(old: EndpointSlice | None, new: EndpointSlice | None) -> None:
            # A pod's new name or address changes nothing on its node.
            if _deciding_parts(old) != _deciding_parts(new):
                either = (found for found in (old, new) if found is not None)
                self._tell({key for found in either for key in _services_of(found)})

        slices.on_change(slice_changed)
        slices.on_unreadable(lambda _key: self._tell(self._wanted[namespace]))
        informer = Informer(
            self._client,
            ENDPOINT_SLICES,
            self._clock,
            store=slices,
            selection=Selection(namespace),
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            await informer.synced.wait()
            self._book.open(namespace, slices)
            self._tell(self._wanted[namespace])

    def _tell(self, services: set[ObjectKey]) -> None:
        for service in services:
            if self._is_wanted(service):
                self._changed(service)


def _deciding_parts(found: EndpointSlice | None) -> tuple[object, ...]:
    if found is None:
        return ()
    return (*_services_of(found), found.ports, found.nodes)
