"""Reads the API server's audit log as it grows: who asked for what, and when.

`tests.lab.cluster.audit` reads a whole log; here it has hundreds of thousands of lines, is
read by the second, and the moments count.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import attrs
import msgspec

from tests.lab.cluster.audit import WRITES


class _User(msgspec.Struct):
    """Who asked."""

    username: str = ""


class _About(msgspec.Struct):
    """What it was about."""

    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Answer(msgspec.Struct):
    """What came of it."""

    code: int = 0


class _Line(msgspec.Struct, rename="camel"):
    """A line of the log."""

    verb: str
    user: _User
    request_received_timestamp: datetime
    stage_timestamp: datetime
    object_ref: _About = msgspec.field(default_factory=_About)
    response_status: _Answer = msgspec.field(default_factory=_Answer)


@attrs.frozen
class Entry:
    """A request that was answered.

    Attributes:
        resource: plural, with the subresource: `pods/status`.
        received: seconds since the epoch.
        answered: the same.
    """

    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    received: float
    answered: float

    @property
    def is_write(self) -> bool:
        """Tell whether it changed something, or tried to."""
        return self.verb in WRITES

    @property
    def what(self) -> str:
        """Say verb and resource."""
        return f"{self.verb} {self.resource}"


_decode = msgspec.json.Decoder(_Line).decode


class Ledger:
    """All requests since the log began, of those users that are looked at.

    Args:
        path: the audit log.
        users: whose requests are kept.
    """

    def __init__(self, path: Path, users: Iterable[str]) -> None:
        self._path = path
        self._users = frozenset(users)
        self._offset = 0
        self.entries: list[Entry] = []

    def read(self) -> int:
        """Take in what is new; returns how many requests are known now."""
        with self._path.open("rb") as log:
            log.seek(self._offset)
            text = log.read()
        whole = text.rfind(b"\n") + 1
        self._offset += whole
        for line in text[:whole].splitlines():
            entry = _entry(_decode(line))
            if entry.user in self._users:
                self.entries.append(entry)
        return len(self.entries)

    def since(self, position: int) -> list[Entry]:
        """Return the requests from a position on."""
        return self.entries[position:]


def _entry(line: _Line) -> Entry:
    """Take from a line what is needed."""
    about = line.object_ref
    resource = about.resource
    if about.subresource:
        resource = f"{resource}/{about.subresource}"
    return Entry(
        user=line.user.username,
        verb=line.verb,
        resource=resource,
        namespace=about.namespace,
        name=about.name,
        code=line.response_status.code,
        received=line.request_received_timestamp.timestamp(),
        answered=line.stage_timestamp.timestamp(),
    )


def counted(entries: Iterable[Entry]) -> dict[str, int]:
    """Count requests by verb and resource; the elections of leaders are left out."""
    found = Counter(e.what for e in entries if e.resource != "leases")
    return dict(sorted(found.items()))
