"""What waits, in fair order: groups take turns, whatever number of items each has.

A namespace is the usual group. `queue`, `semaphore` and `limiter` wait in here, so that
thousands of items of one group put off an item of another group by one item.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

import attrs


T = TypeVar("T", bound=Hashable)


class FairQueue(Generic[T]):
    """Items by group (round-robin), in a group by rank, among equals by arrival.

    `len()` is the number of items, `in` tells whether one waits.

    Args:
        in_a_row: how many items of the lowest rank a group may be served in a row while
            others of it wait; None: any number.
    """

    def __init__(self, *, in_a_row: int | None = None) -> None:
        self._in_a_row = in_a_row
        self._groups: OrderedDict[Hashable, _Group[T]] = OrderedDict()
        self._places: dict[T, tuple[Hashable, int]] = {}
        self._first = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, item: T) -> bool:
        return item in self._places

    def add(self, item: T, group: Hashable = None, rank: int = 0) -> None:
        """Add an item; one that waits already keeps its place, or gets a better rank.

        Args:
            item: what waits.
            group: whose it is; an item never changes its group while it waits.
            rank: the smaller, the sooner; 0 is the lowest.
        """
        place = self._places.get(item)
        if place is not None:
            if place[1] <= rank:
                return
            self.discard(item)
        self._places[item] = (group, rank)
        self._first += rank == 0
        found = self._groups.get(group)
        if found is None:
            found = self._groups[group] = _Group()
        found.add(item, rank)

    def discard(self, item: T) -> None:
        """Remove an item, if it waits."""
        place = self._places.pop(item, None)
        if place is None:
            return
        group, rank = place
        self._first -= rank == 0
        rows = self._groups[group]
        rows.remove(item, rank)
        if not rows.ranks:
            del self._groups[group]

    def pop(self, *, first_only: bool = False) -> T | None:
        """Take the next item.

        Args:
            first_only: only items of rank 0 may be taken.

        Returns:
            The item; None: there is none.
        """
        if not (self._first if first_only else self._places):
            return None
        if first_only:
            group = next(g for g, rows in self._groups.items() if 0 in rows.ranks)
        else:
            group = next(iter(self._groups))
        rows = self._groups[group]
        item = rows.pop(None if first_only else self._in_a_row)
        self._first -= self._places.pop(item)[1] == 0
        if rows.ranks:
            self._groups.move_to_end(group)
        else:
            del self._groups[group]
        return item


@attrs.define(eq=False)
class _Group(Generic[T]):
    """The items of one group.

    Attributes:
        ranks: items by rank, none of them empty. Plain dicts would make taking the first
            item slow: they scan over the places of those taken before.
        in_a_row: how many of the lowest rank were taken while others waited.
    """

    ranks: dict[int, OrderedDict[T, None]] = attrs.field(factory=dict)
    in_a_row: int = 0

    def add(self, item: T, rank: int) -> None:
        """Add an item behind its equals."""
        row = self.ranks.get(rank)
        if row is None:
            row = self.ranks[rank] = OrderedDict()
        row[item] = None

    def remove(self, item: T, rank: int) -> None:
        """Take an item out."""
        row = self.ranks[rank]
        del row[item]
        if not row:
            del self.ranks[rank]

    def pop(self, most_in_a_row: int | None) -> T:
        """Take the first item of the lowest rank, or of the next one when it is due."""
        rank = min(self.ranks)
        if len(self.ranks) == 1:
            self.in_a_row = 0
        elif most_in_a_row is not None:
            if self.in_a_row >= most_in_a_row:
                rank = min(other for other in self.ranks if other != rank)
                self.in_a_row = 0
            else:
                self.in_a_row += 1
        row = self.ranks[rank]
        item, _ = row.popitem(last=False)
        if not row:
            del self.ranks[rank]
        return item
