"""Which service group of which appliance a request is about.

`driver` asks with an lbSpec or lbInfo; what is found here is shared by all requests, so
that an appliance has one session of ours, one change at a time and one saver. A unit that
is named alone and with its other one has two savers, and one of all else.
"""

import asyncio

from collections.abc import Mapping, Sequence
from datetime import timedelta

import attrs

from lbcf.sdk import Clock
from webhooks.device.connection import Connection
from webhooks.device.devices import Device, parse_devices
from webhooks.device.errors import InvalidInput
from webhooks.device.flags import Ground
from webhooks.device.looks import LOOK_PERIOD
from webhooks.netscaler.group import Group
from webhooks.netscaler.members import checked_name
from webhooks.netscaler.nitro import Nitro
from webhooks.netscaler.pair import MOMENT, Pair
from webhooks.shared.identity import digest, lock_key
from webhooks.shared.parameters import wrong_field


_KNOWN = ("devices", "serviceGroup")
_MOST_UNITS = 2


@attrs.frozen
class Identity:
    """What a load balancer is known by.

    Attributes:
        devices: the unit, or both of a pair; none twice.
        group: name of the service group.
    """

    devices: Sequence[Device]
    group: str

    @property
    def lock_key(self) -> str:
        """What the service group is known by."""
        return lock_key("netscaler", self.devices, self.group)

    def render(self) -> dict[str, str]:
        """Return it as the controller keeps it: the same for whatever order."""
        return {
            "devices": ",".join(sorted(str(device) for device in self.devices)),
            "serviceGroup": self.group,
        }


def parse_identity(fields: Mapping[str, str]) -> Identity:
    """Read `devices` and `serviceGroup` of an lbSpec or lbInfo.

    Raises:
        InvalidInput: one is missing, unknown or cannot be used.
    """
    wrong = wrong_field(fields, _KNOWN, _KNOWN)
    if wrong:
        raise InvalidInput(
            f"load balancer: {wrong}; it has `devices` and `serviceGroup`"
        )
    devices = parse_devices(fields["devices"])
    if len(devices) > _MOST_UNITS:
        raise InvalidInput(f"devices: a pair has 2 units, not {len(devices)}")
    return Identity(devices, checked_name(fields["serviceGroup"]))


@attrs.define(eq=False)
class LoadBalancers:
    """All load balancers of this driver.

    Attributes:
        ground: what the flags say of devices.
        prefix: of marks and of server objects.
        clock: for times.
        look_period: how long what was listed may be told again.
    """

    ground: Ground
    prefix: str
    clock: Clock
    look_period: timedelta = LOOK_PERIOD
    _units: dict[Device, Nitro] = attrs.field(factory=dict, init=False)
    _pairs: dict[frozenset[Device], Pair] = attrs.field(factory=dict, init=False)
    _groups: dict[tuple[frozenset[Device], str], Group] = attrs.field(
        factory=dict, init=False
    )

    def find(self, fields: Mapping[str, str], namespace: str | None = None) -> Group:
        """Return the service group of this lbSpec or lbInfo; asks nobody.

        Args:
            fields: what it says.
            namespace: of it; None: something there is to go, or to be told.

        Raises:
            InvalidInput: it names no device that may be used, or no group.
        """
        identity = parse_identity(fields)
        for device in identity.devices:
            self.ground.allowed.check(device, namespace)
        key = (frozenset(identity.devices), identity.group)
        if key not in self._groups:
            pair = self._pair(identity.devices)
            pool = digest(identity.lock_key)
            self._groups[key] = Group(
                pair, identity.group, self.prefix, pool, self.look_period
            )
        return self._groups[key]

    async def close(self) -> None:
        """Save what is not saved, side by side, and end all sessions."""
        await asyncio.gather(*(pair.close() for pair in self._pairs.values()))
        # After all saving: several pairs may have one unit.
        await asyncio.gather(*(unit.close() for unit in self._units.values()))

    def _pair(self, devices: Sequence[Device]) -> Pair:
        """Return the one pair of these units, in whatever order they are named."""
        key = frozenset(devices)
        if key not in self._pairs:
            units = [self._unit(device) for device in devices]
            moment = min(MOMENT, self.look_period)
            self._pairs[key] = Pair(units, self.clock, self.ground.save_period, moment)
        return self._pairs[key]

    def _unit(self, device: Device) -> Nitro:
        """Return the one interface of this unit."""
        if device not in self._units:
            connection = Connection(device, self.ground.tls, self.ground.limits)
            self._units[device] = Nitro(connection, self.ground.secrets, self.clock)
        return self._units[device]
