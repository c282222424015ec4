"""The parameters of a backend, checked before anything is sent. Pure."""

import re

from collections.abc import Mapping

import attrs

from webhooks.elbv2.errors import InvalidInput
from webhooks.shared.parameters import unknown_parameter


ZONE = "availabilityZone"
ADOPT = "adopt"
_KNOWN = (ZONE, ADOPT)

_ZONE = re.compile(r"all|[a-z0-9][a-z0-9-]{0,40}")


@attrs.frozen
class Options:
    """What a member is to be like.

    Attributes:
        zone: the availability zone; `all` for an address outside of the target group's
            VPC; empty: AWS finds it.
        adopt: what is in at the member's address counts as put there by this driver.
    """

    zone: str = ""
    adopt: bool = False


def parse_options(parameters: Mapping[str, str]) -> Options:
    """Read a backend's parameters.

    Raises:
        InvalidInput: an unknown parameter or a bad value; says what is taken.
    """
    unknown = unknown_parameter(parameters, _KNOWN)
    if unknown:
        raise InvalidInput(unknown)
    zone = parameters.get(ZONE, "")
    if zone and _ZONE.fullmatch(zone) is None:
        raise InvalidInput(
            f"parameters: {ZONE} must be `all` or a zone's name, not {zone!r:.60}"
        )
    adopt = parameters.get(ADOPT, "false")
    if adopt not in {"true", "false"}:
        raise InvalidInput(
            f"parameters: {ADOPT} must be true or false, not {adopt!r:.60}"
        )
    return Options(zone, adopt == "true")


def leaving_options(parameters: Mapping[str, str]) -> Options:
    """Read the parameters of a target that is to be taken out.

    What nobody can read was refused when it was to come in, or to be changed: the target
    is as it was before, if it is in at all.
    """
    try:
        return parse_options(parameters)
    except InvalidInput:
        zone = parameters.get(ZONE, "")
        zone = zone if _ZONE.fullmatch(zone) else ""
        return Options(zone, parameters.get(ADOPT) == "true")


def check_change(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Let pass a change of parameters that can be made to members that are in.

    Raises:
        InvalidInput: the zone would change: that of a target is said once.
    """
    old, new = parse_options(before), parse_options(after)
    if old.zone != new.zone:
        raise InvalidInput(
            f"parameters: {ZONE} cannot be changed while members are registered "
            f"(now {old.zone!r}, wanted {new.zone!r})"
        )
