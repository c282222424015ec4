"""The units that the driver knows, and which of a pair is active.

`load_balancers` asks for the unit to act on. A unit that is not active takes changes,
too, and loses them when the active one brings it up to date: so it is asked each time.
"""

import asyncio

from collections.abc import Callable, Sequence

import attrs

from lbcf.sdk import Clock
from webhooks.device.connection import Connection
from webhooks.device.devices import Device
from webhooks.device.errors import Busy, DeviceError
from webhooks.device.flags import Ground
from webhooks.device.saving import Saver
from webhooks.f5.errors import NoActiveUnit
from webhooks.f5.icontrol import Icontrol
from webhooks.f5.names import ObjectPath
from webhooks.f5.session import Session
from webhooks.f5.tokens import Tokens


ACTIVE = "active"


@attrs.define(eq=False)
class Unit:
    """One BIG-IP.

    Attributes:
        api: its calls.
        saver: has it save, and bring the others up to date.
    """

    api: Icontrol
    saver: Saver = attrs.field(init=False)
    _groups: set[ObjectPath] = attrs.field(factory=set, init=False)
    _started: set[ObjectPath | None] = attrs.field(factory=set, init=False)

    @property
    def device(self) -> Device:
        """Which one it is."""
        return self.api.session.device

    def note_change(self, group: ObjectPath | None) -> None:
        """Have a change saved, and brought to the others of a device group."""
        if group is not None:
            self._groups.add(group)
        self.saver.note_change()

    def note_start(self, group: ObjectPath | None) -> None:
        """Have it saved once: what an earlier run left unsaved, nobody knows."""
        if group not in self._started:
            self._started.add(group)
            self.note_change(group)

    async def keep(self) -> None:
        """Save, then bring the others up to date; what fails is to be done again.

        Raises:
            DeviceError: one of them failed.
        """
        groups, self._groups = self._groups, set()
        try:
            await self.api.save()
            for group in sorted(groups, key=str):
                await self.api.synchronize(group)
        except BaseException:
            # A driver that ends cuts this short, and saves once more.
            self._groups |= groups
            raise

    async def close(self) -> None:
        """Save what is left, give the token back, hang up."""
        await self.saver.close()
        await self.api.session.close()


def connect(device: Device, ground: Ground, clock: Clock) -> Unit:
    """Return a unit; nothing is sent yet."""
    connection = Connection(device, ground.tls, ground.limits)
    session = Session(connection, Tokens(connection, ground.secrets, clock), clock)
    unit = Unit(Icontrol(session))
    unit.saver = Saver(str(device), unit.keep, clock, ground.save_period)
    return unit


@attrs.define(eq=False)
class Units:
    """All units of this driver; load balancers share them.

    Attributes:
        connect: makes one.
    """

    connect: Callable[[Device], Unit]
    _known: dict[Device, Unit] = attrs.field(factory=dict, init=False)
    _last: dict[Sequence[Device], Device] = attrs.field(factory=dict, init=False)

    async def active(self, devices: Sequence[Device]) -> Unit:
        """Return the unit to act on: the only one, or the active one of several.

        The one that was active last is asked first, so that a dead standby unit costs
        nothing.

        Raises:
            NoActiveUnit: none says that it is; tells what each said.
        """
        if len(devices) == 1:
            return self._unit(devices[0])
        last = self._last.get(tuple(devices), devices[0])
        said: list[str] = []
        for device in sorted(devices, key=lambda one: one != last):
            unit = self._unit(device)
            state = await _state(unit)
            if state == ACTIVE:
                self._last[tuple(devices)] = device
                return unit
            said.append(f"{device} is {state}")
        raise NoActiveUnit(f"no unit is active: {'; '.join(said)}")

    async def close(self) -> None:
        """Close them all, side by side: one that hangs holds up no other."""
        await asyncio.gather(*(unit.close() for unit in self._known.values()))

    def _unit(self, device: Device) -> Unit:
        """Return the one client of a device."""
        if device not in self._known:
            self._known[device] = self.connect(device)
        return self._known[device]


async def _state(unit: Unit) -> str:
    """Return what a unit says of itself, or why it says nothing."""
    try:
        return await unit.api.failover_state() or "of an unknown state"
    except Busy as error:
        return f"busy ({error})"
    except DeviceError as error:
        return f"not asked ({error})"
