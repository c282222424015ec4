"""The condition InService of a record: whether its load balancer sends it new traffic.

The load balancer's own checks decide that, and listBackends tells it. Nothing is written
of a member that was in service all the time: the condition is set when it first is not.
Where the driver does not declare listBackends it is set, Unknown, with Registered.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import attrs

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import MemberKey, Uid
from lbcf.core.reasons import Reason


Told = tuple[str, str, str]
"""Address, record id and word of a listed member; no word: it is in service."""

GRACE = timedelta(seconds=30)
"""How long a new member may wait for its first checks."""


def words_of(
    records: Iterable[BackendRecord], listed: Iterable[Told], member_key: MemberKey
) -> Mapping[Uid, str]:
    """Return what a load balancer says of its members; who is not listed is left out."""
    named = member_key is MemberKey.RECORD
    by_id: dict[str, str] = {}
    by_address: dict[str, str] = {}
    for address, record_id, word in listed:
        if named and record_id:
            by_id[record_id] = word
        else:
            by_address[address] = word
    found = (
        (r.meta.uid, by_id.get(r.meta.uid, by_address.get(r.address))) for r in records
    )
    return {uid: word for uid, word in found if word is not None}


def is_new(record: BackendRecord, now: datetime) -> bool:
    """Return whether a member was registered just now, and may not serve yet."""
    registered = conditions.find(record.status.conditions, conditions.REGISTERED)
    since = None if registered is None else registered.since
    # One in the future was written before the wall clock was set back.
    return since is not None and timedelta(0) <= now - since < GRACE


def said_of(record: BackendRecord) -> Condition | None:
    """Return the condition that a record has; None: it was always in service."""
    return conditions.find(record.status.conditions, conditions.IN_SERVICE)


def in_service(record: BackendRecord, word: str | None) -> Condition:
    """Return the condition.

    Args:
        record: that is registered.
        word: of the load balancer, empty: it is in service; None: nobody lists it.
    """
    where = record.spec.load_balancer
    if word is None:
        message = (
            f"the members of {where} are not listed: its condition Reachable says why"
        )
        return _condition(record, None, Reason.NOT_LISTED, message)
    if not word:
        message = f"{where} sends it new traffic"
        return _condition(record, True, Reason.IN_SERVICE, message)
    message = f"{where} sends it nothing new: it says {word}"
    return _condition(record, False, Reason.MEMBER_DOWN, message)


def is_down(record: BackendRecord) -> bool:
    """Return whether a member is not in service that was, or had the time to be."""
    said = said_of(record)
    return said is not None and said.status is False


def _condition(
    record: BackendRecord, status: bool | None, reason: Reason, message: str
) -> Condition:
    generation = record.meta.generation
    return Condition(conditions.IN_SERVICE, status, reason, message, generation)


def with_in_service(
    record: BackendRecord, condition: Condition, now: datetime
) -> BackendRecord:
    """Set the condition, in front: the last one says how far a record is."""
    found = conditions.with_condition(record.status.conditions, condition, now)
    if said_of(record) is None:
        found = (found[-1], *found[:-1])
    return attrs.evolve(record, status=attrs.evolve(record.status, conditions=found))
