"""One target group: ensures, drains, deregisters and lists our targets.

`balancer` asks, for one or several of these. Each step reads, asks `decisions`, writes
the claim down, and makes at most one change.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import attrs

from lbcf.sdk import Clock
from webhooks.elbv2 import decisions
from webhooks.elbv2.changes import Action, Change, Changes
from webhooks.elbv2.claims import Claimed, Claims
from webhooks.elbv2.client import Region
from webhooks.elbv2.decisions import Claim
from webhooks.elbv2.errors import (
    InvalidInput,
    InvalidTarget,
    Refused,
    TakenTarget,
    TargetGroupGone,
    Unreachable,
)
from webhooks.elbv2.load_balancers import arn_name
from webhooks.elbv2.members import Listing, Member, Outcome, Unfinished
from webhooks.elbv2.readings import Readings
from webhooks.elbv2.targets import Health, Reading, Standing, Target
from webhooks.shared import identity
from webhooks.shared.outcomes import Finished


BETWEEN_LOSSES = timedelta(seconds=30)
"""Who takes out what is ours again and again must not keep all records busy."""

_STARTING = "waits for its first health checks to pass"
_NOT_OURS = "this driver has no note that it put it there; it is left as it is"


@attrs.define(eq=False)
class TargetGroup:
    """One target group.

    Attributes:
        arn: its one name.
        region: the calls to AWS.
        claims: what is ours.
        clock: for the age of readings.
        fresh: how old a reading may be that shows our own changes.
    """

    arn: str
    region: Region
    claims: Claims
    clock: Clock
    fresh: timedelta
    _changes: Changes = attrs.field(init=False)
    _readings: Readings = attrs.field(init=False)
    _turn: float = attrs.field(default=0.0, init=False)
    _starts: bool = attrs.field(default=False, init=False)
    _lags: bool = attrs.field(default=False, init=False)
    _quiet_until: float = attrs.field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        """Make what batches changes, and what shares readings."""
        self._changes = Changes(self._send, self.clock)
        self._readings = Readings(lambda: self.region.health(self.arn), self.clock)

    def __str__(self) -> str:
        return f"target group {arn_name(self.arn)}"

    async def close(self) -> None:
        """Send nothing more."""
        await self._changes.close()
        await self._readings.close()

    async def look(self, member: Member) -> Reading:
        """Read what is there before a member is ensured.

        Raises:
            TakenTarget: the target is in, and nothing says that it is ours; or it is
                that of another record that may live still.
        """
        if self._claim(member) in decisions.HAVING:
            return await self._read()
        reading = await self._readings.since(self.clock.monotonic())
        if reading.standing(member.target) is not Standing.IN:
            return reading
        other = self.claims.get(self.arn, member.target)
        if other is not None and _is_taken(other, member):
            where = f"is in {self}"
            raise TakenTarget(identity.taken(member.target, other.owner, where))
        if member.options.adopt:
            return reading
        whose = (
            "this driver has no note that it put it there"
            if other is None
            else f"it is that of record {other.record}"
        )
        raise TakenTarget(
            f"{member.target} is in {self} already, and {whose}: deregister it there, "
            "or say `adopt: true` in the parameters if it belongs to this group"
        )

    async def ensure(self, member: Member, reading: Reading) -> str:
        """Put a member into full service, as was read before; return why it is not served.

        In service is what is registered: from then on AWS' health checks decide, and
        a member that never passes them needs nobody to ask again.

        Raises:
            TargetRefused: AWS does not take it; it is not in.
        """
        target, standing = member.target, reading.standing(member.target)
        if not decisions.must_register(self._claim(member), standing):
            self._put(member, Claim.SEEN)
            return _told(reading.targets[target])
        change = Change(target, member.owner, member.options.zone)
        await self._changes.apply(Action.REGISTER, change)
        return _STARTING

    async def drain(self, member: Member) -> Outcome:
        """Take a member out of service; finished when AWS' delay is over."""
        target, claim = member.target, self._claim(member)
        if claim is None:
            return Finished(_NOT_OURS)
        try:
            reading = await self._read()
            if decisions.must_deregister(claim, reading.standing(target)):
                if decisions.must_stay(target, reading):
                    return Unfinished("serves until another target passed its checks")
                await self._take_out(member)
                reading = await self._read()
            elif claim is Claim.LEAVING:
                self._put(member, Claim.OUT)
        except TargetGroupGone:
            return self._gone()
        if reading.standing(target) is Standing.ABSENT:
            return Finished()
        return Unfinished(
            f"draining in {self} until its deregistration delay is over; AWS does not "
            "tell how many connections are left"
        )

    async def deregister(self, member: Member) -> Outcome:
        """Take a member out, whether or not it was drained to the end.

        Finished as soon as AWS sends it nothing new: what it still has may go on until
        the delay is over, which nobody can shorten, and nobody needs to wait for.
        """
        claim = self._claim(member)
        if claim is None:
            return Finished(_NOT_OURS)
        try:
            if claim is not Claim.LEAVING:
                must = claim in decisions.HAVING
            else:
                standing = (await self._read()).standing(member.target)
                must = decisions.must_deregister(claim, standing)
            if must:
                await self._take_out(member)
        except TargetGroupGone:
            return self._gone()
        self._put(member, Claim.DONE)
        return Finished()

    async def listing(self) -> Listing:
        """Return our targets, and take in what somebody else did to them.

        Raises:
            TargetGroupGone: so it is.
        """
        reading = await self._read_in_turn()
        claimed = self.claims.of_group(self.arn)
        self._take_in(reading, claimed)
        ours = {
            target: health
            for target, health in reading.targets.items()
            if target in claimed and health.standing is not Standing.ABSENT
        }
        self._starts = any(health.starting for health in ours.values())
        elapsed = timedelta(seconds=self.clock.monotonic() - self._changes.ended)
        self._lags = any(
            decisions.may_show_late(claim.state, reading.standing(target), elapsed)
            for target, claim in claimed.items()
        )
        return Listing(
            self.claims.losses(self.arn),
            ours,
            {target: claimed[target].record for target in ours},
        )

    async def set_attributes(self, wanted: Mapping[str, str]) -> str:
        """Give the target group attributes; return which it does not have, or empty."""
        present = await self.region.attributes(self.arn)
        unknown = sorted(set(wanted) - set(present))
        if unknown:
            return unknown[0]
        changed = {key: one for key, one in wanted.items() if present[key] != one}
        if changed:
            await self.region.set_attributes(self.arn, changed)
        return ""

    def _claim(self, member: Member) -> Claim | None:
        """Return what is known of a target as this record's; None: it is not."""
        claim = self.claims.get(self.arn, member.target)
        if claim is None:
            return Claim.CLAIMED if member.proven else None
        return claim.state if claim.record == member.owner.record else None

    def _put(self, member: Member, claim: Claim) -> None:
        self.claims.put(self.arn, {member.target: Claimed(claim, member.owner)})

    async def _read(self) -> Reading:
        recent = self.clock.monotonic() - self.fresh.total_seconds()
        return await self._readings.since(max(recent, self._changes.ended))

    async def _read_in_turn(self) -> Reading:
        """Return what was read last if it shows our own changes, until there is a turn.

        Where a target waits for its first checks, the gate of its pod waits, too.
        """
        now = self.clock.monotonic()
        since = max(self._changes.ended, self._readings.failed)
        if self._lags:
            # A reading that lacks what was registered before it is not told twice: the
            # controller would take that for removed by hand.
            since = now
        elif self._starts or now >= self._turn:
            since = max(since, now - self.fresh.total_seconds())
        reading = await self._readings.since(since)
        if reading.began >= self._turn:
            earliest = reading.began + self.fresh.total_seconds()
            self._turn = self.region.budget.turn(earliest)
        return reading

    async def _send(self, action: Action, changes: Sequence[Change]) -> None:
        """Make one call: written down before, and taken back if nothing came of it.

        An error tells that only of a call that was sent once at most.
        """
        registers = action is Action.REGISTER
        before = {one.target: self.claims.get(self.arn, one.target) for one in changes}
        self._note(changes, Claim.CLAIMED if registers else Claim.LEAVING)
        try:
            await self.region.change(self.arn, action, changes)
        except (Refused, Unreachable, InvalidInput):
            self.claims.put(self.arn, before)
            raise
        if not registers:
            self._note(changes, Claim.OUT)

    def _note(self, changes: Sequence[Change], claim: Claim) -> None:
        claims = {one.target: Claimed(claim, one.owner) for one in changes}
        self.claims.put(self.arn, claims)

    async def _take_out(self, member: Member) -> None:
        """Deregister a member; what AWS cannot find is out."""
        change = Change(member.target, member.owner)
        try:
            await self._changes.apply(Action.DEREGISTER, change)
        except InvalidTarget:
            if (await self._read()).standing(member.target) is Standing.IN:
                raise
            self._put(member, Claim.OUT)

    def _gone(self) -> Finished:
        self.claims.drop_group(self.arn)
        return Finished(f"{self} is gone")

    def _take_in(self, reading: Reading, claimed: Mapping[Target, Claimed]) -> None:
        """Write down what a reading shows of our targets, and count a loss."""
        after = {
            target: Claimed(
                decisions.after_look(claim.state, reading.standing(target)),
                claim.owner,
            )
            for target, claim in claimed.items()
        }
        changed = {key: one for key, one in after.items() if one != claimed[key]}
        lost = {key for key, one in changed.items() if one.state is Claim.LOST}
        now = self.clock.monotonic()
        if lost and now < self._quiet_until:
            # Not told yet, so not taken in yet either.
            changed = {key: one for key, one in changed.items() if key not in lost}
        elif lost:
            self._quiet_until = now + BETWEEN_LOSSES.total_seconds()
            self.claims.count_loss(self.arn)
        if changed:
            self.claims.put(self.arn, changed)


def _is_taken(claim: Claimed, member: Member) -> bool:
    return claim.state in decisions.HAVING and claim.owner.is_taken(member.owner)


def _told(health: Health) -> str:
    """Return what people should know of a target that is in and not served."""
    if health.serves:
        return ""
    if health.reason == "Target.NotInUse":
        return "no listener uses the target group yet"
    return f"{health}: {health.description}" if health.description else str(health)
