"""Makes records as the controller leaves them when they are registered.

Names, labels and spec are those that the controller's own plan gives them, status and the
API server's metadata are a really registered record's. So a controller that starts finds
nothing to do.
"""

import json
import uuid

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from lbcf.core.model.cluster import Attachment, Snapshot
from lbcf.core.model.shards import record_labels
from lbcf.core.model.values import ObjectKey
from lbcf.core.selection.plan import plan_group
from lbcf.kube.kinds import GROUPS
from lbcf.wire.records import render_new_record


@attrs.frozen
class Sample:
    """What was really made, of each kind one, as the API server has it.

    Attributes:
        balancer: a load balancer that its driver has made.
        group: one of all of whose backends are registered.
        record: one of its records.
    """

    balancer: Mapping[str, Any]
    group: Mapping[str, Any]
    record: Mapping[str, Any]

    def balancer_of(self, namespace: str) -> dict[str, Any]:
        """Return the load balancer of a namespace, of the same name."""
        return _like(self.balancer, {"namespace": namespace})

    def group_of(self, key: ObjectKey, addresses: Sequence[str]) -> dict[str, Any]:
        """Return a group with as many addresses, all registered."""
        found = _like(self.group, key._asdict())
        return {**found, "spec": {**found["spec"], "static": list(addresses)}}

    def record_of(self, new: Mapping[str, Any]) -> dict[str, Any]:
        """Return a new record as one that is registered."""
        status = json.dumps(self.record["status"])
        old, address = (body["spec"]["backendAddr"] for body in (self.record, new))
        told = json.loads(status.replace(old, address))
        found = _like(self.record, new["metadata"])
        return {**found, "spec": new["spec"], "status": told}


def _like(body: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object like another one, with a uid of its own."""
    identity = {"uid": str(uuid.uuid4())}
    return {**body, "metadata": {**body["metadata"], **metadata, **identity}}


def registered(
    sample: Sample, body: Mapping[str, Any], attachment: Attachment
) -> Iterator[dict[str, Any]]:
    """Yield all records of a group that has none yet, at its one load balancer."""
    group = GROUPS.parse(json.dumps(body).encode())
    name = attachment.load_balancer.meta.key.name
    snapshot = Snapshot(group, {name: attachment}, {}, pods=(), records=())
    for create in plan_group(snapshot).creates:
        key = ObjectKey(group.meta.key.namespace, create.name)
        labels = record_labels(key, create.desired.address)
        yield sample.record_of(render_new_record(create.desired, create.name, labels))
