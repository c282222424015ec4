"""The writes that reconcilers make: by compare-and-swap, then into the store.

The controller and the deregistrar hold a `KubeReader`, which has no verb that writes, and
an `ObjectWriter` for each kind that they may change.
"""

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Generic, TypeVar

import structlog

from lbcf.core.model.resources import Meta
from lbcf.core.model.values import ObjectKey
from lbcf.executor.refusals import StatusRefusals
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import NotFound, answer_lost
from lbcf.kube.kinds import RECORDS, HasMeta, Resource
from lbcf.kube.requests import Body
from lbcf.kube.store import Store
from lbcf.runtime import failpoints
from lbcf.wire.metadata import render_finalizer_added, render_finalizer_removed


T = TypeVar("T", bound=HasMeta)
_R = TypeVar("_R")

_log = structlog.get_logger(__name__)


class ObjectWriter(Generic[T]):
    """Writes objects of one kind.

    Args:
        client: the API server.
        kind: of the objects.
        store: takes in what each write returned: the next decision is made on that, not
            on what the watch has told so far.
        refusals: keeps a status that was refused from being sent again at once; one for
            the writers of several kinds. None: it is sent whenever it is asked for.

    Attributes:
        store: the same.
    """

    def __init__(
        self,
        client: KubeClient,
        kind: Resource[T],
        store: Store[T],
        refusals: StatusRefusals | None = None,
    ) -> None:
        self._client = client
        self._kind = kind
        self.store = store
        self._refusals = refusals
        if refusals is not None:
            store.on_change(refusals.changed)

    async def create(self, namespace: str, body: Body) -> T:
        """Create an object; who called takes it into the store with `observe`.

        Raises:
            AlreadyExists: the name is taken.
            KubeError: it was not created, or nobody knows.
        """
        return await self._send(self._client.create(self._kind, namespace, body))

    async def patch(
        self,
        meta: Meta,
        body: Body,
        subresource: str = "",
        *,
        observe: bool = True,
        merges_lists: bool = False,
    ) -> T:
        """Change an object, if it still is the version that was read.

        Args:
            meta: what was read.
            body: a merge patch.
            subresource: such as `status`.
            observe: whether the store takes in what is returned; else who called does.
            merges_lists: as the client has it.

        Raises:
            NotFound: there is none.
            Conflict: it is another version, or another object of that name.
            Invalid: it is refused; a status may not have been sent at all (`rest`).
            KubeError: it was not changed, or nobody knows.
        """
        with self._unless_refused(meta, subresource):
            write = self._client.patch(
                self._kind,
                meta.key,
                body,
                cas=meta,
                subresource=subresource,
                merges_lists=merges_lists,
            )
            written = await self._send(write)
        if observe:
            self.store.observe(written)
        return written

    async def hold(self, meta: Meta, finalizer: str) -> T:
        """Put a finalizer on an object.

        Raises:
            KubeError: as `patch`.
        """
        return await self.patch(meta, render_finalizer_added(meta, finalizer))

    async def release(self, meta: Meta, finalizer: str) -> None:
        """Take a finalizer off an object.

        Raises:
            KubeError: as `patch`.
        """
        left = await self.patch(
            meta, render_finalizer_removed(meta, finalizer), observe=False
        )
        # Taking off the last finalizer deletes the object in the same transaction, and
        # does not raise its resourceVersion: what is returned is no new version.
        if left.meta.finalizers:
            self.store.observe(left)
        else:
            self.store.observe_gone(meta)

    async def delete(self, meta: Meta, *, version: str | None = None) -> bool:
        """Delete an object, or begin to: finalizers decide when it goes.

        Args:
            meta: the object; a namesake with another uid stays.
            version: only if it still is in this resourceVersion; None: in any.

        Returns:
            False: there was none any more.

        Raises:
            Conflict: it is another version, or another object of that name.
            KubeError: it was not deleted, or nobody knows.
        """
        write = self._client.delete(self._kind, meta.key, uid=meta.uid, version=version)
        try:
            left = await self._send(write)
        except NotFound:
            self.store.observe_gone(meta)
            return False
        if left is None:
            self.store.observe_gone(meta)
        else:
            self.store.observe(left)
        return True

    async def read(self, key: ObjectKey) -> T:
        """Return an object as the API server has it; the store does not take it in.

        Raises:
            NotFound: there is none.
            KubeError: the API server could not be asked.
        """
        return await self._client.get(self._kind, key)

    async def refresh(self, key: ObjectKey) -> None:
        """Take in what has a name now: a write of ours met another version than expected.

        Raises:
            KubeError: the API server could not be asked.
        """
        try:
            self.store.observe(await self.read(key))
        except NotFound:
            _log.debug("object.gone", kind=self._kind.kind, key=str(key))

    def rest(self, meta: Meta) -> timedelta | None:
        """Return how long a status that was refused is not sent again; None: it may be."""
        return None if self._refusals is None else self._refusals.rest(meta)

    def observe(self, written: T) -> None:
        """Let the store take in what a write returned."""
        self.store.observe(written)

    def _unless_refused(
        self, meta: Meta, subresource: str
    ) -> AbstractContextManager[None]:
        if self._refusals is None or subresource != "status":
            return nullcontext()
        return self._refusals.writing(self._kind.kind, meta)

    def _send(self, write: failpoints.Call[_R]) -> failpoints.Call[_R]:
        # Failpoints count the effects of a record's life alone.
        is_counted = self._kind.kind == RECORDS.kind
        return failpoints.through(write, answer_lost) if is_counted else write
