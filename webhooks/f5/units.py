"""The units that the driver knows, and which of a pair is active.

`load_balancers` asks for the unit to act on. A unit that is not active takes changes,
too, and loses them when the active one brings it up to date: so it is asked each time.
"""

import asyncio

from collections.abc import Callable, Iterable, Sequence

import attrs
import structlog

from lbcf.sdk import Clock
from webhooks.device.connection import Connection
from webhooks.device.devices import Device
from webhooks.device.errors import Busy, DeviceError
from webhooks.device.flags import Ground
from webhooks.device.saving import Saver
from webhooks.f5.errors import Missing, NoActiveUnit
from webhooks.f5.icontrol import Icontrol
from webhooks.f5.names import ObjectPath
from webhooks.f5.session import Session
from webhooks.f5.tokens import Tokens


ACTIVE = "active"

_log = structlog.get_logger(__name__)


@attrs.define(eq=False)
class Unit:
    """One BIG-IP.

    Attributes:
        api: its calls.
        saver: has it save, and bring the others up to date.
        takeovers: how many times it was found active in place of another unit.
    """

    api: Icontrol
    saver: Saver = attrs.field(init=False)
    takeovers: int = attrs.field(default=0, init=False)
    # What an earlier run left unsaved, nobody knows.
    _unsaved: bool = attrs.field(default=True, init=False)
    _groups: set[ObjectPath] = attrs.field(factory=set, init=False)
    _started: set[ObjectPath | None] = attrs.field(factory=set, init=False)

    @property
    def device(self) -> Device:
        """Which one it is."""
        return self.api.session.device

    @property
    def interruptions(self) -> tuple[Device, int]:
        """What differs where members may have been lost: another unit, or a new number."""
        return self.device, self.api.session.interruptions + self.takeovers

    def take_over(self) -> None:
        """Note that it is active in place of another, whose latest changes it may lack."""
        self.takeovers += 1
        self._unsaved = True
        self._started.clear()

    def note_change(self, group: ObjectPath | None) -> None:
        """Have a change saved, and brought to the others of a device group."""
        self._unsaved = True
        self._note(group)

    def note_start(self, group: ObjectPath | None) -> None:
        """Have it saved, and the others brought up to date, once: nobody knows what they lack.

        Once more after it took over, or where a device group was left as it is.
        """
        if group not in self._started:
            self._started.add(group)
            self._note(group)

    def _note(self, group: ObjectPath | None) -> None:
        if group is not None:
            self._groups.add(group)
        self.saver.note_change()

    async def keep(self) -> None:
        """Save, then bring the others up to date; what fails is to be done again.

        Raises:
            DeviceError: one of them failed; of several device groups, the first.
        """
        if self._unsaved:
            await self._save()
        errors: list[DeviceError] = []
        for group in sorted(self._groups, key=str):
            # Asked each time: a save, or a device group, takes up to a minute.
            state = await self.api.failover_state()
            if state != ACTIVE:
                # It would put what is old over what the active unit has. That one has
                # its own to bring, from its first operation on.
                self._leave(self._groups, f"it is {state or 'of an unknown state'}")
                break
            try:
                await self._synchronize(group)
            except DeviceError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _save(self) -> None:
        """Save; what is changed meanwhile counts as not saved."""
        self._unsaved = False
        try:
            await self.api.save()
        except BaseException:
            # A driver that ends cuts this short, and saves once more.
            self._unsaved = True
            raise

    async def _synchronize(self, group: ObjectPath) -> None:
        """Bring the others of a device group up to date.

        One that is not there is tried again as long as a load balancer names it.
        """
        # First: what is changed meanwhile is to be synchronized once more.
        self._groups.discard(group)
        try:
            await self.api.synchronize(group)
        except Missing as error:
            self._leave([group], str(error))
        except BaseException:
            self._groups.add(group)
            raise

    def _leave(self, groups: Iterable[ObjectPath], reason: str) -> None:
        """Leave device groups as they are, until something is done here in their name."""
        left = set(groups)
        self._groups -= left
        self._started -= left
        _log.warning(
            "f5.not_synchronized",
            unit=str(self.device),
            groups=sorted(map(str, left)),
            reason=reason,
        )

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
                self._note_active(devices, unit)
                return unit
            said.append(f"{device} is {state}")
        raise NoActiveUnit(f"no unit is active: {'; '.join(said)}")

    async def close(self) -> None:
        """Close them all, side by side: one that hangs holds up no other."""
        await asyncio.gather(*(unit.close() for unit in self._known.values()))

    def _note_active(self, devices: Sequence[Device], unit: Unit) -> None:
        """Remember which unit was active last."""
        last = self._last.get(tuple(devices))
        if last is not None and last != unit.device:
            unit.take_over()
        self._last[tuple(devices)] = unit.device

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
