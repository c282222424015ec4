"""The units behind a load balancer: which of them is primary, one change at a time.

`group` asks for the primary before each reading. In a high-availability pair only the
primary's configuration counts: a secondary takes changes and loses them at the next
synchronisation. Which one it is can change between any two calls, so it is kept for
listings alone, and for a moment.
"""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import attrs

from lbcf.sdk import Clock
from webhooks.device.errors import Busy, DeviceError
from webhooks.device.saving import PERIOD, Saver
from webhooks.netscaler.changes import Call
from webhooks.netscaler.errors import NotPrimary
from webhooks.netscaler.ledger import Ledger
from webhooks.netscaler.nitro import Nitro
from webhooks.netscaler.replies import UnitRow, rows, unit_of


PRIMARY = "Primary"
SECONDARY = "Secondary"

OTHER = timedelta(milliseconds=300)
"""How long the other unit may take to say that it is primary, too."""

MOMENT = timedelta(seconds=2)
"""How old an answer may be that listings share."""

SAVE = Call(
    "POST", "nsconfig?action=save", {"nsconfig": {}}, patience=timedelta(seconds=60)
)
"""It takes an appliance seconds, or more with a large configuration."""


@attrs.frozen
class Unit:
    """The unit that is primary.

    Attributes:
        nitro: of it.
        started: when it was started, in its own words.
    """

    nitro: Nitro
    started: str

    @property
    def epoch(self) -> str:
        """Another one after a reboot and a failover: members may have been lost."""
        return f"{self.nitro.device} {self.started}"


@attrs.define(eq=False)
class Pair:
    """One appliance, or two that stand in for each other.

    Attributes:
        units: their interfaces.
        clock: for the period.
        save_period: between two saves of their configuration.
        moment: for how long `primary_of_late` believes the last answer.
        ledger: what is on their disks.
    """

    units: Sequence[Nitro]
    clock: Clock
    save_period: timedelta = PERIOD
    moment: timedelta = MOMENT
    ledger: Ledger = attrs.field(init=False)
    _last: tuple[float, Unit] | None = attrs.field(default=None, init=False)
    _asking: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)

    @ledger.default
    def _new_ledger(self) -> Ledger:
        """Return a ledger in which nothing is noted."""
        name = ", ".join(str(unit.device) for unit in self.units)
        return Ledger(Saver(name, self.save, self.clock, self.save_period))

    @contextlib.asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        """Let one change at a time be made on any of the units, for a block.

        Other pairs may have one of them, too; in one order, so that no two wait for
        each other.
        """
        async with contextlib.AsyncExitStack() as held:
            for unit in sorted(self.units, key=lambda one: str(one.device)):
                await held.enter_async_context(unit.changing)
            yield

    async def primary(self) -> Unit:
        """Return the unit that is primary now.

        Raises:
            NotPrimary: the one unit that was named is a secondary.
            Busy: none is, or both say so: they are taking over from each other.
            DeviceError: why the units could not be asked.
        """
        asked = self.clock.monotonic()
        unit = await self._found()
        if self._last is None or self._last[0] <= asked:
            self._last = (asked, unit)
        return unit

    async def primary_of_late(self) -> Unit:
        """Return the unit that was primary a moment ago: for listings, and no change.

        All that list at once share one answer, and that of whoever changes something: a
        listing never goes to a unit that was primary before the last change.

        Raises:
            DeviceError: as `primary`.
        """
        async with self._asking:
            if self._last is not None:
                asked, unit = self._last
                if self.clock.monotonic() - asked < self.moment.total_seconds():
                    return unit
            return await self.primary()

    async def _found(self) -> Unit:
        """Ask all units."""
        failures: list[DeviceError] = []
        found: list[tuple[Nitro, UnitRow]] = []
        for unit, answer in await _answers(self.units):
            if isinstance(answer, DeviceError):
                failures.append(answer)
            else:
                found.append((unit, answer))
        return _chosen(found, failures)

    async def close(self) -> None:
        """Save what is not saved."""
        await self.ledger.close()

    async def save(self) -> None:
        """Have the primary write its configuration to disk; it tells the other."""
        unit = await self.primary()
        await unit.nitro.call(SAVE)


async def _answers(
    units: Sequence[Nitro],
) -> Sequence[tuple[Nitro, UnitRow | DeviceError]]:
    """Ask all units what they are; once one is primary, wait for no silent other."""
    tasks = {asyncio.create_task(_asked(unit)): unit for unit in units}
    waiting = set(tasks)
    try:
        while waiting and not any(map(_is_primary, set(tasks) - waiting)):
            _, waiting = await asyncio.wait(
                waiting, return_when=asyncio.FIRST_COMPLETED
            )
        if waiting:
            _, waiting = await asyncio.wait(waiting, timeout=OTHER.total_seconds())
    finally:
        for task in waiting:
            task.cancel()
    return [(tasks[one], one.result()) for one in tasks if one not in waiting]


def _is_primary(answered: asyncio.Task[UnitRow | DeviceError]) -> bool:
    """Tell whether a unit has said that it is primary."""
    answer = answered.result()
    return isinstance(answer, UnitRow) and answer.role == PRIMARY


async def _asked(unit: Nitro) -> UnitRow | DeviceError:
    """Ask a unit what it is."""
    try:
        found = rows(await unit.stat("ns"), "ns")
    except DeviceError as error:
        return error
    return unit_of(found[0]) if found else UnitRow(PRIMARY, "")


def _chosen(
    found: Sequence[tuple[Nitro, UnitRow]], failures: Sequence[DeviceError]
) -> Unit:
    """Return the primary among those that answered."""
    primaries = [(unit, row) for unit, row in found if row.role == PRIMARY]
    if len(primaries) == 1:
        unit, row = primaries[0]
        return Unit(unit, row.started)
    if failures and not found:
        raise failures[0]
    said = ", ".join(f"{unit.device} is {row.role!r:.40}" for unit, row in found)
    if len(found) == 1 and not failures and found[0][1].role == SECONDARY:
        raise NotPrimary(
            f"{said}: name both units in `devices`, or the pair's shared address"
        )
    lost = "".join(f"; {failure}" for failure in failures)
    raise Busy(f"no single unit is primary now ({said}{lost}): a failover?")
