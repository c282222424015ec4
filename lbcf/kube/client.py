"""The verbs of the API, each returning parsed values; no verb ever repeats a write.

Reconcilers and the rest of this package call it; an `HttpTransport` below it carries requests.
A write that names what it read (`cas`, `uid`, `version`) is refused by the server with
`Conflict` when somebody else was faster: that is what all promises rest on.
"""

import asyncio

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Final, TypeVar

import msgspec

from lbcf.core.model.resources import Meta
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.kube.connection import Connection
from lbcf.kube.errors import BadAnswer, TooLarge, read_status
from lbcf.kube.kinds import HasMeta, Resource
from lbcf.kube.list_watch import (
    EVERYTHING,
    LINE_LIMIT,
    Page,
    Selection,
    Unreadable,
    read_page,
)
from lbcf.kube.refusals import StatusRefusals
from lbcf.kube.requests import (
    JSON_PATCH,
    MERGE_PATCH,
    Body,
    HttpTransport,
    Method,
    Middleware,
    Request,
    json_cas,
    merge_cas,
)
from lbcf.kube.transport import AT_ONCE, CALL_LIMIT, POOL, Transport
from lbcf.runtime.clock import Clock
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
_SHRINK: Final = 8
_GROWTH: Final = 4


class KubeClient:
    """The verbs.

    Args:
        exchange: the way to the server.
        field_manager: under which name the server's managedFields book our writes.

    Attributes:
        refusals: keeps a status that was refused from being sent again at once; None:
            nobody does.
    """

    def __init__(self, exchange: HttpTransport, *, field_manager: str = "lbcf") -> None:
        self.refusals: StatusRefusals | None = None
        self._exchange = exchange
        self._manager = {"fieldManager": field_manager}
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

        One page is in memory at a time, of at most `PAGE_BYTES`: the number of objects
        that are asked for follows what the last page weighed.

        Args:
            resource: the kind.
            selection: which of them.
            version: None for what is true now (a consistent read); `0` for what the
                server has at hand, in one page of any length; any other for at least
                that version.
            page_size: objects per page at most.

        Raises:
            Gone: the pages took so long that the server forgot their moment.
            TooLarge: a single object is longer than a page may be.
            KubeError: as the tree tells.
        """
        path = resource.collection(selection.namespace)
        first = selection.query()
        query = first if version is None else {**first, "resourceVersion": version}
        # Out of its cache the server gives everything at once, whatever the limit.
        most = None if version == "0" else PAGE_BYTES
        limit = page_size
        while True:
            request = Request("GET", path, {**query, "limit": str(limit)}, most=most)
            try:
                async with self._pages:
                    body = await self._exchange.send(request)
            except TooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // _SHRINK)
                continue
            page = read_page(resource, body)
            limit = min(page_size, _next_limit(limit, page, len(body)))
            del body
            yield page
            if not page.rest:
                return
            query = {**first, "continue": page.rest}

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
        return _parsed(resource, await self.get_raw(resource, key, within=within))

    async def get_raw(
        self, resource: Resource[T], key: ObjectKey, *, within: timedelta | None = None
    ) -> bytes:
        """Read a whole object as JSON, for those who are to get all of it.

        Raises:
            NotFound: there is none.
            KubeError: as the tree tells.
        """
        return await self._exchange.send(Request("GET", resource.path(key)), within)

    async def create(
        self,
        resource: Resource[T],
        namespace: str,
        body: Body,
        *,
        within: timedelta | None = None,
    ) -> T:
        """Create an object; apiVersion and kind are added to the body.

        Args:
            resource: the kind.
            namespace: where; empty for kinds of the whole cluster.
            body: the object.
            within: the time limit, None for the usual one.

        Raises:
            AlreadyExists: the name is taken.
            Unavailable: `maybe_applied` tells whether it may exist now.
            KubeError: as the tree tells.
        """
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        request = self._write("POST", resource.collection(namespace), whole)
        return _parsed(resource, await self._exchange.send(request, within))

    async def patch(
        self,
        resource: Resource[T],
        key: ObjectKey,
        body: Body | Sequence[Body],
        *,
        cas: Meta | None = None,
        subresource: str = "",
        within: timedelta | None = None,
    ) -> T:
        """Change an object.

        Args:
            resource: the kind.
            key: which one.
            body: a merge patch; a sequence of operations is a JSON patch.
            cas: what was read: the change applies to this uid and resourceVersion or
                not at all.
            subresource: such as `status`.
            within: the time limit, None for the usual one.

        Raises:
            NotFound: there is none.
            Conflict: it is not, or no longer, what `cas` names.
            Unavailable: `maybe_applied` tells whether it may have changed.
            KubeError: as the tree tells.
        """
        path = resource.path(key, subresource)
        if isinstance(body, Mapping):
            request = self._write("PATCH", path, merge_cas(body, cas), MERGE_PATCH)
        else:
            request = self._write("PATCH", path, json_cas(body, cas), JSON_PATCH)
        if self.refusals is None or cas is None or subresource != "status":
            return _parsed(resource, await self._exchange.send(request, within))
        with self.refusals.writing(resource.kind, cas):
            return _parsed(resource, await self._exchange.send(request, within))

    def rest(self, meta: Meta) -> timedelta | None:
        """Say how long an object's status, refused before, is not written; None: it is."""
        return None if self.refusals is None else self.refusals.rest(meta)

    async def delete(
        self,
        resource: Resource[T],
        key: ObjectKey,
        *,
        uid: Uid | None = None,
        version: str | None = None,
        within: timedelta | None = None,
    ) -> T | None:
        """Delete an object, or begin to: finalizers decide when it goes.

        Args:
            resource: the kind.
            key: which one.
            uid: only if it still is this one.
            version: only if it still is in this version.
            within: the time limit, None for the usual one.

        Returns:
            The object as it stands then, None when the server says only that it is done.

        Raises:
            NotFound: there is none.
            Conflict: it is not what `uid` and `version` name.
            Unavailable: `maybe_applied` tells whether it may be gone.
            KubeError: as the tree tells.
        """
        named = {"uid": uid, "resourceVersion": version}
        preconditions = {name: value for name, value in named.items() if value}
        options = {"apiVersion": "v1", "kind": "DeleteOptions"}
        request = Request(
            "DELETE",
            resource.path(key),
            body=msgspec.json.encode({**options, "preconditions": preconditions}),
        )
        answer = await self._exchange.send(request, within)
        return None if read_status(answer) else _parsed(resource, answer)

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
            Gone: the version is too old, list again.
            KubeError: as the tree tells, also while chunks are read.
        """
        query = selection.query() | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        path = resource.collection(selection.namespace)
        return self._exchange.stream(Request("GET", path, query), silence)

    def _write(
        self, method: Method, path: str, body: object, kind: str = "application/json"
    ) -> Request:
        """Make a request that changes something."""
        return Request(method, path, self._manager, msgspec.json.encode(body), kind)


@asynccontextmanager
async def connected(
    connection: Connection,
    clock: Clock,
    *,
    user_agent: str = "lbcf",
    field_manager: str = "lbcf",
    limit: timedelta = CALL_LIMIT,
    pool: int = POOL,
    at_once: int = AT_ONCE,
    middleware: Middleware | None = None,
) -> AsyncIterator[KubeClient]:
    """Give a client of a real server, and close its connections at the end.

    Args:
        connection: where, and as whom.
        clock: spreads the pauses between attempts.
        user_agent: who asks, as the server's audit log shows it.
        field_manager: who writes, as managedFields show it.
        limit: for one call, with all its attempts.
        pool: connections at a time; each informer occupies one.
        at_once: requests at a time, beside informers'.
        middleware: put between the verbs and the server.
    """
    transport = Transport(
        connection,
        clock,
        user_agent=user_agent,
        limit=limit,
        pool=pool,
        at_once=at_once,
    )
    async with transport:
        exchange = transport if middleware is None else middleware(transport)
        yield KubeClient(exchange, field_manager=field_manager)


def _next_limit(limit: int, page: Page[T], weight: int) -> int:
    """Say how many objects like those of the last page half fill the next one."""
    objects = len(page.objects) + len(page.unreadable)
    fitting = max(1, objects * PAGE_BYTES // (2 * weight)) if objects else limit
    return min(fitting, _GROWTH * limit)


def _parsed(resource: Resource[T], body: bytes) -> T:
    """Parse an answer that is one object."""
    try:
        return resource.parse(body)
    except Malformed as error:
        raise BadAnswer(f"{resource.kind} from the API server: {error}") from error
