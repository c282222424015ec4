"""What is under way at each member, as the Envoys report it (LRS). Pure."""

from collections.abc import Mapping

import attrs


INTERVAL = 0.5
"""Seconds between two reports of an Envoy while a member of its fleet drains."""

IDLE_INTERVAL = 10.0
"""The same while none does, and nobody needs them."""


@attrs.frozen
class Load:
    """What an Envoy had at one address.

    Attributes:
        active: requests under way, or connections where these are balanced.
        begun: those that began since the report before.
    """

    active: int
    begun: int


Report = Mapping[str, Mapping[str, Load]]
"""By cluster and address, of load balancers with a member that drains. An address that had
nothing is left out, a cluster that Envoy does not count yet as well: it begins with that only
at the report after it came."""


@attrs.define(eq=False)
class Reporting:
    """One stream of load reports; two that have reported the same are two.

    Attributes:
        report: the latest.
        at: when it came, in seconds of the monotonic clock; None: none did.
    """

    report: Report = attrs.field(factory=dict)
    at: float | None = None

    def take(self, report: Report, now: float) -> None:
        """Take a report."""
        self.report, self.at = report, now

    def left(self, name: str, address: str, since: float) -> int | None:
        """Return what an address had at a moment or later; None: no report says so."""
        if self.at is None or self.at < since or name not in self.report:
            return None
        load = self.report[name].get(address, Load(0, 0))
        return load.active or load.begun
