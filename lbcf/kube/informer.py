"""Keeps a store equal to a collection of the API server: list once, then watch.

`client` asks, `list_watch` parses the answers, `store` holds them and tells its
listeners. Connections end, break, fall silent, are refused and forgotten; whatever
happens, the way on is to watch from the last version, or to list again.
"""

import asyncio

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from typing import Generic, NoReturn, TypeVar

import attrs
import structlog

from lbcf.kube.errors import Expired, KubeError, Unavailable, UnreadableAnswer
from lbcf.kube.kinds import HasMeta, Resource
from lbcf.kube.list_watch import (
    EVERYTHING,
    Bookmark,
    Event,
    Obscured,
    Page,
    Put,
    Removed,
    Selection,
    Unreadable,
    lines_of,
    parse_event,
)
from lbcf.kube.reader import PAGE_SIZE, KubeReader
from lbcf.kube.store import Store
from lbcf.runtime.clock import Clock
from lbcf.runtime.tasks import cut_is_error


T = TypeVar("T", bound=HasMeta)

Select = Callable[[], Awaitable[Selection]]
"""Says which objects are meant; asked anew for each list and each watch."""

log = structlog.get_logger(__name__)


@attrs.frozen
class Pacing:
    """How an informer spaces its requests.

    Attributes:
        page_size: objects per page of a list at most.
        watch_seconds: the server ends a watch after a random time between these two.
        silence: a watch without a byte for that long is dead; bookmarks come about
            once a minute.
        shortest_delay: before the first repetition after an error.
        longest_delay: the delays double up to this; a watch that lasted as long as
            this was a good one, whatever it told.
    """

    page_size: int = PAGE_SIZE
    watch_seconds: tuple[int, int] = (300, 600)
    silence: timedelta = timedelta(seconds=90)
    shortest_delay: timedelta = timedelta(seconds=0.5)
    longest_delay: timedelta = timedelta(seconds=30)


_MOST_DOUBLINGS = 16
_WORDLESS_WATCHES = 2
"""After so many in a row without as much as a bookmark the version is given up: a
server whose etcd was restored waits for the version to come, and tells nothing, not
even new events, until then (measured on Kubernetes 1.36)."""


