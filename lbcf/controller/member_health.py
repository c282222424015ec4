"""Writes the condition InService of records: what load balancers say of their members.

What is said, and when, is decided by `lbcf.core.lifecycle.in_service` and
`lbcf.core.lifecycle.steadiness`. A load balancer all of whose members go down together
has as many records to be written: they are written one after the other, at a pace that
leaves the API server to everything else.
"""

import asyncio

from collections.abc import Collection
from datetime import timedelta

import attrs
import structlog

from lbcf.controller.first_checks import FirstChecks
from lbcf.controller.view import View
from lbcf.core.lifecycle.in_service import (
    in_service,
    is_new,
    said_of,
    with_in_service,
    words_of,
)
from lbcf.core.lifecycle.listing import RETOLD
from lbcf.core.lifecycle.steadiness import Steadiness
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, LoadBalancerDriver
from lbcf.core.model.values import MemberKey, ObjectKey, Uid
from lbcf.executor import Listing
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import Conflict, KubeError, NotFound
from lbcf.runtime.clock import Clock
from lbcf.wire.driver import LONGEST_MESSAGE
from lbcf.wire.driver_answers import BackendState, ListedBackend
from lbcf.wire.plain import plain
from lbcf.wire.records import render_status_update


PACE = timedelta(milliseconds=50)
"""Between two writes: twenty in a second at most, of all load balancers together."""

_log = structlog.get_logger(__name__)


@attrs.define
class _Member:
    """A member that is not in service, or was not a while ago.

    Attributes:
        steadiness: whether it is in service.
        told_at: monotonic seconds at which it was last to be written down.
    """

    steadiness: Steadiness
    told_at: float | None = None


@attrs.define
class _Members:
    """What a load balancer said last: words of all members, and who is not as always."""

    words: dict[Uid, str] = attrs.Factory(dict)
    ailing: dict[Uid, _Member] = attrs.Factory(dict)


class InServiceCondition:
    """Follows what load balancers say of their members.

    Args:
        view: where the records are.
        records: writes them.
        checks: told which members are in service.
        clock: measures, and spaces the writes.
    """

    def __init__(
        self,
        view: View,
        records: ObjectWriter[BackendRecord],
        checks: FirstChecks,
        clock: Clock,
    ) -> None:
        self._view = view
        self._records = records
        self._checks = checks
        self._clock = clock
        self._members: dict[ObjectKey, _Members] = {}
        self._due: dict[ObjectKey, tuple[Uid, str | None]] = {}
        self._news = asyncio.Event()

    def _record_changed(
        self, _old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Have a member told that nobody lists it, if it does not say so.

        Its load balancer says so long since where a write met a conflict, where the process
        that was about to write was killed, and where the member was registered by a driver
        that listed then: nobody looks at it again.
        """
        if new is None or new.is_deleting or not new.is_registered:
            return
        driver = self._view.driver(new.driver_key)
        if isinstance(driver, LoadBalancerDriver) and not driver.declares(
            Operation.LIST_BACKENDS
        ):
            self.not_asked([new], is_known=True)

    def forget(self, load_balancer: ObjectKey) -> None:
        """Keep nothing of a load balancer."""
        self._members.pop(load_balancer, None)

    def read(
        self,
        load_balancer: ObjectKey,
        member_key: MemberKey,
        records: Collection[BackendRecord],
        listed: Listing | None,
    ) -> None:
        """Take in what a load balancer says of its members.

        Args:
            load_balancer: whose list it is.
            member_key: by what members are told apart.
            records: who must be there.
            listed: None: the same as the last time.
        """
        members = self._members.get(load_balancer)
        if listed is not None:
            told = [(m.backend_addr, m.record_id, _word(m)) for m in listed.backends]
            ailing = {} if members is None else members.ailing
            words = dict(words_of(records, told, member_key))
            members = _Members(words, {u: m for u, m in ailing.items() if u in words})
            self._members[load_balancer] = members
        if members is None:
            return
        self._checks.listed(load_balancer, members.words)
        if listed is None and not (members.ailing or any(members.words.values())):
            return
        for record in records:
            if (word := members.words.get(record.meta.uid)) is not None:
                self._look(members, record, word)

    def not_asked(self, records: Collection[BackendRecord], *, is_known: bool) -> None:
        """Nobody lists these any more: what was told of them is not known.

        Args:
            records: whose load balancer is not asked.
            is_known: their driver is known, and does not list; else it may come back, and
                of those that were always in service nothing is written.
        """
        for record in records:
            said = said_of(record)
            if is_known if said is None else said.status is not None:
                self._tell(record, None)

    async def run(self) -> None:
        """Write what is to be told, one after the other, until cancelled."""
        # Not before: until then another replica writes, and nothing is taken out here.
        self._view.records.follow(self._record_changed)
        while True:
            await self._news.wait()
            while self._due:
                key = next(iter(self._due))
                if await self._write(key, *self._due.pop(key)):
                    await self._clock.sleep(PACE)
            self._news.clear()

    def _look(self, members: _Members, record: BackendRecord, word: str) -> None:
        """Take in one member's word, and have it told where it lasts."""
        uid, said = record.meta.uid, said_of(record)
        member = members.ailing.get(uid)
        if member is None:
            is_told = said is not None and said.status is not True
            if not word and not is_told:
                return
            member = _Member(Steadiness(said is None or said.status is not False))
        if word and is_new(record, self._clock.now()):
            return
        now = self._clock.monotonic()
        member.steadiness = member.steadiness.read(now, is_well=not word)
        if member.steadiness == Steadiness():
            members.ailing.pop(uid, None)
        else:
            members.ailing[uid] = member
        if member.steadiness.is_well is not bool(word):
            self._tell_of(member, record, word)

    def _tell_of(self, member: _Member, record: BackendRecord, word: str) -> None:
        """Have a member's word told where it is news; other words not at once."""
        said, now = said_of(record), self._clock.monotonic()
        condition = in_service(record, word)
        if said is None and not word:
            return
        if said is not None and said.status == condition.status:
            is_soon = (
                member.told_at is not None
                and now - member.told_at < RETOLD.total_seconds()
            )
            if said.message == condition.message or is_soon:
                return
        member.told_at = now
        self._tell(record, word)

    def _tell(self, record: BackendRecord, word: str | None) -> None:
        self._due[record.meta.key] = record.meta.uid, word
        self._news.set()

    async def _write(self, key: ObjectKey, uid: Uid, word: str | None) -> bool:
        """Write one condition, if the record is still to have it; return whether it was sent."""
        found = self._view.record(key)
        if found is None or found.meta.uid != uid:
            return False
        if found.is_deleting or not found.is_registered:
            return False
        condition = in_service(found, word)
        if condition.says_the_same(said_of(found)):
            return False
        after = with_in_service(found, condition, self._clock.now())
        body = render_status_update(found, after.status)
        try:
            written = await self._records.patch(
                found.meta, body, "status", observe=False
            )
            self._view.observe_record(written)
        except (Conflict, NotFound):
            pass  # the next reading tells it: a watch that lags may go on to do so
        except KubeError as error:
            _log.warning("in_service.untold", record=str(key), error=str(error))
        else:
            log = _log.warning if word else _log.info
            log(
                "member.in_service", record=str(key), status=condition.status, word=word
            )
        return True


def _word(member: ListedBackend) -> str:
    """Return what is told of a member that is not in service, empty of one that is."""
    if member.state is BackendState.ACTIVE:
        return ""
    reason = plain(member.reason[:LONGEST_MESSAGE])
    return reason.strip() or member.state.value
