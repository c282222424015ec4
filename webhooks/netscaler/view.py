"""What a service group is like just now, read where it counts.

`group` looks through this before and after each change. Those who look at once share
what is read; nobody is shown what was read before he asked.
"""

from collections.abc import Mapping

import attrs

from lbcf.runtime.shared_call import SharedCall
from webhooks.netscaler.changes import BINDING, named
from webhooks.netscaler.errors import NoSuchGroup, NoSuchResource
from webhooks.netscaler.members import Mark
from webhooks.netscaler.pair import Pair, Unit
from webhooks.netscaler.replies import MemberRow, load_of, member_of, rows
from webhooks.shared.addresses import Address


@attrs.frozen
class Members:
    """The members of a service group, whoever bound them.

    Attributes:
        unit: where they were read; changes go there.
        group: name of the group.
        is_there: whether there is such a group.
        rows: by address.
    """

    unit: Unit
    group: str
    is_there: bool = True
    rows: Mapping[Address, MemberRow] = attrs.field(factory=dict)

    def check(self) -> None:
        """Let a group pass that is there.

        Raises:
            NoSuchGroup: it is not.
        """
        if not self.is_there:
            raise NoSuchGroup(
                f"there is no service group {self.group} on {self.unit.nitro.device}: "
                "make it, or correct `serviceGroup` of the load balancer"
            )

    def ours(self, prefix: str) -> Mapping[Address, tuple[Mark, MemberRow]]:
        """Return the members that have a mark of ours."""
        return {
            address: (mark, row)
            for address, row in self.rows.items()
            if (mark := Mark.read(prefix, row.mark)) is not None
        }


@attrs.define(eq=False)
class View:
    """Readings of one service group.

    Attributes:
        pair: the units.
        group: name of the group.
    """

    pair: Pair
    group: str
    _members: SharedCall[Members] = attrs.field(init=False)
    _loads: SharedCall[Mapping[Address, int]] = attrs.field(init=False)
    _unit: Unit | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        """Let those who ask at once share what is read."""
        self._members = SharedCall(self._read_members)
        self._loads = SharedCall(self._read_loads)

    async def members(self) -> Members:
        """Return the members as the primary has them now.

        Raises:
            DeviceError: it could not be asked.
        """
        return await self._members.since_now()

    async def loads(self) -> Mapping[Address, int]:
        """Return the connections of all members, where these were read last.

        Raises:
            DeviceError: it could not be asked.
        """
        return await self._loads.since_now()

    async def of_late(self) -> tuple[Members, Mapping[Address, int]]:
        """Return members and connections, where the primary was a moment ago.

        Raises:
            DeviceError: it could not be asked.
            NoSuchGroup: the group is not there.
        """
        members = await self._members_of(await self.pair.primary_of_late())
        members.check()
        return members, await self._loads_of(members.unit)

    async def _read_members(self) -> Members:
        """Read the group where it counts."""
        self._unit = unit = await self.pair.primary()
        return await self._members_of(unit)

    async def _members_of(self, unit: Unit) -> Members:
        """Read the group on a unit."""
        try:
            found = await unit.nitro.config(named(BINDING, self.group))
        except NoSuchResource:
            return Members(unit, self.group, is_there=False)
        members = filter(None, map(member_of, rows(found, BINDING)))
        return Members(unit, self.group, rows={row.address: row for row in members})

    async def _read_loads(self) -> Mapping[Address, int]:
        """Read the connections of all members in one answer, where it counts."""
        return await self._loads_of(self._unit or await self.pair.primary())

    async def _loads_of(self, unit: Unit) -> Mapping[Address, int]:
        """Read the connections of all members on a unit."""
        path = f"{named('servicegroup', self.group)}?statbindings=yes"
        try:
            found = rows(await unit.nitro.stat(path), "servicegroup")
        except NoSuchResource:
            return {}
        members = (row for group in found for row in rows(group, "servicegroupmember"))
        return dict(filter(None, map(load_of, members)))
