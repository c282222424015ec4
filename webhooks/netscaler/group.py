"""One service group: ensures, drains, deregisters and lists our members.

`driver` asks for operations. Each step is one turn: find the primary and read the group
there, ask `decisions`, make at most one change. Then the next step reads again; so what
a step concludes was read after the last change, from the unit that is primary.
"""

import contextlib

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

import attrs

from webhooks.device.looks import LOOK_PERIOD, Looks
from webhooks.netscaler import decisions, servers
from webhooks.netscaler.changes import Bind, Change, Target, bulk
from webhooks.netscaler.decisions import Wanted
from webhooks.netscaler.errors import (
    AlreadyExists,
    ForeignMember,
    NitroRefused,
    NoSuchResource,
    Unsettled,
)
from webhooks.netscaler.members import Mark
from webhooks.netscaler.pair import Pair, Unit
from webhooks.netscaler.replies import MemberRow, is_unsaved
from webhooks.netscaler.view import Members, View
from webhooks.shared.addresses import Address, IPAddress
from webhooks.shared.outcomes import Finished, Outcome, Unfinished


MOST_STEPS = 8
"""A member needs three steps at most; more means that somebody works against us."""


@attrs.frozen
class Listing:
    """Our members of a service group.

    Attributes:
        epoch: another one when members may have been lost.
        members: by address, each with its mark.
        loads: what is on each.
    """

    epoch: str
    members: Mapping[Address, tuple[Mark, MemberRow]]
    loads: Mapping[Address, int]

    def has_down(self) -> bool:
        """Tell whether a member is sent nothing that should be."""
        return any(row.enabled and not row.is_up for _, row in self.members.values())


NextStep = Callable[[Members, str], Change | Wanted | None]
"""What brings the member of a record on; Wanted: it is to be bound; None: nothing is."""


