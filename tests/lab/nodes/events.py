"""What one thing that happened to a node cost, and what it broke.

`bench` takes the readings, `script` says what is to be expected of each; `page` puts
them into a table.
"""

import math
import re

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from tests.lab.demo.traffic import FailedRequest


_SERVED = re.compile(r' pods/(\S+) .*"[A-Z]+ (\S+) HTTP/[^"]*"$', re.MULTILINE)
"""A request's member and path, in HAProxy's log; `<NOSRV>` where it came to none."""


@attrs.frozen
class Reading:
    """All that is counted, at one moment.

    Attributes:
        at: seconds of the machine's monotonic clock.
        calls: of drivers, by operation; `listBackends` is by period and left out.
        writes: to the API server, by the controller and the deregistrar, by verb and
            resource.
        created: node of each record that was made, in order.
        removed: node and reason of each record that was deleted, in order.
    """

    at: float
    calls: Mapping[str, int]
    writes: Mapping[str, int]
    created: Sequence[str]
    removed: Sequence[tuple[str, str]]


@attrs.frozen
class Event:
    """Something that happened, from its beginning to the beginning of the next one.

    Attributes:
        name: what was done.
        local: the Service's externalTrafficPolicy was Local.
        lost: the node whose connections may fail, empty for none: it lost power or network,
            or its kube-proxy drops what comes since no pod there is ready.
        reasons: for which records are to be deleted, by node, in any order.
        before: the readings at its beginning.
        after: and when all had settled.
        until: when the load balancer had been told to send nothing there any more, in
            seconds of the machine's monotonic clock; what was sent later may not fail.
    """

    name: str
    local: bool
    lost: str
    reasons: tuple[tuple[str, str], ...]
    before: Reading
    after: Reading
    until: float = math.inf

    @property
    def calls(self) -> Counter[str]:
        """How often the driver was called, by operation."""
        return Counter(self.after.calls) - Counter(self.before.calls)

    @property
    def writes(self) -> Counter[str]:
        """How often the API server was written to, by verb and resource."""
        return Counter(self.after.writes) - Counter(self.before.writes)

    @property
    def removed(self) -> tuple[tuple[str, str], ...]:
        """Which records were deleted, by node and reason."""
        return tuple(self.after.removed[len(self.before.removed) :])

    @property
    def created(self) -> tuple[str, ...]:
        """For which nodes records were made."""
        return tuple(self.after.created[len(self.before.created) :])

    def complaints(self) -> list[str]:
        """Say what is not as it should be, about records and calls."""
        found = []
        if sorted(self.removed) != sorted(self.reasons):
            found.append(f"records deleted: {self.removed}, expected {self.reasons}")
        # Minimal: one ensure for each that came, one deregister for each that went.
        # A drain asks again as long as requests are under way, so it has no number.
        wanted = {
            "ensureBackend": len(self.created),
            "deregisterBackend": len(self.reasons),
        }
        for operation, number in wanted.items():
            if self.calls[operation] != number:
                calls = self.calls[operation]
                found.append(f"{operation} called {calls} times, expected {number}")
        if bool(self.calls["drainBackend"]) != bool(self.reasons):
            found.append(f"drainBackend called {self.calls['drainBackend']} times")
        at_rest = not (self.created or self.removed)
        if at_rest and self.writes:
            found.append(f"writes to the API server for nothing: {dict(self.writes)}")
        return [f"{self.name}: {text}" for text in found]


@attrs.frozen
class Damage:
    """What became of the requests of one event.

    Attributes:
        requests: answered or failed.
        failed: those that nothing excuses.
        excused: failed on a connection through the lost node.
    """

    requests: int
    failed: tuple[FailedRequest, ...]
    excused: int


def damages(
    events: Sequence[Event],
    moments: Sequence[float],
    failures: Sequence[FailedRequest],
    members: Mapping[str, str],
) -> list[Damage]:
    """Say what became of the requests, event by event.

    Args:
        events: in order.
        moments: when each request was sent.
        failures: those that failed.
        members: node of each member that there ever was, by its name at HAProxy.
    """
    begins = [event.before.at for event in events]
    requests = Counter(bisect_right(begins, moment) - 1 for moment in moments)
    excused: Counter[int] = Counter()
    failed: defaultdict[int, list[FailedRequest]] = defaultdict(list)
    for failure in failures:
        first = bisect_right(begins, failure.sent) - 1
        # One that was under way when the power went failed by that, too.
        last = bisect_right(begins, failure.sent + failure.took_ms / 1000) - 1
        node = members.get(failure.pod, "?")
        cause = next(
            (
                n
                for n in range(first, last + 1)
                if events[n].lost == node and failure.sent <= events[n].until
            ),
            None,
        )
        if cause is None:
            failed[first].append(failure)
        else:
            excused[cause] += 1
    return [
        Damage(requests[n], tuple(failed[n]), excused[n]) for n in range(len(events))
    ]


def named(failures: Iterable[FailedRequest], log: str) -> Iterator[FailedRequest]:
    """Name the members of failed requests whose answers do not.

    HAProxy answers nothing where it ends a connection that it was still making, as it does
    when a member is deregistered whose node does not exist any more. Its log names the member.

    Args:
        failures: requests, each with a path of its own.
        log: of HAProxy, in its `httplog` format.
    """
    served = {path: member for member, path in _SERVED.findall(log)}
    for failure in failures:
        yield attrs.evolve(failure, pod=failure.pod or served.get(failure.path, ""))
