"""The verbs of the API that read, each returning parsed values.

Reconcilers get a `KubeReader`: what they decide is written by `lbcf.executor.writes`, which
has the whole `KubeClient`.
"""

import asyncio

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Final, TypeVar

import attrs

from lbcf.core.model.values import ObjectKey
from lbcf.kube.errors import AnswerTooLarge, UnreadableAnswer
from lbcf.kube.kinds import HasMeta, Resource
from lbcf.kube.list_watch import (
    EVERYTHING,
    LINE_LIMIT,
    Answer,
    Page,
    Selection,
    Unreadable,
    open_answer,
)
from lbcf.kube.requests import ApiRequest, HttpTransport
from lbcf.wire.errors import Malformed


T = TypeVar("T", bound=HasMeta)

PAGE_SIZE: Final = 500
"""Objects per page of a list at most: as client-go has it."""
PAGE_BYTES: Final = LINE_LIMIT
"""Bytes of a page. 500 objects of the largest size that etcd takes are 750 MiB, and
whoever may create objects decides about their size: a page that is longer is not read to
its end, but asked for again with fewer objects."""
_PAGES_AT_ONCE: Final = 4
"""Pages of all lists that are read at a time: a process starts with a list of each kind."""
_UNTIL_SENT: Final = 0.001
"""Seconds in which the loop sends what has been begun: while a page is read nothing else runs."""
_SHRINK: Final = 8
_GROWTH: Final = 4


class KubeReader:
    """The verbs that read.

    Args:
        exchange: the way to the server.
    """

    def __init__(self, exchange: HttpTransport) -> None:
        self._exchange = exchange
        self._pages = asyncio.Semaphore(_PAGES_AT_ONCE)

    async def list_pages(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        version: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> AsyncGenerator[Page[T], None]:
        """List, page by page, all from the same moment.

        The next page is on its way while one is read: two are in memory, each of at most
        `PAGE_BYTES`. The number of objects that are asked for follows what the last page
        weighed.

        Args:
            resource: the kind.
            selection: which of them.
            version: None for what is true now (a consistent read); `0` for what the
                server has at hand, in one page of any length; any other for at least
                that version.
            page_size: objects per page at most.

        Raises:
            Expired: the pages took so long that the server forgot their moment.
            AnswerTooLarge: a single object is longer than a page may be.
            KubeError: as the tree tells.
        """
        path = resource.collection(selection.namespace)
        first = selection.query()
        query = first if version is None else {**first, "resourceVersion": version}
        # Out of its cache the server gives everything at once, whatever the limit.
        most = None if version == "0" else PAGE_BYTES
        request = ApiRequest("GET", path, query, most=most)
        coming = self._begin(resource.plural, request, page_size)
        try:
            while True:
                answer, fitting = await coming
                if rest := answer.rest:
                    # The server needs as long for a page as we do: a start with 2,000
                    # records waited 0.25 s for it in all (measured).
                    after = attrs.evolve(request, query={**first, "continue": rest})
                    limit = min(page_size, fitting)
                    coming = self._begin(resource.plural, after, limit)
                    await asyncio.sleep(_UNTIL_SENT)
                page = answer.read(resource)
                del answer
                yield page
                if not rest:
                    return
        finally:
            coming.cancel()

    def _begin(
        self, plural: str, request: ApiRequest, limit: int
    ) -> "asyncio.Task[tuple[Answer, int]]":
        """Ask for a page; whoever wants it waits for the task."""
        task = asyncio.create_task(self._ask(plural, request, limit))
        # Where nobody does any more, nobody is to be told that it failed.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _ask(
        self, plural: str, request: ApiRequest, limit: int
    ) -> tuple[Answer, int]:
        """Ask for a page, of fewer objects where they are too large.

        Returns:
            The answer, and how many objects as large as these fit into a page.

        Raises:
            AnswerTooLarge: a single object is longer than a page may be.
            KubeError: as the tree tells.
        """
        while True:
            query = {**request.query, "limit": str(limit)}
            try:
                async with self._pages:
                    body = await self._exchange.send(attrs.evolve(request, query=query))
            except AnswerTooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // _SHRINK)
                continue
            answer = open_answer(plural, body)
            return answer, _next_limit(limit, len(answer.bodies), len(body))

    async def list(
        self, resource: Resource[T], selection: Selection = EVERYTHING
    ) -> Page[T]:
        """List what is true now, in one piece.

        Raises:
            KubeError: as the tree tells.
        """
        objects: list[T] = []
        unreadable: list[Unreadable] = []
        version = ""
        async for page in self.list_pages(resource, selection):
            objects.extend(page.objects)
            unreadable.extend(page.unreadable)
            version = page.version
        return Page(tuple(objects), tuple(unreadable), version)

    async def get(
        self, resource: Resource[T], key: ObjectKey, *, within: timedelta | None = None
    ) -> T:
        """Read an object as it is now: a quorum read, never from a cache.

        Raises:
            NotFound: there is none.
            KubeError: as the tree tells.
        """
        return parsed(resource, await self.get_raw(resource, key, within=within))

    async def get_raw(
        self, resource: Resource[T], key: ObjectKey, *, within: timedelta | None = None
    ) -> bytes:
        """Read a whole object as JSON, for those who are to get all of it.

        Raises:
            NotFound: there is none.
            KubeError: as the tree tells.
        """
        return await self._exchange.send(ApiRequest("GET", resource.path(key)), within)

    def watch(
        self,
        resource: Resource[T],
        selection: Selection,
        *,
        version: str,
        seconds: int,
        silence: timedelta,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch; it brings chunks of lines, which `list_watch` parses.

        Args:
            resource: the kind.
            selection: which of them.
            version: what comes after it is told.
            seconds: after that long the server ends it.
            silence: after that long without a byte the peer counts as dead.

        Raises:
            Expired: the version is too old, list again.
            KubeError: as the tree tells, also while chunks are read.
        """
        query = selection.query() | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        path = resource.collection(selection.namespace)
        return self._exchange.stream(ApiRequest("GET", path, query), silence)


def _next_limit(limit: int, objects: int, weight: int) -> int:
    fitting = max(1, objects * PAGE_BYTES // (2 * weight)) if objects else limit
    return min(fitting, _GROWTH * limit)


def parsed(resource: Resource[T], body: bytes) -> T:
    """Parse an answer that is one object."""
    try:
        return resource.parse(body)
    except Malformed as error:
        raise UnreadableAnswer(
            f"{resource.kind} from the API server: {error}"
        ) from error
