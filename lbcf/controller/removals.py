"""Deletes records that their groups no longer want, each on its own.

The deregistrar ends what has a deletionTimestamp. A group's next turn does not wait for
these writes: in a storm of deletions it would plan nothing while the last of a thousand is
being answered, and then come late for all that was deleted meanwhile.
"""

from collections.abc import Callable, Iterable

import structlog

from lbcf.controller.removal_check import RemovalCheck
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.core.selection.desired import Identity, identity_of
from lbcf.core.selection.plan import Removal
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import Conflict
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, Result


_log = structlog.get_logger(__name__)


class Removals:
    """What the latest plans want removed and is not removed yet.

    Args:
        records: deletes records.
        queue: of the records to remove; its workers call `reconcile`.
        check: looks once more at what a removal was decided by.
        decide_again: has a group looked at whose record was not what was planned on.
        removing: told of each record that is about to be deleted.
    """

    def __init__(
        self,
        records: ObjectWriter[BackendRecord],
        queue: WorkQueue[ObjectKey],
        check: RemovalCheck,
        decide_again: Callable[[ObjectKey], object],
        removing: Callable[[Removal], object],
    ) -> None:
        self._removing = removing
        self._check = check
        self._decide_again = decide_again
        self._records = records
        self._queue = queue
        self._wanted: dict[ObjectKey, Removal] = {}
        self._sent: dict[ObjectKey, Identity] = {}

    def decided(
        self, considered: Iterable[BackendRecord], removals: Iterable[Removal]
    ) -> None:
        """Take in a plan; what it wants no more is left alone, if nothing was sent.

        Args:
            considered: all records that it decided about.
            removals: those of them that are to go. One that failed before waits out
                its pause.
        """
        wanted = {r.record.meta.key: r for r in removals if not self._is_too_early(r)}
        for record in considered:
            if record.meta.key not in wanted:
                self._wanted.pop(record.meta.key, None)
        for key, removal in wanted.items():
            known = self._wanted.get(key)
            self._wanted[key] = removal
            if known is None or known.record.meta.uid != removal.record.meta.uid:
                self._queue.add(key)

    def _is_too_early(self, removal: Removal) -> bool:
        """Postpone deleting a duplicate while its twin's delete is in flight.

        Which of the two stays may change from turn to turn: both would go.
        """
        if removal.reason != Reason.DUPLICATE or removal.record.meta.key in self._sent:
            return False
        return identity_of(removal.record) in self._sent.values()

    def undecided(self, group: ObjectKey) -> None:
        """Leave a group's records alone until somebody can decide about them again."""
        for key, removal in list(self._wanted.items()):
            if removal.record.group == group:
                del self._wanted[key]

    async def reconcile(self, key: ObjectKey) -> Result:
        """Delete one record, if that is still wanted; its finalizer keeps it for now.

        Raises:
            KubeError: it was not deleted, or nobody knows; to be tried again.
        """
        if (decided := self._wanted.get(key)) is None:
            return Done()
        if not await self._check.holds(decided):
            self._wanted.pop(key, None)
            self._look_again(decided)
            return Done()
        removal, present = self._wanted.get(key), self._records.store.get(key)
        if removal is None:
            return Done()  # a plan that was made meanwhile wants it no more
        uid = removal.record.meta.uid
        if present is not None and present.meta.uid == uid and not present.is_deleting:
            self._sent[key] = identity_of(removal.record)
            # The watch may tell that it is gone before the answer is here.
            self._removing(removal)
            try:
                await self._remove(removal)
            finally:
                del self._sent[key]
        if (known := self._wanted.get(key)) and known.record.meta.uid == uid:
            del self._wanted[key]
        return Done()

    async def _remove(self, removal: Removal) -> None:
        """Delete a record, and take in what is left of it."""
        meta = removal.record.meta
        try:
            version = meta.resource_version if removal.as_seen_only else None
            if not await self._records.delete(meta, version=version):
                return
        except Conflict:
            # A namesake, or another version: what is meant by that is decided anew.
            await self._records.refresh(meta.key)
            found = self._records.store.get(meta.key)
            if found is None or (found.meta.uid == meta.uid and found.is_deleting):
                return
            self._look_again(removal)
            raise
        _log.info(
            "record.deleted",
            record=str(meta.key),
            address=removal.record.address,
            reason=removal.reason,
            message=removal.message,
        )

    def _look_again(self, removal: Removal) -> None:
        """Have the group of a record decide by what the view has now."""
        if removal.record.group is not None:
            self._decide_again(removal.record.group)
