"""One pod or node that was asked about, with all that has been written of it.

Before it: `reading`. After it: `backends` goes through the groups that mean it.
"""

import attrs

from lbcf.core.model.cluster import Pod
from lbcf.core.model.node_backends import NodeBackend, ServiceBackend
from lbcf.core.model.nodes import Node
from lbcf.core.model.resources import BackendGroup, BackendRecord, PodBackend
from lbcf.core.model.values import ObjectKey
from lbcf.ctl.flags import Kind
from lbcf.ctl.reading import Reading


@attrs.frozen
class Backend:
    """What is asked about.

    Attributes:
        kind: pod or node.
        found: the object, None where it is gone.
        records: what has been written of it, by name.
    """

    kind: Kind
    name: str
    found: Pod | Node | None
    records: tuple[BackendRecord, ...]

    @property
    def judged_as(self) -> str:
        """Say under which key it is judged."""
        if isinstance(self.found, Pod):
            return self.found.meta.uid
        return self.name

    def records_of(self, group: BackendGroup) -> list[BackendRecord]:
        """Find the records that a group has of it."""
        return [one for one in self.records if one.group == group.meta.key]


def recorded(
    reading: Reading, kind: Kind, key: ObjectKey, found: Pod | Node | None
) -> Backend:
    """Find the records of a pod or node, also those whose group has gone."""
    records = sorted(reading.view.records.values(), key=lambda record: record.meta.key)
    return Backend(
        kind,
        key.name,
        found,
        tuple(
            record
            for record in records
            if key.namespace in {"", record.meta.key.namespace}
            and _named_by(record, kind) == key.name
        ),
    )


def _named_by(record: BackendRecord, kind: Kind) -> str:
    """Name the pod, or the node, that a record is about; empty: it is about none."""
    match record.spec.backend:
        case PodBackend(name=name) if kind is Kind.POD:
            return name
        case ServiceBackend(node=name) | NodeBackend(name=name) if kind is Kind.NODE:
            return name
        case _:
            return ""
