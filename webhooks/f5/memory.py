"""What the driver remembers of a load balancer, to see that a unit forgot.

Changes are live at once and on disk a while later; a pair's other unit has them when it
was brought up to date. A reboot or a failover in between loses them: members that we
put in are gone, and members that we took out are back. `load_balancers` looks for both
each time it lists, and the controller hears of the first by another epoch.

All of it is lost with the driver: so each run of it has epochs of its own, and the
controller has every member ensured once more.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

import attrs

from webhooks.device.devices import Device
from webhooks.device.looks import Looks
from webhooks.f5.names import Address
from webhooks.f5.pool import Listed


MOST_GONE = 10_000
"""Records that are remembered as taken out; a record's id never comes again."""


@attrs.frozen
class Listing:
    """Our members, and the memory that has them.

    Attributes:
        epoch: another one after members were lost.
        members: those that are to be there.
    """

    epoch: str
    members: Sequence[Listed]

    def has_down(self) -> bool:
        """Tell whether monitors keep a member from serving."""
        return any(one.member.is_down for one in self.members)


@attrs.define(eq=False)
class Memory:
    """Of one load balancer.

    Attributes:
        losses: how many times the unit had lost members.
        looks: the last listing, and changes that the driver makes.
    """

    losses: int = 0
    looks: Looks[Listing] = attrs.field(factory=Looks)
    _interruptions: tuple[Device, int] | None = attrs.field(default=None, init=False)
    _put: set[tuple[Address, str]] = attrs.field(factory=set, init=False)
    _gone: OrderedDict[tuple[Address, str], None] = attrs.field(
        factory=OrderedDict, init=False
    )

    def wants(self, address: Address, record_id: str) -> None:
        """Note, before it is put in, that a member is not to be taken out again."""
        self.looks.note_change()
        self._gone.pop((address, record_id), None)

    def has_put(self, address: Address, record_id: str) -> None:
        """Note that a member is in."""
        self.looks.note_change()
        self._put.add((address, record_id))

    def takes_out(self, address: Address, record_id: str) -> None:
        """Note, before it is taken out, that a member is not missed."""
        self.looks.note_change()
        self._put.discard((address, record_id))

    def has_taken_out(self, address: Address, record_id: str) -> None:
        """Note that a member is out, for good."""
        self.looks.note_change()
        self._gone[(address, record_id)] = None
        if len(self._gone) > MOST_GONE:
            self._gone.popitem(last=False)

    def changes(self) -> None:
        """Note that a member is about to be changed, or was."""
        self.looks.note_change()

    def is_gone(self, address: Address, record_id: str) -> bool:
        """Tell whether a member that is there should not be."""
        return (address, record_id) in self._gone

    def expected(self) -> AbstractSet[tuple[Address, str]]:
        """Return what should be there; ask before the members are read."""
        return frozenset(self._put)

    def compare(
        self,
        expected: AbstractSet[tuple[Address, str]],
        seen: Iterable[tuple[Address, str]],
        interruptions: tuple[Device, int],
    ) -> bool:
        """Forget what is missing: it was expected, still is, and was not seen.

        Args:
            expected: as it was before the members were read.
            seen: those that were read.
            interruptions: the unit, and how many it had. Without another one since
                the last look nobody but people can have taken members out, and those
                know why; after a failover it is another unit, or has had one more.

        Returns:
            Whether members were lost.
        """
        missing = (expected & self._put) - set(seen)
        self._put -= missing
        lost = bool(missing) and interruptions != self._interruptions
        self._interruptions = interruptions
        self.losses += lost
        return lost
