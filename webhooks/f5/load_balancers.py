"""One load balancer: a pool of a BIG-IP, or of the active one of a pair.

`driver` asks for an operation, `units` tells where it is to be done, `pool` does it.
"""

import math

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import attrs
import structlog

from lbcf.sdk import Clock
from webhooks.device.devices import AllowedDevices, Device, parse_devices
from webhooks.device.errors import InvalidInput
from webhooks.device.looks import LOOK_PERIOD
from webhooks.f5.members import Wanted
from webhooks.f5.memory import Listing, Memory
from webhooks.f5.names import (
    Address,
    Mark,
    ObjectPath,
    checked_domain,
    is_group,
    parse_address,
    parse_group,
    parse_path,
)
from webhooks.f5.pool import Pool
from webhooks.f5.units import Unit, Units
from webhooks.shared import identity
from webhooks.shared.identity import Owner
from webhooks.shared.outcomes import Finished, Outcome
from webhooks.shared.parameters import wrong_field


_NEEDED = ("devices", "pool")
_KNOWN = (*_NEEDED, "syncGroup", "routeDomain")

_log = structlog.get_logger(__name__)


@attrs.frozen
class Identity:
    """What a load balancer is known by.

    Attributes:
        devices: its units; one at least, none twice.
        pool: the same on all of them.
        group: device group that is brought up to date after changes; None: it does so
            by itself, or there is none.
        domain: number of the route domain that members are in; empty: the default.
    """

    devices: tuple[Device, ...]
    pool: ObjectPath
    group: ObjectPath | None = None
    domain: str = ""

    @property
    def lock_key(self) -> str:
        """What the pool is known by.

        Route domains are left out: one has several spellings, and an address that is in
        two of them is the rarer case.
        """
        return identity.lock_key("f5", self.devices, str(self.pool))

    def render(self) -> dict[str, str]:
        """Return it as the controller keeps it: the same for whatever order."""
        fields = {
            "devices": ",".join(sorted(str(device) for device in self.devices)),
            "pool": str(self.pool),
            "syncGroup": str(self.group or ""),
            "routeDomain": self.domain,
        }
        return {name: text for name, text in fields.items() if text}


def parse_identity(fields: Mapping[str, str]) -> Identity:
    """Read an lbSpec or lbInfo.

    Raises:
        InvalidInput: a field is missing, unknown or cannot be used.
    """
    wrong = wrong_field(fields, _NEEDED, _KNOWN)
    if wrong:
        raise InvalidInput(f"load balancer: {wrong}; it has {', '.join(_KNOWN)}")
    group = fields.get("syncGroup")
    return Identity(
        devices=tuple(parse_devices(fields["devices"])),
        pool=parse_path(fields["pool"]),
        group=parse_group(group) if group else None,
        domain=checked_domain(fields.get("routeDomain", "")),
    )


@attrs.frozen
class Settings:
    """What all load balancers of this driver share.

    Attributes:
        units: where they are.
        clock: for looks that are told again.
        mark: by which our objects are known.
        look_period: how long a look may be told again.
        run: the name of this run of the driver.
    """

    units: Units
    clock: Clock
    mark: Mark
    look_period: timedelta
    run: str


