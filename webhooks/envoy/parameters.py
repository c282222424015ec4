"""The parameters of a backend, checked before anything is changed. Pure."""

import re

from collections.abc import Mapping

import attrs

from webhooks.envoy.errors import InvalidInput
from webhooks.shared.parameters import unknown_parameter


HEAVIEST = 128
_KNOWN = ("weight", "zone")
_NUMBER = re.compile(r"[0-9]{1,9}")
_ZONE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@attrs.frozen
class Options:
    """What a member is to be like: see `balancers.Member`."""

    weight: int = 1
    zone: str = ""


def parse_options(parameters: Mapping[str, str]) -> Options:
    """Read a backend's parameters.

    Raises:
        InvalidInput: an unknown parameter or a bad value; says what is taken.
    """
    unknown = unknown_parameter(parameters, _KNOWN)
    if unknown:
        raise InvalidInput(unknown)
    weight, zone = parameters.get("weight", "1"), parameters.get("zone", "")
    if _NUMBER.fullmatch(weight) is None or not 1 <= int(weight) <= HEAVIEST:
        raise InvalidInput(
            f"parameters: weight must be a number from 1 to {HEAVIEST}, not {weight!r:.60}"
        )
    if zone and _ZONE.fullmatch(zone) is None:
        raise InvalidInput(
            f"parameters: zone must be a name such as eu-west-1a, not {zone!r:.60}"
        )
    return Options(int(weight), zone)
