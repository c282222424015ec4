"""The verbs of the API, each returning parsed values; no verb ever repeats a write.

`lbcf.executor` and the rest of this package call it; an `HttpTransport` below it carries requests.
A write that names what it read (`cas`, `uid`, `version`) is refused by the server with
`Conflict` when somebody else was faster: that is what all promises rest on.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeVar

import attrs
import msgspec

from lbcf.core.model.resources import Meta
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.kube.connection import Connection
from lbcf.kube.errors import read_status
from lbcf.kube.kinds import HasMeta, Resource
from lbcf.kube.reader import KubeReader, parsed
from lbcf.kube.requests import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    ApiRequest,
    Body,
    HttpTransport,
    Method,
    Middleware,
    json_cas,
    merge_cas,
)
from lbcf.kube.transport import AT_ONCE, CALL_LIMIT, POOL, Transport
from lbcf.runtime.clock import Clock


T = TypeVar("T", bound=HasMeta)


class KubeClient(KubeReader):
    """All verbs.

    Args:
        exchange: the way to the server.
        field_manager: under which name the server's managedFields book our writes.
    """

    def __init__(self, exchange: HttpTransport, *, field_manager: str = "lbcf") -> None:
        super().__init__(exchange)
        self._manager = {"fieldManager": field_manager}

    async def create(
        self,
        resource: Resource[T],
        namespace: str,
        body: Body,
        *,
        within: timedelta | None = None,
        dry_run: bool = False,
    ) -> T:
        """Create an object; apiVersion and kind are added to the body.

        Args:
            resource: the kind.
            namespace: where; empty for kinds of the whole cluster.
            body: the object.
            within: the time limit, None for the usual one.
            dry_run: all is done but the storing.

        Raises:
            AlreadyExists: the name is taken.
            Unavailable: `maybe_applied` tells whether it may exist now.
            KubeError: as the tree tells.
        """
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        request = self._write("POST", resource.collection(namespace), whole)
        if dry_run:
            request = attrs.evolve(request, query={**request.query, "dryRun": "All"})
        return parsed(resource, await self._exchange.send(request, within))

    async def patch(
        self,
        resource: Resource[T],
        key: ObjectKey,
        body: Body | Sequence[Body],
        *,
        cas: Meta | None = None,
        subresource: str = "",
        merges_lists: bool = False,
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
            merges_lists: a merge patch changes those elements of lists that it names by
                their key (strategic merge patch); built-in kinds alone have that.
            within: the time limit, None for the usual one.

        Raises:
            NotFound: there is none.
            Conflict: it is not, or no longer, what `cas` names.
            Unavailable: `maybe_applied` tells whether it may have changed.
            KubeError: as the tree tells.
        """
        path = resource.path(key, subresource)
        if isinstance(body, Mapping):
            kind = STRATEGIC_PATCH if merges_lists else MERGE_PATCH
            request = self._write("PATCH", path, merge_cas(body, cas), kind)
        else:
            request = self._write("PATCH", path, json_cas(body, cas), JSON_PATCH)
        return parsed(resource, await self._exchange.send(request, within))

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
        request = ApiRequest(
            "DELETE",
            resource.path(key),
            body=msgspec.json.encode({**options, "preconditions": preconditions}),
        )
        answer = await self._exchange.send(request, within)
        return None if read_status(answer) else parsed(resource, answer)

    def _write(
        self, method: Method, path: str, body: object, kind: str = "application/json"
    ) -> ApiRequest:
        return ApiRequest(method, path, self._manager, msgspec.json.encode(body), kind)


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
    """Connect a client; its connections are closed at the end of the block.

    Args:
        connection: where, and as whom.
        clock: spreads the pauses between attempts.
        user_agent: who asks, as the server's audit log shows it.
        field_manager: who writes, as managedFields show it.
        limit: for one call, with all its attempts.
        pool: requests at a time; each informer has a connection beside them.
        at_once: of these requests, those that end nothing.
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