@attrs.frozen
class LoadBalancer:
    """A load balancer and what is remembered of it."""

    identity: Identity
    memory: Memory
    settings: Settings

    def owner(self, record_id: str) -> Owner:
        """Return whose a member of a record here is."""
        return Owner(record_id, identity.digest(self.identity.lock_key))

    def address(self, text: str) -> Address:
        """Read a backend's address.

        Raises:
            InvalidInput: it is none.
        """
        return parse_address(text, self.identity.domain)

    async def check(self) -> None:
        """Find the pool, and the device group, on the unit that is active.

        Raises:
            NoSuchPool: it is not there.
            NoSuchGroup: the device group is not.
        """
        unit = await self.settings.units.active(self.identity.devices)
        await unit.api.check_pool(self.identity.pool)
        if self.identity.group is not None:
            await unit.api.check_group(self.identity.group)

    async def ensure(self, wanted: Wanted, record_id: str) -> Outcome:
        """Put a member into full service."""
        pool, _ = await self._pool()
        self.memory.wants(wanted.address, record_id)
        outcome = await pool.ensure(wanted)
        self.memory.has_put(wanted.address, record_id)
        return outcome

    async def drain(self, address: Address, record_id: str) -> Outcome:
        """Stop new traffic to a member."""
        pool, _ = await self._pool()
        try:
            return await pool.drain(address, record_id)
        finally:
            self.memory.changes()

    async def deregister(self, address: Address, record_id: str) -> Outcome:
        """Take a member out."""
        pool, _ = await self._pool()
        self.memory.takes_out(address, record_id)
        outcome = await pool.deregister(address, record_id)
        if isinstance(outcome, Finished):
            self.memory.has_taken_out(address, record_id)
        return outcome

    async def ensure_all(
        self, wanted: Mapping[str, Wanted], until: float
    ) -> Mapping[str, Outcome]:
        """Put members into full service by few transactions; return outcomes by record.

        None is begun after `until`, monotonic seconds.
        """
        pool, _ = await self._pool(until)
        for record_id, one in wanted.items():
            self.memory.wants(one.address, record_id)
        done = await pool.ensure_all(wanted)
        for record_id in _finished(done):
            self.memory.has_put(wanted[record_id].address, record_id)
        return done

    async def drain_all(
        self, of: Mapping[str, Address], until: float
    ) -> Mapping[str, Outcome]:
        """Stop new traffic to members by a transaction, as `ensure_all` does."""
        pool, _ = await self._pool(until)
        try:
            return await pool.drain_all(of)
        finally:
            self.memory.changes()

    async def deregister_all(
        self, of: Mapping[str, Address], until: float
    ) -> Mapping[str, Outcome]:
        """Take members out by few transactions, as `ensure_all` puts them in."""
        pool, _ = await self._pool(until)
        for record_id, address in of.items():
            self.memory.takes_out(address, record_id)
        done = await pool.deregister_all(of)
        for record_id in _finished(done):
            self.memory.has_taken_out(of[record_id], record_id)
        return done

    async def list_members(self) -> Listing:
        """Return our members, as they are or were a short while ago."""
        settings = self.settings
        return await self.memory.looks.lately(
            self._look,
            settings.clock,
            settings.look_period,
            has_down=Listing.has_down,
        )

    async def _look(self) -> Listing:
        """Look for our members; those that came back are taken out again."""
        pool, unit = await self._pool()
        expected = self.memory.expected()
        listed = await pool.list_members(self.identity.domain)
        found = {(one.address, one.record_id): one for one in listed}
        if self.memory.compare(expected, found, unit.interruptions):
            _log.warning("f5.members_lost", pool=str(pool.path), unit=str(unit.device))
        for address, record_id in found:
            if self.memory.is_gone(address, record_id):
                await self._remove_again(pool, address, record_id)
        epoch = f"{self.settings.run}/{unit.device}/{self.memory.losses}"
        kept = [one for key, one in found.items() if not self.memory.is_gone(*key)]
        return Listing(epoch, kept)

    async def _remove_again(self, pool: Pool, address: Address, record_id: str) -> None:
        """Take out a member that was taken out and is back."""
        self.memory.changes()
        _log.warning("f5.member_back", pool=str(pool.path), member=str(address))

        def still() -> bool:
            """Look whether it was ensured meanwhile."""
            return self.memory.is_gone(address, record_id)

        await pool.deregister(address, record_id, still)

    async def _pool(self, until: float = math.inf) -> tuple[Pool, Unit]:
        """Return the pool on the unit that is active.

        Raises:
            NoActiveUnit: there is none.
        """
        unit = await self.settings.units.active(self.identity.devices)
        unit.note_start(self.identity.group)
        changed = _noting(unit, self.identity.group)
        mark = self.settings.mark
        return Pool(unit.api, self.identity.pool, mark, changed, until), unit


def _finished(outcomes: Mapping[str, Outcome]) -> Sequence[str]:
    """Return the records that are where they are to be."""
    return [key for key, one in outcomes.items() if isinstance(one, Finished)]


def _noting(unit: Unit, group: ObjectPath | None) -> Callable[[], None]:
    """Return what is told of a change."""

    def changed() -> None:
        """Have it saved."""
        unit.note_change(group)

    return changed


@attrs.define(eq=False)
class LoadBalancers:
    """All load balancers of this driver.

    Attributes:
        allowed: which devices they may name.
        units: which they share.
        clock: for the name of this run.
        mark: by which our objects are known.
        look_period: how long what was listed may be told again.
    """

    allowed: AllowedDevices
    units: Units
    clock: Clock
    mark: Mark = attrs.field(factory=Mark)
    look_period: timedelta = LOOK_PERIOD
    _memories: dict[Identity, Memory] = attrs.field(factory=dict, init=False)
    _settings: Settings = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Give this run a name."""
        run = self.clock.new_id()[:8]
        self._settings = Settings(
            self.units, self.clock, self.mark, self.look_period, run
        )

    def find(
        self, fields: Mapping[str, str], namespace: str | None = None
    ) -> LoadBalancer:
        """Return the load balancer of this lbSpec or lbInfo; asks nobody.

        Args:
            fields: what it says.
            namespace: of it; None: it is not said, or something there is to go.

        Raises:
            InvalidInput: it names no device that may be used, or no pool.
        """
        identity = parse_identity(fields)
        for device in identity.devices:
            self.allowed.check(device, namespace)
        memory = self._memories.setdefault(identity, Memory())
        return LoadBalancer(identity, memory, self._settings)

    def find_known(self, fields: Mapping[str, str]) -> LoadBalancer:
        """Return the load balancer of members that are to go, or to be told.

        What earlier versions took for a device group, and is none, is left out: nothing
        can be synchronized to it, and members have to go.

        Raises:
            InvalidInput: as `find`.
        """
        group = fields.get("syncGroup")
        if group and not is_group(group):
            fields = {key: fields[key] for key in fields if key != "syncGroup"}
        return self.find(fields)
