"""One load balancer: one or several target groups, as users name them. Pure.

A target group's name can be given to another one once it is deleted, its ARN cannot:
names are looked up once, and the identity has the ARNs.
"""

import re

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial

import attrs

from webhooks.elbv2.errors import InvalidInput
from webhooks.elbv2.targets import Target, TargetType
from webhooks.shared.identity import lock_key
from webhooks.shared.parameters import wrong_field
from webhooks.shared.rules import why_not


MOST_GROUPS = 16
"""Target groups behind one load balancer."""

GROUPS = "targetGroups"
REGION = "region"
TYPE = "targetType"

_ARN = re.compile(
    r"arn:aws[a-z-]{0,20}:elasticloadbalancing:([a-z0-9-]{1,40}):[0-9]{12}"
    r":targetgroup/([A-Za-z0-9-]{1,32})/[A-Za-z0-9]{1,64}"
)
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?")
_REGION = re.compile(r"[a-z0-9-]{0,40}")


def arn_region(arn: str) -> str:
    """Return the region that an ARN names."""
    found = _ARN.fullmatch(arn)
    return found[1] if found else ""


def arn_name(arn: str) -> str:
    """Return the name of the target group that has the ARN."""
    found = _ARN.fullmatch(arn)
    return found[2] if found else arn


@attrs.frozen
class Identity:
    """What a load balancer is known by.

    Attributes:
        groups: ARNs, or names in an lbSpec; one at least, none twice.
        region: of those that are named; empty: as the driver is configured.
        target_type: of all of them; None: not known.
    """

    groups: Sequence[str]
    region: str = ""
    target_type: TargetType | None = None

    @property
    def arns(self) -> list[str]:
        """Return those that are told by ARN."""
        return [group for group in self.groups if _ARN.fullmatch(group)]

    @property
    def names(self) -> list[str]:
        """Return those that are told by name."""
        return [group for group in self.groups if not _ARN.fullmatch(group)]

    @property
    def lock_key(self) -> str:
        """What the target groups are known by, if they are told by ARN."""
        return lock_key("elbv2", self.groups)

    def render(self) -> dict[str, str]:
        """Return it as the controller keeps it: the same for whatever order."""
        said = {GROUPS: ",".join(sorted(self.groups))}
        if self.target_type is not None:
            said[TYPE] = self.target_type.value
        return said

    def check_target(self, target: Target) -> None:
        """Let pass a target that can be in these target groups.

        Raises:
            InvalidInput: it is of another type.
        """
        if self.target_type not in {None, target.type}:
            raise InvalidInput(
                f"backendAddr: {target} is no target of type {self.target_type}, which "
                "the target group has"
            )


def parse_spec(fields: Mapping[str, str]) -> Identity:
    """Read `targetGroups` (names or ARNs, comma-separated) and `region` of an lbSpec.

    Raises:
        InvalidInput: one is missing, unknown or cannot be used.
    """
    wrong = wrong_field(fields, (GROUPS,), (GROUPS, REGION, TYPE))
    if wrong:
        raise InvalidInput(f"load balancer: {wrong}; it has `{GROUPS}` and `{REGION}`")
    groups = list(dict.fromkeys(one.strip() for one in fields[GROUPS].split(",")))
    for group in groups:
        if _ARN.fullmatch(group) is None and _NAME.fullmatch(group) is None:
            raise InvalidInput(
                f"{GROUPS}: {group!r:.160} is neither the ARN of a target group nor "
                "a name of at most 32 letters, digits and `-`"
            )
    if len(groups) > MOST_GROUPS:
        raise InvalidInput(f"{GROUPS}: {len(groups)} are more than {MOST_GROUPS}")
    region = fields.get(REGION, "")
    if _REGION.fullmatch(region) is None:
        raise InvalidInput(f"{REGION}: {region!r:.60} is no region's name")
    return Identity(groups, region, _parsed_type(fields.get(TYPE, "")))


def _parsed_type(text: str) -> TargetType | None:
    """Read a target type; empty: None."""
    try:
        return TargetType(text) if text else None
    except ValueError as error:
        raise InvalidInput(f"{TYPE}: {text!r:.60} is neither ip nor instance") from (
            error
        )


def parse_identity(fields: Mapping[str, str]) -> Identity:
    """Read an lbInfo: target groups by ARN.

    Raises:
        InvalidInput: it cannot be used, or has a name in place of an ARN.
    """
    identity = parse_spec(fields)
    if identity.names:
        raise InvalidInput(
            f"{GROUPS}: {identity.names[0]!r:.60} is a name; the identity that "
            "createLoadBalancer answered has the ARN"
        )
    return identity


@attrs.frozen
class AllowedGroups:
    """The target groups that load balancers may name.

    Attributes:
        patterns: rules (`webhooks.shared.rules`), with patterns of ARNs where they begin with `arn:`, else of names; `*`, `?` and
            `[...]` stand for characters.
    """

    patterns: Sequence[str] = ("*",)

    def check(self, arn: str, namespace: str | None = None) -> None:
        """Let an allowed target group pass.

        Args:
            arn: that a load balancer names.
            namespace: of the load balancer; None: something there is to go.

        Raises:
            InvalidInput: no rule allows it.
        """
        why = why_not(self.patterns, partial(_matches, arn), namespace)
        if why:
            name = arn_name(arn)
            raise InvalidInput(f"{GROUPS}: {name} {why} (--allow-target-groups)")


def _matches(arn: str, pattern: str) -> bool:
    return fnmatchcase(arn if pattern.startswith("arn:") else arn_name(arn), pattern)
