"""The parameters of a backend, checked before anything is sent."""

import re

from collections.abc import Mapping

import attrs

from webhooks.device.errors import InvalidInput
from webhooks.shared.parameters import unknown_parameter


HEAVIEST = 100
"""NITRO reference, servicegroup_servicegroupmember_binding: weights are 1 to 100."""

_NUMBER = re.compile(r"[0-9]{1,9}")
_KNOWN = ("weight", "state")
_STATES = {"enabled": True, "disabled": False}


@attrs.frozen
class Options:
    """What a member is to be like; all of it can be changed while it is there.

    Attributes:
        weight: 1 to 100.
        serves: whether it is enabled; one that is not is bound, and gets no traffic.
    """

    weight: int = 1
    serves: bool = True


def parse_options(parameters: Mapping[str, str]) -> Options:
    """Read a backend's parameters.

    Raises:
        InvalidInput: an unknown parameter or a bad value; says what is taken.
    """
    unknown = unknown_parameter(parameters, _KNOWN)
    if unknown:
        raise InvalidInput(unknown)
    return Options(_weight(parameters.get("weight", "1")), _serves(parameters))


def _weight(text: str) -> int:
    """Read a weight."""
    if _NUMBER.fullmatch(text) is None or not 1 <= int(text) <= HEAVIEST:
        raise InvalidInput(
            f"parameters: weight must be a number from 1 to {HEAVIEST}, not {text!r:.60}"
        )
    return int(text)


def _serves(parameters: Mapping[str, str]) -> bool:
    """Read a state."""
    text = parameters.get("state", "enabled")
    if text not in _STATES:
        raise InvalidInput(
            f"parameters: state must be enabled or disabled, not {text!r:.60}"
        )
    return _STATES[text]
