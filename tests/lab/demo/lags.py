"""How long after registration pods become Ready, and after deregistration get SIGTERM.

Both from the API server's audit log, and from what pods tell of themselves (`sigterms`): all
by the clock of one machine, and not late where the demo itself is. Registered, and an open
gate, count from the moment at which the write was answered, for before that nobody can know
of them; the end of a record from the moment at which the request came in.
"""

import math

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import attrs

from tests.lab.cluster import AuditEvent


REFUSED = 400
STATUS = "backendrecords/status"
RECORDS = "backendrecords"
PODS = "pods/status"

PodOf = Callable[[str], str]
"""Names the pod of a record, by the record's name; empty: of none that counts."""


@attrs.frozen
class Lags:
    """The two of a run.

    Attributes:
        gate_p99_ms: from the last Registered of a pod to its readiness gate; None where no
            pod had one.
        sigterm_p99_ms: from the end of a pod's last record to its SIGTERM; None where no
            pod could tell.
        early: pods that got SIGTERM while a record named them.
    """

    gate_p99_ms: float | None = None
    sigterm_p99_ms: float | None = None
    early: tuple[str, ...] = ()


def percentile_ms(lags: Iterable[float], share: float = 0.99) -> float | None:
    """What `share` of these did not exceed, of seconds in milliseconds; None of none."""
    ordered = sorted(lags)
    if not ordered:
        return None
    return round(1000 * ordered[math.ceil(share * len(ordered)) - 1], 1)


def gate_lags(events: Iterable[AuditEvent], pod_of: PodOf) -> dict[str, float]:
    """How long after the last write of a record's status each pod's gate was opened.

    That write is the one that says Registered. Where the driver answers `inService: false`
    the first checks of its load balancer are part of the time.

    Args:
        events: those of the controller, in the log's order.
        pod_of: see `PodOf`.
    """
    last: dict[str, float] = {}
    lags: dict[str, float] = {}
    for event in events:
        if event.verb != "patch" or event.code >= REFUSED:
            continue
        if event.resource == STATUS and (pod := pod_of(event.name)) not in lags:
            last[pod] = moment(event.answered)
        elif event.resource == PODS and event.name in last:
            lags.setdefault(event.name, moment(event.answered) - last[event.name])
    return lags


def sigterm_lags(
    events: Iterable[AuditEvent],
    owners: Mapping[str, str],
    living: Iterable[str],
    sigterms: Mapping[str, float],
) -> dict[str, float]:
    """How long after the end of its last record each pod got SIGTERM; below 0: before.

    Args:
        events: those of the deregistrar; its last write of a record lets it go.
        owners: the pod of each record there ever was, by the record's name.
        living: names of the records that exist.
        sigterms: moments in seconds since 1970, by pod.
    """
    ends: dict[str, float] = {}
    for event in events:
        if event.resource == RECORDS and event.is_write and event.code < REFUSED:
            ends[event.name] = moment(event.time)
    ends |= dict.fromkeys(living, math.inf)
    gone: dict[str, float] = defaultdict(float)
    for record, pod in owners.items():
        gone[pod] = max(gone[pod], ends.get(record, 0.0))
    return {pod: at - gone[pod] for pod, at in sigterms.items() if gone.get(pod)}


def moment(time: str) -> float:
    """RFC 3339 in seconds since 1970."""
    return datetime.fromisoformat(time).timestamp()
