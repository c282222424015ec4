"""All target groups behind one load balancer, and all load balancers of the driver.

`driver` asks for an operation, `group` performs it on each target group, here the
answers become one: it is done where it is done everywhere.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

import attrs

from webhooks.elbv2.claims import Claims
from webhooks.elbv2.client import GroupDescription
from webhooks.elbv2.errors import (
    Elbv2Error,
    InvalidInput,
    PartlyFailed,
    Throttled,
    Uncertain,
)
from webhooks.elbv2.group import TargetGroup
from webhooks.elbv2.load_balancers import (
    AllowedGroups,
    Identity,
    arn_region,
    parse_identity,
    parse_spec,
)
from webhooks.elbv2.members import Member, Outcome, Unfinished
from webhooks.elbv2.regions import Aws
from webhooks.elbv2.targets import Target, TargetType
from webhooks.shared import gathering
from webhooks.shared.addresses import read_address
from webhooks.shared.outcomes import Finished
from webhooks.shared.reach import AllowedAddresses, spelling


_T = TypeVar("_T")
_A = TypeVar("_A")


@attrs.frozen
class LoadBalancer:
    """One or several target groups that shall have the same members."""

    identity: Identity
    groups: Sequence[TargetGroup]

    async def on_all(
        self, operation: Callable[[TargetGroup], Awaitable[_T]]
    ) -> list[_T]:
        """Perform an operation on all target groups at once; no failure stops others.

        Raises:
            Elbv2Error: as `gathered` says.
        """
        return await gathered(operation, self.groups)

    async def ensure(self, member: Member) -> str:
        """Put a member into full service everywhere; return why it is not served yet.

        All target groups are looked at before the first is changed: what is taken in
        one of them is put into none.
        """
        self.identity.check_target(member.target)
        readings = await self.on_all(lambda group: group.look(member))
        seen = dict(zip([group.arn for group in self.groups], readings, strict=True))
        notes = await self.on_all(lambda group: group.ensure(member, seen[group.arn]))
        return "; ".join(dict.fromkeys(note for note in notes if note))

    async def settle(
        self, operation: Callable[[TargetGroup], Awaitable[Outcome]]
    ) -> Outcome:
        """Perform an operation on all target groups; finished when all are."""
        outcomes = await self.on_all(operation)
        for outcome in outcomes:
            if isinstance(outcome, Unfinished):
                return outcome
        notes = [outcome.note for outcome in outcomes if outcome.note]
        return Finished("; ".join(dict.fromkeys(notes)))


async def gathered(
    operation: Callable[[_A], Awaitable[_T]], on: Sequence[_A]
) -> list[_T]:
    """Perform an operation on each; one failure stops no other.

    Raises:
        Elbv2Error: that of the only one, or of all.
        Throttled: one or more were; nothing else went wrong.
        Uncertain: one or more failed, and what was sent may take effect.
        PartlyFailed: one or more of several failed.
    """
    values, failures = await gathering.gathered(operation, on, Elbv2Error)
    if failures:
        raise _joined(failures, len(on))
    return values


def _joined(failures: Sequence[Elbv2Error], asked: int) -> Elbv2Error:
    """Return one error for those of all target groups."""
    throttled = [one for one in failures if isinstance(one, Throttled)]
    if asked == 1 or len(throttled) == len(failures):
        return max(throttled, key=lambda one: one.delay) if throttled else failures[0]
    reasons = "; ".join(dict.fromkeys(str(failure) for failure in failures))
    text = f"{len(failures)} of {asked} target groups failed: {reasons}"
    if any(isinstance(failure, Uncertain) for failure in failures):
        return Uncertain(text)
    return PartlyFailed(text)


@attrs.frozen
class Found:
    """What an lbSpec or lbInfo names.

    Attributes:
        identity: the target groups.
        balancers: ARNs of AWS' load balancers that send to them.
    """

    identity: Identity
    balancers: Sequence[str]


@attrs.define(eq=False)
class LoadBalancers:
    """All load balancers of this driver; they share the target groups.

    Attributes:
        aws: the regions.
        claims: what is ours.
        allowed: which target groups load balancers may name.
        fresh: how old a reading of targets' health may be.
        addresses: which ones targets may have.
    """

    aws: Aws
    claims: Claims = attrs.field(factory=Claims)
    allowed: AllowedGroups = attrs.field(factory=AllowedGroups)
    fresh: timedelta = timedelta(seconds=2)
    addresses: AllowedAddresses = attrs.field(factory=AllowedAddresses)
    _groups: dict[str, TargetGroup] = attrs.field(factory=dict, init=False)

    async def find(
        self, fields: Mapping[str, str], namespace: str | None = None
    ) -> LoadBalancer:
        """Return the load balancer of this lbInfo; asks nobody.

        Args:
            fields: what it says.
            namespace: of it; None: something there is to go, or to be told.

        Raises:
            InvalidInput: it names no target group that may be used.
            Unreachable: there can be no client for its region.
        """
        identity = parse_identity(fields)
        for arn in identity.arns:
            self.allowed.check(arn, namespace)
        return LoadBalancer(identity, [await self._group(arn) for arn in identity.arns])

    def check_address(self, text: str, target: Target) -> None:
        """Let pass a target that is to come; an instance is no address.

        Raises:
            InvalidInput: no target may have this address.
        """
        address = read_address(text)
        wrong = self.addresses.objection(address) if address else ""
        wrong = wrong or spelling(text, target)
        if wrong:
            raise InvalidInput(f"backendAddr: {wrong}")

    async def look_up(self, fields: Mapping[str, str], namespace: str) -> Found:
        """Return what an lbSpec is: look up what is told by name.

        Args:
            fields: what it says.
            namespace: of the load balancer.

        Raises:
            InvalidInput: target groups that cannot be used, or not together.
            TargetGroupGone: there is no such target group.
        """
        spec = parse_spec(fields)
        found = await gathered(
            lambda group: self._described(group, spec.region), spec.groups
        )
        described = [one for groups in found for one in groups]
        types = {one.target_type for one in described}
        usable = {one.value for one in TargetType}
        if len(types) != 1 or not types <= usable:
            raise InvalidInput(
                f"targetGroups: their target types are {', '.join(sorted(types))}; all "
                "must be ip, or all instance"
            )
        for one in described:
            self.allowed.check(one.arn, namespace)
        arns = list(dict.fromkeys(one.arn for one in described))
        balancers = dict.fromkeys(arn for one in described for arn in one.balancers)
        return Found(Identity(arns, "", TargetType(types.pop())), list(balancers))

    async def hostnames(self, balancers: Iterable[str]) -> list[str]:
        """Return where clients reach AWS' load balancers.

        Raises:
            LoadBalancerGone: there is one of them no more.
        """
        regions: defaultdict[str, list[str]] = defaultdict(list)
        for arn in balancers:
            regions[arn.split(":")[3]].append(arn)
        found = [
            await (await self.aws.region(name)).hostnames(arns)
            for name, arns in regions.items()
        ]
        return [name for names in found for name in names]

    async def close(self) -> None:
        """Send nothing more, and close what is open."""
        for group in self._groups.values():
            await group.close()
        self._groups.clear()
        await self.aws.close()
        self.claims.close()

    async def _described(self, group: str, region: str) -> list[GroupDescription]:
        calls = await self.aws.region(arn_region(group) or region)
        return await calls.describe(group)

    async def _group(self, arn: str) -> TargetGroup:
        """Return the one client of this target group."""
        if arn not in self._groups:
            region = await self.aws.region(arn_region(arn))
            group = TargetGroup(arn, region, self.claims, self.aws.clock, self.fresh)
            self._groups.setdefault(arn, group)
        return self._groups[arn]
