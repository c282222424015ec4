"""Connections through an appliance: when they end by themselves, and which were cut.

`unit` cuts what is left when a member goes; tests add connections and read the ledger.
"""

from collections.abc import Callable

import attrs


Key = tuple[str, str, int]
"""Names of the group and the server, and the port."""


@attrs.define
class Connection:
    """A client's connection to a member.

    Attributes:
        key: of the member.
        ends_at: when it ends by itself, in seconds of the appliance's clock.
        cut_at: when the appliance ended it; None: it has not.
    """

    key: Key
    ends_at: float
    cut_at: float | None = None

    def is_open(self, now: float) -> bool:
        """Tell whether it is open now."""
        return self.cut_at is None and now < self.ends_at


@attrs.define
class Traffic:
    """All connections of an appliance.

    Attributes:
        clock: seconds that never go back.
        connections: all that there were.
        failing: members that fail their health checks.
        pooled: idle connections to servers, which no client waits for.
    """

    clock: Callable[[], float]
    connections: list[Connection] = attrs.field(factory=list)
    failing: set[Key] = attrs.field(factory=set)
    pooled: dict[Key, int] = attrs.field(factory=dict)

    def open(self, key: Key, seconds: float) -> Connection:
        """Open a connection that ends by itself after so many seconds."""
        connection = Connection(key, self.clock() + seconds)
        self.connections.append(connection)
        return connection

    def count(self, key: Key) -> int:
        """Return how many connections a member has now."""
        now = self.clock()
        return sum(one.key == key and one.is_open(now) for one in self.connections)

    def cut(self, key: Key) -> None:
        """End all connections of a member."""
        now = self.clock()
        for one in self.connections:
            if one.key == key and one.is_open(now):
                one.cut_at = now

    def finish(self, key: Key) -> None:
        """Let all connections of a member end by themselves, now."""
        now = self.clock()
        for one in self.connections:
            if one.key == key and one.is_open(now):
                one.ends_at = now