class Informer(Generic[T]):
    """Follows one collection.

    Args:
        client: asks.
        resource: the kind.
        clock: waits.
        store: what is fed; its own where none is given.
        selection: which objects; whoever says that anew each time leaves out only what the
            store does not keep.
        pacing: how requests are spaced.
        may_be_missing: whether a kind that is not installed counts as read.

    Attributes:
        store: what has been seen.
        synced: set when the store holds a whole list.
        last_heard: monotonic seconds of the last sign of life, None before the first.
        last_error: what ended the last turn badly; None since something was read.
    """

    def __init__(
        self,
        client: KubeReader,
        resource: Resource[T],
        clock: Clock,
        *,
        store: Store[T] | None = None,
        selection: Selection | Select = EVERYTHING,
        pacing: Pacing | None = None,
        may_be_missing: bool = False,
    ) -> None:
        self.store: Store[T] = Store() if store is None else store
        self.synced = asyncio.Event()
        self.last_heard: float | None = None
        self.last_error: Exception | None = None
        self._client = client
        self._resource = resource
        self._clock = clock
        self._selection = selection
        self._pacing = pacing or Pacing()
        self._may_be_missing = may_be_missing
        self._is_missing = False
        self._version = ""
        self._fruitless = 0
        self._wordless = 0

    @property
    def resource(self) -> Resource[T]:
        """Return the kind that is followed."""
        return self._resource

    async def run(self) -> NoReturn:
        """Follow the collection until cancelled; no failure ends it."""
        while True:
            self._fruitless += 1
            self.last_error = error = await self._turn()
            delay = self._delay(error)
            self._log_end(error, delay)
            await self._clock.sleep(delay)

    async def _turn(self) -> Exception | None:
        """List if need be, and watch until that ends; return what ended it, if bad."""
        try:
            with cut_is_error(f"following {self._resource.plural}"):
                if not self._version:
                    await self._list()
                await self._watch()
        except KubeError as error:
            if _is_version_lost(error):
                self._version = ""
            self._note_missing(error)
            return error
        except Exception as error:
            # A fault of ours: to end here would leave a store that ages unnoticed.
            log.exception("informer.failed", resource=self._resource.plural)
            self._version = ""
            return error
        finally:
            if self._wordless >= _WORDLESS_WATCHES:
                self._version = ""
        return None

    async def _selected(self) -> Selection:
        if isinstance(self._selection, Selection):
            return self._selection
        return await self._selection()

    def _note_missing(self, error: KubeError) -> None:
        """Count a kind that is not installed as synced; go on asking for it.

        Of the objects it says nothing: whoever decides must not take it for an end.
        """
        was_missing = self._is_missing
        self._is_missing = (
            self._may_be_missing
            and isinstance(error, Unavailable)
            and error.is_unknown_kind
        )
        if self._is_missing and not was_missing:
            log.warning(
                "informer.kind_missing",
                resource=self._resource.plural,
                message="its CustomResourceDefinition is not installed; going on without",
            )
            self.synced.set()

    async def _list(self) -> None:
        """Make the store equal to a consistent list."""
        selection = await self._selected()
        self.store.begin_list()
        objects: list[T] = []
        unreadable: list[Unreadable] = []
        version = ""
        pages = self._client.list_pages(
            self._resource, selection, page_size=self._pacing.page_size
        )
        async with aclosing(pages):
            async for page in pages:
                if not self.synced.is_set():
                    # A first list of thousands, taken in at once, would keep the loop from
                    # renewing a Lease in time.
                    self.store.take_in(page.objects)
                objects.extend(map(self.store.held_for, page.objects))
                unreadable.extend(page.unreadable)
                version = page.version
                self._hear()
        self.store.replace(Page(tuple(objects), tuple(unreadable), version))
        self._version = version
        self._wordless = 0
        self.synced.set()
        log.debug(
            "informer.listed",
            resource=self._resource.plural,
            objects=len(objects),
            version=version,
        )

    async def _watch(self) -> None:
        """Follow events until the server closes; a good watch clears the failures."""
        selection = await self._selected()
        opened = self._clock.monotonic()
        shortest, longest = self._pacing.watch_seconds
        seconds = shortest + int((longest - shortest) * self._clock.jitter())
        watch = self._client.watch(
            self._resource,
            selection,
            version=self._version,
            seconds=seconds,
            silence=self._pacing.silence,
        )
        try:
            async with watch as chunks, aclosing(lines_of(chunks)) as lines:
                self._hear()
                self._wordless += 1
                async for line in lines:
                    self._follow(parse_event(self._resource, line))
        finally:
            lasted = self._clock.monotonic() - opened
            if lasted >= self._pacing.longest_delay.total_seconds():
                self._fruitless = 0

    def _follow(self, event: Event[T]) -> None:
        """Put one event into the store; from its version on the watch can go on."""
        self._hear()
        self.store.apply(event)
        version = _version_of(event)
        if version and version != self._version:
            self._version = version
            self._fruitless = 0
            self._wordless = 0

    def _hear(self) -> None:
        self.last_error = None
        self.last_heard = self._clock.monotonic()

    def _delay(self, error: Exception | None) -> timedelta:
        """Return the pause before the next turn.

        At once after a watch that brought something. The first end without any error,
        and the first lost version, cost nothing either; a server that does it again and
        again gets the same growing delays as one in trouble.
        """
        free = 1 if error is None or isinstance(error, Expired) else 0
        step = self._fruitless - free
        pause = timedelta(0)
        if step > 0:
            pause = self._pacing.shortest_delay * 2 ** min(step - 1, _MOST_DOUBLINGS)
            pause = min(pause, self._pacing.longest_delay)
            pause *= 0.5 + self._clock.jitter() / 2
        wish = error.retry_after if isinstance(error, KubeError) else None
        if wish is None:
            return pause
        return max(pause, wish + self._pacing.shortest_delay * self._clock.jitter())

    def _log_end(self, error: Exception | None, delay: timedelta) -> None:
        """Log why a turn ended; at level debug where that is normal."""
        normal = error is None or isinstance(error, Expired) or self._fruitless == 0
        normal = normal or self._is_missing
        (log.debug if normal else log.warning)(
            "informer.interrupted",
            resource=self._resource.plural,
            error=None if error is None else str(error),
            delay=delay.total_seconds(),
            relist=not self._version,
        )


def _is_version_lost(error: KubeError) -> bool:
    """Return whether watching on from the same version is of no use.

    410: the server has forgotten it. An unreadable stream may have hidden an event.
    """
    return isinstance(error, Expired | UnreadableAnswer)


def _version_of(event: Event[T]) -> str:
    """Return the version up to which an event tells."""
    match event:
        case Put(value):
            return value.meta.resource_version
        case Removed(identity) | Obscured(Unreadable(identity)):
            return identity.version
        case Bookmark(version):
            return version
