"""What an epoch says that listBackends has answered: were members lost, and since when.

Before it: `lbcf.controller.member_resync` has listed the members of a load balancer. After it:
records of lost members are put back. Epochs that change all the time, as those of two
processes of a driver do that answer in turn, are acted on at growing distances only.
"""

from collections.abc import Iterable
from datetime import timedelta

import attrs

from lbcf.core.backoff import delay_for
from lbcf.core.lifecycle.drift import Listed, missing_members
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import MemberKey


AT_ONCE = 3
"""How many resets in a row are acted on at once."""
CALM = timedelta(minutes=10)
"""After so long without a reset the next one is the first again."""
_BASE = timedelta(seconds=10)
_CAP = timedelta(minutes=5)


@attrs.frozen
class Epochs:
    """What has been read of one load balancer's memory, and acted on.

    Attributes:
        epoch: the last one that was acted on; empty: none yet.
        resets: how many there were in a row.
        reset_at: monotonic seconds of the last one.
    """

    epoch: str = ""
    resets: int = 0
    reset_at: float = 0.0

    def rest(self, now: float) -> timedelta:
        """Say how long a reset is not to be acted on yet; zero: it is now."""
        passed = timedelta(seconds=now - self.reset_at)
        in_a_row = self.resets - AT_ONCE + 1
        if in_a_row < 1 or passed >= CALM:
            return timedelta(0)
        wait = delay_for(in_a_row, 0.0, base=_BASE, cap=_CAP)
        return max(wait - passed, timedelta(0))

    def changes(self, now: float) -> int:
        """Say how many resets there were in a row; 0: so few that they may be resets."""
        is_calm = timedelta(seconds=now - self.reset_at) >= CALM
        return 0 if is_calm or self.resets <= AT_ONCE else self.resets

    def acted_on(self, epoch: str) -> "Epochs":
        """Note the first epoch, or one that brought no loss."""
        return attrs.evolve(self, epoch=epoch)

    def after_reset(self, epoch: str, now: float) -> "Epochs":
        """Note an epoch in which all members have to be put back."""
        is_calm = timedelta(seconds=now - self.reset_at) >= CALM
        return Epochs(epoch, 1 if is_calm else self.resets + 1, now)


def lost_members(
    records: Iterable[BackendRecord],
    listed: Iterable[Listed],
    member_key: MemberKey,
    epoch_before: str,
) -> tuple[BackendRecord, ...]:
    """Say which members a load balancer may have lost that shows a new epoch.

    Lost may be any whose registration began before the new epoch was read, also one
    whose record does not say Registered yet. Where no epoch was known before, nobody can
    tell whether there was a reset: what is not listed then counts as lost.
    """
    may_be_in = [r for r in records if not r.is_deleting and r.address]
    if epoch_before:
        return tuple(may_be_in)
    return missing_members(may_be_in, listed, member_key)
