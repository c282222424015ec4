"""What ELBv2 knows a member by, and how it says that the member is. Pure.

A target is its id (an IP address, or an instance) *and* its port: a call that leaves
the port out is answered with success and does nothing to a target that was registered
with one. No `Target` can be made without.
"""

import re

from collections.abc import Mapping
from enum import StrEnum

import attrs

from webhooks.elbv2.errors import InvalidInput
from webhooks.shared.addresses import IPAddress, read_address, read_port


_INSTANCE = re.compile(r"i-[0-9a-f]{8,17}")


class TargetType(StrEnum):
    """What the ids of a target group's targets are; those that have ports."""

    IP = "ip"
    INSTANCE = "instance"


@attrs.frozen
class Target:
    """A target as ELBv2 names it.

    Attributes:
        id: an IP address in its shortest form, or the id of an instance.
        port: 1 to 65535.
    """

    id: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.id}]" if ":" in self.id else self.id
        return f"{host}:{self.port}"

    @property
    def type(self) -> TargetType:
        """Tell in which target groups it can be."""
        is_instance = _INSTANCE.fullmatch(self.id) is not None
        return TargetType.INSTANCE if is_instance else TargetType.IP


def parse_target(text: str) -> Target:
    """Read `IP:port`, `[IPv6]:port` or `i-INSTANCE:port`.

    Raises:
        InvalidInput: anything else, and addresses that are nobody's or everybody's.
    """
    host, _, port = text.rpartition(":")
    if _INSTANCE.fullmatch(host) is not None:
        number = read_port(port)
        if number is None:
            raise _no_target(text)
        return Target(host, number)
    address = read_address(text)
    if address is None:
        raise _no_target(text)
    _check_host(address.ip, text)
    return Target(str(address.ip), address.port)


def _check_host(ip: IPAddress, text: str) -> None:
    """Let pass an address that one machine can have.

    Raises:
        InvalidInput: it is none.
    """
    if ip.is_unspecified or ip.is_multicast or ip.is_loopback or ip.is_link_local:
        raise InvalidInput(f"backendAddr: no target group can reach {text}")


def _no_target(text: str) -> InvalidInput:
    return InvalidInput(
        f"backendAddr {text!r:.120}: write IP:port, [IPv6]:port without a zone, or "
        "i-INSTANCE:port, with a port of 1 to 65535"
    )


class Standing(StrEnum):
    """Where a target is in its life."""

    ABSENT = "absent"
    """It is not in, or not any more."""
    IN = "in"
    """It is in, whether or not it is sent anything."""
    DRAINING = "draining"
    """It was taken out, and its connections may end within the delay."""


_OUT = "Target.NotRegistered"


@attrs.frozen
class Health:
    """What DescribeTargetHealth says of a target.

    Attributes:
        state: initial, healthy, unhealthy, unhealthy.draining, unused, draining, or
            unavailable.
        reason: such as Target.Timeout; empty where it is healthy.
        description: AWS' words for people.
    """

    state: str
    reason: str = ""
    description: str = ""

    @property
    def standing(self) -> Standing:
        """Tell where it is: `unused` is in, unless it says that it is not."""
        if self.reason == _OUT:
            return Standing.ABSENT
        return Standing.DRAINING if self.state == "draining" else Standing.IN

    @property
    def serves(self) -> bool:
        """Tell whether requests are sent to it by right."""
        return self.state in {"healthy", "unavailable"}

    @property
    def starting(self) -> bool:
        """Tell whether it waits for its first health checks."""
        return self.state == "initial"

    def __str__(self) -> str:
        return " ".join(word for word in (self.state, self.reason) if word)


@attrs.frozen
class Reading:
    """What one DescribeTargetHealth said of a whole target group.

    Attributes:
        began: monotonic seconds before which it was not asked.
        targets: all that are in or draining.
    """

    began: float
    targets: Mapping[Target, Health]

    def standing(self, target: Target) -> Standing:
        """Tell where a target is."""
        health = self.targets.get(target)
        return Standing.ABSENT if health is None else health.standing
