"""What was seen of a run, as values: of records on their way, and of the driver.

`gateway` notes what our processes were told of records, and which of their writes let
one go; `witness` notes what reached the driver and what it changed. `oracle` judges the
two together. All moments are seconds of this program's monotonic clock. A call without
an end has an unknown one: whatever it may still do counts as possible.
"""

from collections.abc import Mapping
from typing import Any, Self

import attrs

from lbcf.core.model.names import FINALIZER_RECORD


@attrs.frozen
class Sight:
    """A version of a record, when it was on its way to one of our processes.

    Nobody can know more of a record, or earlier, than what was on its way by then.

    Attributes:
        address: the one that it names, in its spec or its status.
        held: our finalizer is on it.
    """

    at: float
    uid: str
    name: str
    address: str
    deleting: bool = False
    held: bool = True
    registered: bool = False

    @classmethod
    def of(cls, at: float, body: Mapping[str, Any]) -> Self:
        """Read a record."""
        meta, status = body["metadata"], body.get("status", {})
        conditions = {c["type"]: c["status"] for c in status.get("conditions", [])}
        return cls(
            at=at,
            uid=meta["uid"],
            name=meta["name"],
            address=status.get("backendAddr") or body["spec"].get("backendAddr", ""),
            deleting="deletionTimestamp" in meta,
            held=FINALIZER_RECORD in meta.get("finalizers", []),
            registered=conditions.get("Registered") == "True",
        )


@attrs.frozen
class Release:
    """A write that took our finalizer off a record, and succeeded."""

    uid: str
    began: float
    ended: float


@attrs.define
class Call:
    """A call that reached the driver's own code.

    Attributes:
        ended: None as long as it has not.
        outcome: a status, or the name of an exception.
    """

    operation: str
    uid: str
    address: str
    began: float
    ended: float | None = None
    outcome: str = ""


@attrs.frozen
class Effect:
    """A change of the members of the load balancer.

    Attributes:
        ensured: it was put there, or renewed; else it was taken out.
        by: uid of the record in whose name that was.
        before: uid of the record that had put it there; empty where it was not there.
    """

    at: float
    ensured: bool
    address: str
    by: str
    before: str = ""


@attrs.frozen
class Member:
    """A member of the load balancer in the end."""

    address: str
    uid: str
    parameters: Mapping[str, str] = attrs.Factory(dict)
    active: bool = True


@attrs.frozen
class History:
    """All that was seen of one run.

    Attributes:
        by_record: members are told apart by their records, else by their addresses.
    """

    by_record: bool
    sights: tuple[Sight, ...] = ()
    releases: tuple[Release, ...] = ()
    calls: tuple[Call, ...] = ()
    effects: tuple[Effect, ...] = ()


@attrs.define
class Journal:
    """Gathers what becomes a `History`."""

    sights: list[Sight] = attrs.Factory(list)
    releases: list[Release] = attrs.Factory(list)
    calls: list[Call] = attrs.Factory(list)
    effects: list[Effect] = attrs.Factory(list)

    def history(self, *, by_record: bool) -> History:
        """Return what there is by now."""
        return History(
            by_record=by_record,
            sights=tuple(self.sights),
            releases=tuple(self.releases),
            calls=tuple(self.calls),
            effects=tuple(self.effects),
        )
