"""What to change next about a member: pure functions of what was just read.

`pool` asks, carries the change out, reads again and asks again, until there is nothing
to change. So a crash anywhere, or a hand of somebody else, is no special case.
"""

from collections.abc import Mapping

import attrs

from webhooks.f5.errors import Foreign
from webhooks.f5.members import DISABLED, ENABLED, OFFLINE, Member, Wanted
from webhooks.f5.names import Mark
from webhooks.shared import identity


@attrs.frozen
class Add:
    """Put the member into the pool, in full service."""

    wanted: Wanted


@attrs.frozen
class Modify:
    """Change fields of one of our members."""

    member: Member
    fields: Mapping[str, object]


@attrs.frozen
class Remove:
    """Take one of our members out of the pool, and its node if that is ours."""

    member: Member


Change = Add | Modify | Remove


def next_to_ensure(mark: Mark, wanted: Wanted, member: Member | None) -> Change | None:
    """Return what brings the member nearer to full service; None: it is there.

    A member of ours that stands for another record of the same pool is taken over:
    callers see to it that one record at a time has an address there, so that the other
    one is gone. They cannot for pools that overlap: a member of these stays.

    Raises:
        Foreign: the address is a member that somebody else has put there, or another
            record that may live still.
    """
    if member is None:
        return Add(wanted)
    owner = mark.owner_of(member.description)
    if owner is None:
        raise Foreign(
            f"{member.path} is a member already, and not of this driver (its "
            f"description is {member.description!r:.60}): take it out by hand, and it "
            "will be registered"
        )
    if owner.is_taken(mark.owner_of(wanted.description)):
        raise Foreign(identity.taken(member.path, owner, "is a member"))
    fields: dict[str, object] = {}
    if member.options != wanted.options:
        fields |= wanted.options.render()
    if member.description != wanted.description:
        fields["description"] = wanted.description
    if fields:
        return Modify(member, fields)
    return Modify(member, ENABLED) if member.is_disabled else None


def next_to_drain(member: Member) -> Change | None:
    """Return what stops new traffic to a member of ours; None: it is stopped.

    One that is forced offline stays so: `disabled` would let known clients back in.
    """
    return None if member.is_disabled else Modify(member, DISABLED)


def next_to_deregister(member: Member) -> Change:
    """Return what brings a member of ours nearer to being gone.

    First nobody new, known clients included; then out. Deleting ends persistence and
    lets established connections run on.
    """
    return Remove(member) if member.is_offline else Modify(member, OFFLINE)


def is_of(mark: Mark, member: Member | None, record_id: str) -> bool:
    """Tell whether the member is there, ours, and that of this record."""
    return member is not None and mark.record_of(member.description) == record_id