@attrs.define(eq=False)
class Group:
    """One service group of one pair.

    Attributes:
        pair: the units.
        name: of the group.
        prefix: marks of ours begin with it.
        pool: digest of the key that it is known by.
        look_period: how long what was listed may be told again.
    """

    pair: Pair
    name: str
    prefix: str
    pool: str = ""
    look_period: timedelta = LOOK_PERIOD
    _looks: Looks[Listing] = attrs.field(factory=Looks, init=False)
    _view: View = attrs.field(init=False)
    _tidy: set[Address] = attrs.field(factory=set, init=False)

    @_view.default
    def _new_view(self) -> View:
        """Return what looks at the group."""
        return View(self.pair, self.name)

    async def probe(self) -> None:
        """Find the group; changes nothing.

        Raises:
            NoSuchGroup: it is not there.
        """
        (await self._view.members()).check()

    async def ensure(self, wanted: Wanted) -> Outcome:
        """Put the member into the state that its parameters ask for.

        Raises:
            ForeignMember: somebody else bound the address.
            NoSuchGroup: there is nothing to be a member of.
            Unsettled: it does not stay as it was put.
        """
        last: NitroRefused | None = None
        for _ in range(MOST_STEPS):
            seen = await self._view.members()
            seen.check()
            member = seen.rows.get(wanted.address)
            try:
                if member is None:
                    await self._bind(seen.unit, wanted)
                    continue
                change = decisions.next_to_ensure(self.name, wanted, member)
                if change is None:
                    return _ensured(member)
                await self._make(seen.unit, change, wanted.address)
            except (AlreadyExists, NoSuchResource) as error:
                last = error  # somebody was faster: the next reading tells
        raise self._unsettled(wanted.address, last)

    async def drain(
        self, address: Address, record_id: str, until: datetime | None
    ) -> Outcome:
        """Stop new traffic, and tell what is left; gone members have nothing left.

        A member that stands for another record is left alone.
        """
        last: NitroRefused | None = None
        for _ in range(MOST_STEPS):
            seen = await self._view.members()
            found = self._ours(seen, address)
            if found is None:
                return Finished()
            target, member = found
            if target.mark.record_id != record_id:
                return _left_alone(target)
            now = self.pair.clock.now()
            delay = decisions.delay_until(until, now) if until else None
            change = decisions.next_to_drain(target, member, delay)
            if change is None:
                return await self._drained(address, member)
            try:
                await self._make(seen.unit, change, address)
            except NoSuchResource as error:
                last = error
        raise self._unsettled(address, last)

    async def deregister(
        self, address: Address, record_id: str, *, drained: bool
    ) -> Outcome:
        """Take the member out; done when that is on the appliance's disk, too.

        A member that stands for another record is left alone.
        """
        last: NitroRefused | None = None
        for _ in range(MOST_STEPS):
            seen = await self._view.members()
            found = self._ours(seen, address)
            if found is None:
                return await self._settled(seen.unit, address)
            target, member = found
            if target.mark.record_id != record_id:
                return _left_alone(target)
            left = await self._left(address) if drained else 0
            change = decisions.next_to_deregister(target, member, left, drained=drained)
            if change is None:
                return Unfinished(left, "it got connections after its drain")
            try:
                await self._make(seen.unit, change, address)
            except NoSuchResource as error:
                last = error
        raise self._unsettled(address, last)

    async def ensure_all(self, wanted: Mapping[str, Wanted]) -> Mapping[str, Outcome]:
        """Put members into the state that is asked for; return who is, by record.

        Who resists is left as it is: `ensure` tells why.

        Raises:
            NoSuchGroup: there is nothing to be a member of.
        """
        done: dict[str, Outcome] = {}

        def next_step(seen: Members, record: str) -> Change | Wanted | None:
            seen.check()
            one = wanted[record]
            member = seen.rows.get(one.address)
            if member is None:
                return one
            change = decisions.next_to_ensure(self.name, one, member)
            if change is None:
                done[record] = _ensured(member)
            return change

        of = {record: one.address for record, one in wanted.items()}
        await self._bring_on(of, next_step)
        return done

    async def drain_all(
        self, of: Mapping[str, Address], until: Mapping[str, datetime | None]
    ) -> Mapping[str, Outcome]:
        """Stop new traffic to members; tell of each what is left."""
        done: dict[str, Outcome] = {}
        draining: dict[str, MemberRow] = {}
        now = self.pair.clock.now()

        def next_step(seen: Members, record: str) -> Change | None:
            found = self._that_of(seen, of[record], record)
            if not isinstance(found, tuple):
                done[record] = found or Finished()
                return None
            target, member = found
            end = until[record]
            delay = decisions.delay_until(end, now) if end else None
            change = decisions.next_to_drain(target, member, delay)
            if change is None:
                draining[record] = member
            return change

        await self._bring_on(of, next_step)
        loads = await self._view.loads() if draining else {}
        for record, member in draining.items():
            done[record] = _drained(member, loads.get(of[record], 0))
        return done

    async def deregister_all(
        self, of: Mapping[str, Address], drained: Collection[str]
    ) -> Mapping[str, Outcome]:
        """Take members out; each is done when that is on the appliance's disk, too.

        Args:
            of: addresses by record.
            drained: those of the records that were drained to their end.
        """
        done: dict[str, Outcome] = {}
        out: dict[str, Address] = {}
        loads: Mapping[Address, int] = {}
        if drained:
            # Connections are read where members were read last: that is to be the unit
            # that is primary now, not the one before a failover.
            await self._view.members()
            loads = await self._view.loads()

        def next_step(seen: Members, record: str) -> Change | None:
            address = of[record]
            found = self._that_of(seen, address, record)
            if found is None:
                out[record] = address
                return None
            if not isinstance(found, tuple):
                done[record] = found
                return None
            left = loads.get(address, 0) if record in drained else 0
            change = decisions.next_to_deregister(
                *found, left, drained=record in drained
            )
            if change is None:
                done[record] = Unfinished(left, "it got connections after its drain")
            return change

        unit = await self._bring_on(of, next_step)
        left = await self._clean_up_all(unit, set(out.values()))
        for record, address in out.items():
            if address not in left:
                done[record] = await self._on_disk(unit, address)
        return done

    async def _bring_on(self, of: Mapping[str, Address], next_step: NextStep) -> Unit:
        """Read the group, change all members that have a next step, and again; none twice.

        Returns the unit that was primary at the end.
        """
        before: Mapping[str, Change | Wanted] = {}
        left = list(of)
        while True:
            seen = await self._view.members()
            steps: dict[str, Change | Wanted] = {}
            for record in left:
                with contextlib.suppress(ForeignMember):
                    step = next_step(seen, record)
                    if step is not None and step != before.get(record):
                        steps[record] = step
            if not steps:
                return seen.unit
            pairs = [(of[record], step) for record, step in steps.items()]
            await self._make_all(seen.unit, pairs)
            before, left = steps, list(steps)

    async def _make_all(
        self, unit: Unit, steps: Sequence[tuple[Address, Change | Wanted]]
    ) -> None:
        """Make changes by a bulk request for each kind; whatever comes of it is to be saved."""
        async with self.pair.changing():
            try:
                new = [step for _, step in steps if isinstance(step, Wanted)]
                kinds: dict[type, list[Change]] = {Bind: await self._binds(unit, new)}
                for _, step in steps:
                    if not isinstance(step, Wanted):
                        kinds.setdefault(type(step), []).append(step)
                for changes in filter(None, kinds.values()):
                    await unit.nitro.call_all(bulk(changes))
            finally:
                for address, _ in steps:
                    self._note(address)

    async def _binds(self, unit: Unit, new: Sequence[Wanted]) -> list[Change]:
        """Return how members are bound to the server objects that their addresses have."""
        ips = {one.address.ip for one in new}
        names: Mapping[IPAddress, str] = {}
        if ips:
            names = await servers.find_or_add_all(unit.nitro, self.prefix, ips)
        return [
            Bind(
                Target(self.name, names[one.address.ip], one.address.port, one.mark),
                one.options,
            )
            for one in new
            if one.address.ip in names
        ]

    async def _clean_up_all(
        self, unit: Unit, addresses: Collection[Address]
    ) -> Collection[Address]:
        """Remove server objects of members that are gone; return where it did not work."""
        todo = {one: one.ip for one in addresses if one not in self._tidy}
        if not todo:
            return ()
        async with self.pair.changing():
            removed = await servers.remove_all_unused(
                unit.nitro, self.prefix, set(todo.values())
            )
            for address, ip in todo.items():
                if ip in removed:
                    self.pair.ledger.note(self._key(address))
        left = [address for address, ip in todo.items() if not removed.get(ip, True)]
        self._tidy.update(todo.keys() - set(left))
        return left

    def _that_of(
        self, seen: Members, address: Address, record_id: str
    ) -> tuple[Target, MemberRow] | Outcome | None:
        """Return the member of a record; an Outcome: it is another one's; None: none is."""
        found = self._ours(seen, address)
        if found is not None and found[0].mark.record_id != record_id:
            return _left_alone(found[0])
        return found

    async def list_members(self) -> Listing:
        """Return our members, as they are or were a short while ago.

        Raises:
            NoSuchGroup: the group is gone.
        """
        return await self._looks.lately(
            self._look,
            self.pair.clock,
            self.look_period,
            has_down=Listing.has_down,
        )

    async def _look(self) -> Listing:
        """Look for our members."""
        seen, loads = await self._view.of_late()
        return Listing(seen.unit.epoch, seen.ours(self.prefix), loads)

    def _ours(self, seen: Members, address: Address) -> tuple[Target, MemberRow] | None:
        """Return a member; None: it is not there, or not ours."""
        found = seen.ours(self.prefix).get(address)
        if found is None:
            return None
        mark, row = found
        return Target(self.name, row.server, address.port, mark), row

    async def _drained(self, address: Address, member: MemberRow) -> Outcome:
        """Tell how far the drain of a disabled member is."""
        return _drained(member, await self._left(address))

    async def _settled(self, unit: Unit, address: Address) -> Outcome:
        """End the deregistration of a member that is gone."""
        await self._clean_up(unit, address)
        return await self._on_disk(unit, address)

    async def _on_disk(self, unit: Unit, address: Address) -> Outcome:
        """Tell whether the appliance would come up without a member that is gone."""
        ledger = self.pair.ledger
        if not ledger.knows_before:
            found = await unit.nitro.config("nsconfig")
            ledger.note_before(unsaved=is_unsaved(found))
        if ledger.is_saved(self._key(address)):
            ledger.forget(self._key(address))
            self._tidy.discard(address)
            return Finished()
        why = f": {ledger.trouble}" if ledger.trouble else ""
        return Unfinished(0, f"taken out, and waits for `save ns config`{why}")

    async def _clean_up(self, unit: Unit, address: Address) -> None:
        """Remove the server object of a member that is gone, once, if nobody has it."""
        if address in self._tidy:
            return
        async with self.pair.changing():
            if await servers.remove_unused(unit.nitro, self.prefix, address.ip):
                self.pair.ledger.note(self._key(address))
        self._tidy.add(address)

    async def _bind(self, unit: Unit, wanted: Wanted) -> None:
        """Bind a member, to the server object that its address has."""
        async with self.pair.changing():
            server = await servers.find_or_add(
                unit.nitro, self.prefix, wanted.address.ip
            )
            target = Target(self.name, server, wanted.address.port, wanted.mark)
            await self._call(unit, Bind(target, wanted.options), wanted.address)

    async def _make(self, unit: Unit, change: Change, address: Address) -> None:
        """Carry out a change, after those that others make just now."""
        async with self.pair.changing():
            await self._call(unit, change, address)

    async def _call(self, unit: Unit, change: Change, address: Address) -> None:
        """Carry out a change; whatever comes of it is to be saved."""
        try:
            await unit.nitro.call(change.call)
        finally:
            self._note(address)

    def _note(self, address: Address) -> None:
        """Have what was changed about a member saved, and looked at anew."""
        self._looks.note_change()
        self.pair.ledger.note(self._key(address))
        self._tidy.discard(address)

    def _key(self, address: Address) -> tuple[str, Address]:
        """Return what a member's changes are noted by."""
        return (self.name, address)

    async def _left(self, address: Address) -> int:
        """Return how many connections a member has."""
        return (await self._view.loads()).get(address, 0)

    def _unsettled(self, address: Address, last: NitroRefused | None) -> Unsettled:
        """Return the error for a member that does not come to rest."""
        why = str(last) if last else "does somebody else change it?"
        return Unsettled(
            f"{address} of service group {self.name} did not come to rest in "
            f"{MOST_STEPS} steps: {why}"
        )


def _drained(member: MemberRow, left: int) -> Outcome:
    """Return the outcome of the drain of a disabled member."""
    if decisions.is_drained(member, left):
        return Finished()
    return Unfinished(left, f"{member.svrstate.lower()}: connections are to end")


def _left_alone(target: Target) -> Outcome:
    """Return the outcome for a record that another one has succeeded at its address."""
    return Finished(f"left alone: {target} is that of {target.mark}")


def _ensured(member: MemberRow) -> Outcome:
    """Return the outcome for a member that is as it should be."""
    if member.is_overruled:
        return Unfinished(
            0, f"enabled, but out of service: is server {member.server} disabled?"
        )
    if member.enabled and not member.is_up:
        return Finished(
            f"{member.svrstate}: the group's monitors decide when it serves"
        )
    return Finished()
