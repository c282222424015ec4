"""What one cached object takes, measured on the very decoders and stores that run.

Objects are made as the API server writes them, managedFields and all, so that whatever
a decoder keeps of them beyond what it should shows.
"""

import gc
import json
import tracemalloc

from collections.abc import Callable
from typing import Any

from lbcf.controller.view import View
from lbcf.kube.list_watch import Put
from lbcf.kube.store import Store
from lbcf.wire.kube import parse_pod
from lbcf.wire.records import parse_record
from tests.e2e import objects
from tests.lab.bench.floor import a_record, a_status
from tests.lab.bench.ground import LABELS
from tests.lab.bench.verdict import Line


COUNT = 5_000
LIMIT = 4 * 1024


def a_pod_of_the_server(index: int) -> bytes:
    """A ready pod with what the API server adds."""
    name = f"web-6f5d8c9b7d-{index}"
    pod = objects.a_pod(name)
    pod["metadata"] |= _added(index, name) | {"labels": LABELS}
    address = f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}"
    return json.dumps(pod | objects.pod_status(address)).encode()


def a_record_of_the_server(index: int) -> bytes:
    """A registered record with what the API server adds."""
    record = a_record(index, "bench", "0e7c4a39-0c53-4a4f-93cf-0d3f7f5c2a11")
    record["metadata"] |= _added(index, record["metadata"]["name"])
    return json.dumps(record | a_status(index)).encode()


def _added(index: int, name: str) -> dict[str, Any]:
    """Return the metadata that the API server adds."""
    return {
        "name": name,
        "namespace": "bench",
        "uid": f"0e7c4a39-0c53-4a4f-93cf-{index:012x}",
        "resourceVersion": str(100_000 + index),
        "generation": 1,
        "creationTimestamp": "2025-01-01T00:00:00Z",
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
    }


def bytes_each(
    store: Store[Any], parse: Callable[[bytes], Any], make: Callable[[int], bytes]
) -> float:
    """Fill a store, and say how many bytes one object takes in it, with its indexes."""
    bodies = [make(index) for index in range(COUNT)]
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for body in bodies:
        store.apply(Put(parse(body)))
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / COUNT


def judge() -> list[Line]:
    """Compare a pod and a record in the controller's stores with the limit."""
    view = View()
    pod = bytes_each(view.pods, parse_pod, a_pod_of_the_server)
    record = bytes_each(view.records, parse_record, a_record_of_the_server)
    return [
        Line("bytes per cached pod", pod, LIMIT),
        Line("bytes per cached record", record, LIMIT),
    ]
