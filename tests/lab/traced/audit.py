"""Requests of the audit log with their bodies, about what the protocol lives by.

The cluster has to be started with `Options(audit_bodies=True)`.
"""

import json

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs

from tests.lab.cluster.audit import lines
from tests.lab.traced.moments import second


Body = Mapping[str, Any]
_PARTS = ("Status", "PartialObjectMetadata")
"""What is shown in the place of an object; the garbage collector reads metadata alone."""


@attrs.frozen
class Request:
    """A request that the API server has answered.

    Attributes:
        id: by which the log knows it.
        user: who asked.
        agent: the client's User-Agent.
        verb: get, create, update, patch or delete.
        resource: with the subresource.
        name: of the object.
        code: of the answer.
        began: when it had come in.
        ended: when the answer was sent; what was written is stored by then.
        sent: its body; empty: none.
        shown: the object of the answer; empty: none, or no success.
    """

    id: str
    user: str
    agent: str
    verb: str
    resource: str
    name: str
    code: int
    began: float
    ended: float
    sent: Body
    shown: Body

    @property
    def is_done(self) -> bool:
        """Whether it succeeded."""
        return 200 <= self.code < 300


def requests(path: Path, since: int, namespaces: Sequence[str]) -> Iterator[Request]:
    """Read the requests with bodies in some namespaces, from a place in the log on.

    Those by which nothing is to be stored are left out.

    Args:
        path: the log.
        since: how long it was when what is to be read began, in bytes.
        namespaces: in whose objects.
    """
    named = [f'"namespace":"{name}"'.encode() for name in namespaces]
    for line in lines(path, since):
        has_bodies = b'"level":"RequestResponse"' in line
        if has_bodies and any(name in line for name in named):
            event = json.loads(line)
            is_there = event["objectRef"].get("namespace") in namespaces
            if is_there and "dryRun=" not in event["requestURI"]:
                yield _request(event)


def _request(event: Body) -> Request:
    """Read one event of the API audit.k8s.io/v1."""
    about = event["objectRef"]
    parts = (about["resource"], about.get("subresource"))
    shown = event.get("responseObject", {})
    status = event.get("responseStatus", {}).get("code", 0)
    return Request(
        id=event["auditID"],
        user=event["user"]["username"],
        agent=event.get("userAgent", ""),
        verb=event["verb"],
        resource="/".join(part for part in parts if part),
        name=about.get("name") or shown.get("metadata", {}).get("name", ""),
        code=status,
        began=second(datetime.fromisoformat(event["requestReceivedTimestamp"])),
        ended=second(datetime.fromisoformat(event["stageTimestamp"])),
        sent=event.get("requestObject") or {},
        shown=shown if status < 300 and shown.get("kind") not in _PARTS else {},
    )
