"""What to change next about a member: pure functions of what was just read.

`group` asks, carries the change out, reads again and asks again, until there is nothing
to change. So a crash anywhere, a failover, or a hand of somebody else, is no special
case.
"""

import math

from datetime import datetime, timedelta

import attrs

from webhooks.netscaler.changes import Adjust, Change, Disable, Enable, Target, Unbind
from webhooks.netscaler.errors import ForeignMember
from webhooks.netscaler.members import Mark
from webhooks.netscaler.parameters import Options
from webhooks.netscaler.replies import MemberRow
from webhooks.shared import identity
from webhooks.shared.addresses import Address


DRAIN_AGAIN = timedelta(seconds=30)
"""How long a member may end connections that came after its drain had ended."""


@attrs.frozen
class Wanted:
    """A member as it should be."""

    mark: Mark
    address: Address
    options: Options


def next_to_ensure(group: str, wanted: Wanted, member: MemberRow) -> Change | None:
    """Return what brings a member that is bound nearer to full service; None: it is.

    The mark comes first: whose record the member stands for must be known before it
    serves again.

    A member that stands for another record of the same service group is taken over:
    callers see to it that one record at a time has an address there, so that the other
    one is gone. They cannot where the appliance is named otherwise.

    Raises:
        ForeignMember: somebody else bound the address, or another record has it that
            may live still.
    """
    mark = Mark.read(wanted.mark.prefix, member.mark)
    if mark is None:
        raise ForeignMember(
            f"{wanted.address} is in service group {group} already, bound by somebody "
            "else: unbind it there, or take it out of the group of backends"
        )
    if mark.owner.is_taken(wanted.mark.owner):
        where = f"is in service group {group}"
        raise ForeignMember(identity.taken(wanted.address, mark.owner, where))
    target = Target(group, member.server, member.address.port, wanted.mark)
    now = (member.mark, member.weight)
    if now != (str(wanted.mark), wanted.options.weight):
        return Adjust(target, wanted.options)
    if wanted.options.serves and not member.enabled:
        return Enable(target)
    if member.enabled and not wanted.options.serves:
        return Disable(target, None)
    return None


def next_to_drain(
    target: Target, member: MemberRow, delay: int | None
) -> Change | None:
    """Return what stops new traffic; None: it is stopped.

    A member that is disabled already keeps the delay that it was disabled with.
    """
    return Disable(target, delay) if member.enabled else None


def next_to_deregister(
    target: Target, member: MemberRow, left: int, *, drained: bool
) -> Change | None:
    """Return what brings a member nearer to being gone; None: connections are to end.

    A member that was drained has nothing left, unless it was put back into service
    since: by hand, or by an appliance that was restarted with an older configuration.
    It is drained once more, for a bounded time.
    """
    if drained and left and member.enabled:
        return Disable(target, int(DRAIN_AGAIN.total_seconds()))
    if drained and left and member.is_going:
        return None
    return Unbind(target)


def delay_until(deadline: datetime, now: datetime) -> int:
    """Return the seconds of a graceful disabling that ends at the deadline.

    At least one: none would let the appliance wait without end.
    """
    return max(1, math.ceil((deadline - now).total_seconds()))


def is_drained(member: MemberRow, left: int) -> bool:
    """Tell whether a disabled member has nothing left."""
    return not left and member.is_out
