"""What the API server was asked, by whom: its audit log as values.

Tests count the writes of a controller here; see `controlplane.audit_policy`.
"""

import json

from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs


WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@attrs.frozen
class AuditEvent:
    """One request that the API server answered.

    Attributes:
        user: Who asked.
        agent: The client's User-Agent.
        verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, ...
        group: The API group of the object; empty for the core group.
        resource: The plural, with the subresource: `pods`, `pods/status`.
        namespace: The object's namespace, or empty.
        name: The object's name, or empty.
        code: The HTTP status of the answer.
        time: When the request came in, RFC 3339 with microseconds, UTC.
        answered: When it was answered; what was written is stored by then.
    """

    user: str
    agent: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    code: int
    time: str
    answered: str = ""

    @property
    def is_write(self) -> bool:
        """Whether the request changed something, or tried to."""
        return self.verb in WRITES


def read_audit(path: Path, user: str | None = None) -> list[AuditEvent]:
    """The events of a log, of one user if one is named; a half line is left out."""
    named = b"" if user is None else json.dumps(user, ensure_ascii=False).encode()
    found = (line for line in lines(path) if named in line) if path.exists() else ()
    events = [_parse(json.loads(line)) for line in found]
    return [event for event in events if user in (None, event.user)]


def lines(path: Path, since: int = 0) -> Iterator[bytes]:
    """The lines of a log from a place on, one at a time: with bodies they may be large."""
    with path.open("rb") as log:
        log.seek(since)
        for line in log:
            if line.endswith(b"\n"):
                yield line


def _parse(event: Mapping[str, object]) -> AuditEvent:
    """One event of the API audit.k8s.io/v1."""
    about = _part(event, "objectRef")
    resource = _text(about, "resource")
    if subresource := _text(about, "subresource"):
        resource = f"{resource}/{subresource}"
    code = _part(event, "responseStatus").get("code")
    return AuditEvent(
        user=_text(_part(event, "user"), "username"),
        agent=_text(event, "userAgent"),
        verb=_text(event, "verb"),
        group=_text(about, "apiGroup"),
        resource=resource,
        namespace=_text(about, "namespace"),
        name=_text(about, "name"),
        code=code if isinstance(code, int) else 0,
        time=_text(event, "requestReceivedTimestamp"),
        answered=_text(event, "stageTimestamp"),
    )


def _part(event: Mapping[str, object], name: str) -> Mapping[str, object]:
    """An object inside the event; empty when there is none."""
    part = event.get(name)
    return part if isinstance(part, dict) else {}


def _text(event: Mapping[str, object], name: str) -> str:
    """A text inside the event; empty when there is none."""
    return str(event.get(name, ""))
