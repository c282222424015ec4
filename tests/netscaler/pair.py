"""Two appliances that stand in for each other.

The primary hands each change on, and its saving; a failover makes the other one
primary. What is changed on a secondary stays there, and is lost when it synchronises.
"""

import attrs

from tests.netscaler.unit import Unit


@attrs.define(eq=False)
class HaPair:
    """A high-availability pair.

    Attributes:
        first: primary in the beginning.
        second: the other.
        synchronised: whether changes are handed on.
    """

    first: Unit
    second: Unit
    synchronised: bool = True

    def __attrs_post_init__(self) -> None:
        """Give the units their roles."""
        self.second.role = "Secondary"
        for unit in (self.first, self.second):
            unit.in_pair = True
            unit.hand_on = self._hand_on

    @property
    def primary(self) -> Unit:
        """The one that is in charge."""
        return self.first if self.first.role == "Primary" else self.second

    @property
    def secondary(self) -> Unit:
        """The one that is not."""
        return self.second if self.first.role == "Primary" else self.first

    def fail_over(self) -> None:
        """Have the units change their roles; connections do not survive it."""
        for key in list(self.primary.running.members):
            self.primary.traffic.cut(key)
        old, new = self.primary, self.secondary
        old.role, new.role = "Secondary", "Primary"
        if self.synchronised:
            old.running = new.running.copy()

    def _hand_on(self) -> None:
        """Have the secondary do what the primary did."""
        if self.synchronised:
            self.secondary.running = self.primary.running.copy()
            self.secondary.saved = self.primary.saved.copy()
