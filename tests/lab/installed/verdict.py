"""What became of each request that failed: which member had it, and is it excused?

`__main__` reads the failures from the load generator and HAProxy's log from its pod; the
outages come from `acts`. One excuse there is: the request was with a pod of a node whose
power was cut, from then until the pod's record was gone.
"""

import re

from collections.abc import Mapping, Sequence

import attrs

from tests.lab.demo.traffic import FailedRequest


LOGGED = re.compile(r"^failed (?P<path>\S+) member=(?P<member>\S+) ")
NUMBER = re.compile(r"\bn=(\d+)")


@attrs.frozen
class Outage:
    """A node without power.

    Attributes:
        node: its name.
        began: moment of the cut.
        ended: moment from which none of its members was left.
        members: HAProxy's names of the members that were on it.
    """

    node: str
    began: float
    ended: float
    members: frozenset[str]


@attrs.frozen
class Lost:
    """A failed request, and what else is known of it.

    Attributes:
        failure: as the load generator has it.
        logged: HAProxy's line about it, empty for none.
        member: who had it, empty where nobody can tell.
    """

    failure: FailedRequest
    logged: str
    member: str

    def excused_by(self, outage: Outage) -> bool:
        """Tell whether it was with a member of a node that had just lost its power."""
        ended = self.failure.sent + self.failure.took_ms / 1000
        overlaps = ended >= outage.began and self.failure.sent <= outage.ended
        return overlaps and self.member in outage.members


def number_of(path: str) -> str:
    """Return a request's number, which its path has."""
    found = NUMBER.search(path)
    return found[1] if found else ""


def read_log(text: str) -> dict[str, str]:
    """Return HAProxy's lines about requests that went wrong, by the request's number."""
    lines = [line for line in text.splitlines() if LOGGED.match(line)]
    return {number_of(line): line for line in lines}


def examine(failures: Sequence[FailedRequest], logged: Mapping[str, str]) -> list[Lost]:
    """Put together what client and HAProxy know of each failed request.

    HAProxy names no member in an answer where it gives none: when the connection fails
    for a request that is not a client's first. Its log names it all the same.
    """
    found = []
    for failure in failures:
        line = logged.get(number_of(failure.path), "")
        told = LOGGED.match(line)
        member = failure.pod or (told["member"] if told else "")
        found.append(Lost(failure, line, member))
    return found


def unexcused(lost: Sequence[Lost], outages: Sequence[Outage]) -> list[Lost]:
    """Return the failures that count."""
    return [one for one in lost if not any(one.excused_by(o) for o in outages)]
