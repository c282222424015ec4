"""What concerns records of other shards: at a load balancer that all namespaces share.

Its own shard reads its members, and knows of all records there. It writes into a record of
another shard what the reading shows, and leaves registrations to the shard that has it.
"""

from datetime import timedelta
from typing import Final, TypeVar

import attrs
import structlog

from lbcf.controller.bind_view import BindView
from lbcf.controller.view import View, needs_of
from lbcf.core.lifecycle.listing import lost_elsewhere
from lbcf.core.model import names
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import Listed, ObjectKey, Uid
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import NotFound, Unavailable
from lbcf.kube.kinds import BINDS, GROUPS, RECORD_METAS, RECORDS, HasMeta, Resource
from lbcf.kube.list_watch import EVERYTHING, Obscured, Selection
from lbcf.kube.reader import KubeReader
from lbcf.kube.store import Store
from lbcf.runtime.clock import Clock
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, Result
from lbcf.wire.records import render_status_update


T = TypeVar("T", bound=HasMeta)

_log = structlog.get_logger(__name__)

_RELIST: Final = timedelta(seconds=10)
_STALE: Final = timedelta(minutes=1)
"""How long a record that was there is taken to be there."""


class ElsewhereLost:
    """Writes into records of other shards that their members were lost.

    That is a version of the record which its registrar has not seen: no success that is
    older than the loss can be written any more (w28), and Registered=False brings the
    record back to its registrar. Once written, no crash forgets it (w18).

    Args:
        view: where the records are.
        writer: writes records.
        queue: of keys of records of other shards.
        clock: times the conditions.
    """

    def __init__(
        self,
        view: View,
        writer: ObjectWriter[BackendRecord],
        queue: WorkQueue[ObjectKey],
        clock: Clock,
    ) -> None:
        self._view = view
        self._writer = writer
        self._queue = queue
        self._clock = clock
        self._unwritten: dict[ObjectKey, tuple[Uid, str]] = {}
        self._lost: dict[ObjectKey, dict[ObjectKey, Uid]] = {}

    def add(self, record: BackendRecord, why: str) -> None:
        """Have a record say that its member was lost."""
        key, uid = record.meta.key, record.meta.uid
        self._unwritten[key] = uid, why
        self._lost.setdefault(record.load_balancer_key, {})[key] = uid
        self._queue.add(key)

    def is_resetting(self, load_balancer: ObjectKey) -> bool:
        """Return whether a member that was lost there is not put back yet."""
        lost = self._lost.pop(load_balancer, {})
        still = {key: uid for key, uid in lost.items() if self._is_lost(key, uid)}
        if still:
            self._lost[load_balancer] = still
        return bool(still)

    def _is_lost(self, key: ObjectKey, uid: Uid) -> bool:
        now = self._view.record(key)
        if now is None or now.meta.uid != uid or now.is_deleting:
            return False
        return key in self._unwritten or not now.is_registered

    async def reconcile(self, key: ObjectKey) -> Result:
        """Write what is not written into one record, unless that is on its way out.

        Raises:
            Conflict: somebody else wrote it.
            KubeError: the API server could not be asked.
        """
        due = self._unwritten.get(key)
        if due is None:
            return Done()
        await self._write(key, *due)
        # A further loss may have been told meanwhile: that is another version.
        if self._unwritten.get(key) == due:
            del self._unwritten[key]
        return Done()

    async def _write(self, key: ObjectKey, uid: Uid, why: str) -> None:
        try:
            found = await self._writer.read(key)
            if found.meta.uid != uid or found.is_deleting:
                return
            status = lost_elsewhere(found, why, self._clock.now())
            body = render_status_update(found, status)
            found = await self._writer.patch(found.meta, body, "status", observe=False)
        except NotFound:
            _log.debug("reset.gone", record=str(key))
        else:
            self._view.observe_record(found)


@attrs.frozen
class Judged:
    """What is known of members that have no record here.

    Attributes:
        orphans: whose records do not exist.
        is_complete: the records of all others do.
    """

    orphans: tuple[Listed, ...]
    is_complete: bool


class ElsewhereKnown:
    """Knows records of other shards by their uids alone, as far as it had to ask.

    One load balancer may be several LoadBalancer objects, of namespaces of different shards:
    members that no record here has may be theirs, and are no orphans. One LIST answers for
    the members of all load balancers that were listed before it.

    Args:
        client: the API server.
        clock: spaces the questions.
    """

    def __init__(self, client: KubeReader, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._suspects: dict[ObjectKey, frozenset[str]] = {}
        self._known = frozenset[str]()
        self._missing = frozenset[str]()
        self._asked_at = -_STALE.total_seconds()

    def forget(self, load_balancer: ObjectKey) -> None:
        """Keep no members of a load balancer."""
        self._suspects.pop(load_balancer, None)

    async def judge(
        self, load_balancer: ObjectKey, members: tuple[Listed, ...]
    ) -> Judged:
        """Say whose records do not exist, as far as that is known.

        The members were listed before this is asked, and a record is created before its
        member is, so that one that is missing in a later LIST is missing for good.

        Raises:
            KubeError: the API server could not be asked.
        """
        uids = frozenset(uid for _, uid in members)
        self._suspects[load_balancer] = uids
        rest = uids - self._missing
        age = self._clock.monotonic() - self._asked_at
        limit = _STALE if rest <= self._known else _RELIST
        if rest and age >= limit.total_seconds():
            await self._ask()
        orphans = tuple(member for member in members if member[1] in self._missing)
        return Judged(orphans, uids <= self._missing | self._known)

    async def _ask(self) -> None:
        """Ask which of the suspects are uids of records."""
        self._asked_at = self._clock.monotonic()
        # Only those: what is listed from now on may belong to a newer record.
        asked = self._all_suspects()
        pages = self._client.list_pages(RECORD_METAS)
        found = {record.meta.uid async for page in pages for record in page.objects}
        self._known = asked & found
        # A slow LIST may end after a newer one, and must not take back what that found.
        missing = self._missing | (asked - self._known)
        self._missing = missing & self._all_suspects()

    def _all_suspects(self) -> frozenset[str]:
        return frozenset[str]().union(*self._suspects.values())


async def needs_elsewhere(client: KubeReader, driver: ObjectKey) -> list[str]:
    """Say who needs a driver in any namespace, as it is now.

    LoadBalancer objects are in the view of every shard, load balancers of Binds are not. The
    records of a Bind end before it does, and are listed before it: one of the two is seen.

    Raises:
        KubeError: the API server could not be asked.
    """
    every = View()
    BindView(every).listen()
    for label in (names.LABEL_DRIVER, names.LABEL_BIND_DRIVER):
        where = Selection(labels=f"{label}={names.label_value(driver.name)}")
        await _read_into(every.records, client, RECORDS, where)
    await _read_into(every.groups, client, GROUPS)
    try:
        await _read_into(every.binds, client, BINDS)
    except Unavailable as error:
        if not error.is_unknown_kind:
            raise
    return needs_of(every, driver)


async def _read_into(
    store: Store[T],
    client: KubeReader,
    kind: Resource[T],
    where: Selection = EVERYTHING,
) -> None:
    async for page in client.list_pages(kind, where):
        store.take_in(page.objects)
        for unreadable in page.unreadable:
            store.apply(Obscured(unreadable))
