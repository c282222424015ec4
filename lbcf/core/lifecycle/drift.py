"""Registered members that their load balancer no longer has, though it lost none itself.

Before it: `lbcf.controller.member_resync` has listed the members of a load balancer whose epoch
is the same. After it: its condition Drifted. Somebody took such a member out by hand, and
people's hands are respected: only ensurePolicy Always puts it back.
"""

from collections.abc import Iterable

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord, LoadBalancer
from lbcf.core.model.values import MemberKey
from lbcf.core.reasons import Reason


_NAMED = 3

Listed = tuple[str, str]
"""Address and record id of a member, as its driver lists it; the id may be unknown."""


def can_drift(record: BackendRecord) -> bool:
    """Tell whether a record's member must be there."""
    return not record.is_deleting and record.is_registered


def missing_members(
    records: Iterable[BackendRecord], listed: Iterable[Listed], member_key: MemberKey
) -> tuple[BackendRecord, ...]:
    """Find the records whose member is not listed.

    Where members are named after their records, one of the same address may be another
    record's: only one whose record the driver does not know counts by address.
    """
    there = tuple(listed)
    named = member_key is MemberKey.RECORD
    ids = {record_id for _, record_id in there if record_id and named}
    known = {address for address, record_id in there if not (named and record_id)}
    return tuple(
        record
        for record in records
        if record.meta.uid not in ids and record.address not in known
    )


def drift_of(
    load_balancer: LoadBalancer, missing: tuple[BackendRecord, ...]
) -> Condition | None:
    """Say what is to be told of a load balancer; None: nothing, as ever."""
    generation = load_balancer.meta.generation
    if missing:
        message = (
            f"{len(missing)} registered members are not there, and were not taken out "
            f"by us: {_told(missing)}; ensurePolicy Always puts them back by period, "
            "else change the group's parameters or delete the records"
        )
        return Condition(
            conditions.DRIFTED, True, Reason.MEMBERS_MISSING, message, generation
        )
    if conditions.find(load_balancer.conditions, conditions.DRIFTED) is None:
        return None
    message = "every registered member is there"
    return Condition(conditions.DRIFTED, False, Reason.IN_STEP, message, generation)


def _told(missing: tuple[BackendRecord, ...]) -> str:
    """Name the first few."""
    ordered = sorted(missing, key=lambda record: record.meta.key)
    shown = ", ".join(f"{r.address} of {r.meta.key}" for r in ordered[:_NAMED])
    more = len(missing) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown
