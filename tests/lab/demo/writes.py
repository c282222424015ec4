"""How many writes a record's life costs, from the API server's audit log.

Counted are the requests of the controller's and the deregistrar's users, each of which
has a name of its own there. A lifecycle is a record that was created and is gone: what
was written to such records, divided by their number, is `per_lifecycle`. Writes to
records that still exist are left out, so that half lives do not make it look better or
worse. A quiet life costs four: create, Registered, delete, finalizer. A drain that has
to wait costs one more, and each reload of HAProxy that a record lives through two, as it is
registered again.

Told apart, and not in that figure: writes that the API server refused (a conflict, most
of the time), and writes to anything else: leases, events, and the status of groups,
load balancers and drivers.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import attrs

from tests.lab.cluster import AuditEvent


RECORDS = "backendrecords"
REFUSED = 400
SEPARATE = ("leases", "events")


@attrs.frozen
class Writes:
    """What was written.

    Attributes:
        lifecycles: records that were created and are gone.
        records: successful writes to those records, by user, verb and subresource.
        refused: writes to records that the API server refused.
        elsewhere: successful writes to `leases`, `events` and `other` things.
    """

    lifecycles: int
    records: Mapping[str, int]
    refused: int
    elsewhere: Mapping[str, int]

    @property
    def per_lifecycle(self) -> float:
        """Successful writes for each lifecycle; 0 where there was none."""
        return sum(self.records.values()) / self.lifecycles if self.lifecycles else 0.0


def count_writes(
    events: Iterable[AuditEvent], users: Collection[str], finished: Collection[str]
) -> Writes:
    """Count what these users wrote.

    Args:
        events: the audit log.
        users: the users of our processes.
        finished: the name of each record that is gone; a name twice is two lives.
    """
    names = frozenset(finished)
    records: Counter[str] = Counter()
    elsewhere: Counter[str] = Counter(dict.fromkeys((*SEPARATE, "other"), 0))
    refused = 0
    for event in events:
        if event.user not in users or not event.is_write:
            continue
        plural, _, subresource = event.resource.partition("/")
        if plural != RECORDS:
            if event.code < REFUSED:
                elsewhere[plural if plural in SEPARATE else "other"] += 1
        elif event.code >= REFUSED:
            refused += 1
        elif event.name in names:
            records[f"{event.user} {event.verb} {subresource}".strip()] += 1
    return Writes(len(finished), records, refused, elsewhere)
