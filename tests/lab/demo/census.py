"""What the cluster holds: the demo's pods, and the life of every record.

Pods are listed once a second, records are watched: what happens to a record between two
looks matters, as each must be counted. `screen` shows it, `verdict` counts it.
"""

import asyncio

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tests.lab.demo.api import Api
from tests.lab.demo.errors import DemoError


PODS = "/api/v1/namespaces/{namespace}/pods"
RECORDS = "/apis/lbcf.tkestack.io/v1beta1/namespaces/{namespace}/backendrecords"
INTERVAL = 1.0

REGISTERED = "Registered"
PENDING = "Pending"
DRAINING = "Draining"
DEREGISTERING = "Deregistering"


@attrs.frozen
class Pod:
    """A pod of the web app: its name, its node, and whether it is ready or leaving."""

    name: str
    node: str
    ready: bool
    terminating: bool


@attrs.frozen
class Record:
    """A BackendRecord, as far as the demo looks at it.

    Attributes:
        uid: tells it from another one of the same name.
        name: its name.
        state: one of the four states above.
        reason: what its conditions say about that, for people.
        waited: its drain had to wait, and said so.
        pod: the name of its pod.
    """

    uid: str
    name: str
    state: str
    reason: str
    waited: bool
    pod: str


def read_pod(found: Mapping[str, Any]) -> Pod:
    """Read a pod."""
    meta, status = found["metadata"], found.get("status", {})
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in status.get("conditions", [])
    )
    node = found.get("spec", {}).get("nodeName", "")
    return Pod(meta["name"], node, ready, "deletionTimestamp" in meta)


def read_record(found: Mapping[str, Any]) -> Record:
    """Read a record."""
    meta, status = found["metadata"], found.get("status", {})
    conditions = {one["type"]: one for one in status.get("conditions", [])}
    waited = bool((status.get("drain") or {}).get("startedAt"))
    if "deletionTimestamp" in meta:
        drained = conditions.get("Drained", {})
        under_way = waited and drained.get("status") != "True"
        state = DRAINING if under_way else DEREGISTERING
        told = drained if under_way else conditions.get("Deregistered", {})
    else:
        told = conditions.get("Registered", {})
        state = REGISTERED if told.get("status") == "True" else PENDING
    pod = found.get("spec", {}).get("podBackend", {}).get("name", "")
    reason = told.get("reason", "")
    return Record(meta["uid"], meta["name"], state, reason, waited, pod)


class Census:
    """Pods and records now, and the records' lives so far.

    Attributes:
        pods: the web app's pods.
        records: the records that exist, by uid.
        created: uids of all records seen.
        finished: names of the records that are gone, by uid.
        waited: uids of the records whose drain had to wait.
        owners: the pod of each record seen, by the record's name.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._pods_path = PODS.format(namespace=namespace)
        self._records_path = RECORDS.format(namespace=namespace)
        self.pods: Sequence[Pod] = ()
        self.records: dict[str, Record] = {}
        self.created: set[str] = set()
        self.finished: dict[str, str] = {}
        self.waited: set[str] = set()
        self.owners: dict[str, str] = {}

    @property
    def states(self) -> Counter[str]:
        """How many records are in each state."""
        return Counter(record.state for record in self.records.values())

    @property
    def serving(self) -> list[Pod]:
        """The pods that are ready and not leaving."""
        return [pod for pod in self.pods if pod.ready and not pod.terminating]

    async def watch_pods(self) -> None:
        """Keep `pods` fresh until cancelled."""
        while True:
            try:
                await self.list_pods()
            except DemoError:
                # The API server may be busy; the next look will do.
                await asyncio.sleep(INTERVAL)
            await asyncio.sleep(INTERVAL)

    async def list_pods(self) -> None:
        """Look at the pods once.

        Raises:
            DemoError: the API server does not answer.
        """
        found = await self._api.get(self._pods_path)
        self.pods = [read_pod(item) for item in found["items"]]

    async def watch_records(self) -> None:
        """Keep the records fresh until cancelled."""
        async for kind, found in self._api.follow(self._records_path):
            self.see(kind, found)

    def see(self, kind: str, found: Mapping[str, Any]) -> None:
        """Take one event in; `LISTED` carries all records that exist."""
        if kind == "LISTED":
            listed = [read_record(item) for item in found["items"]]
            present = {record.uid for record in listed}
            for uid in self.records.keys() - present:
                self.finished[uid] = self.records.pop(uid).name
            for record in listed:
                self._add(record)
        elif kind == "DELETED":
            record = read_record(found)
            self._add(record)
            self.finished[record.uid] = self.records.pop(record.uid).name
        elif kind in {"ADDED", "MODIFIED"}:
            self._add(read_record(found))

    def _add(self, record: Record) -> None:
        """Note a record that exists."""
        self.records[record.uid] = record
        self.created.add(record.uid)
        self.owners[record.name] = record.pod
        if record.waited:
            self.waited.add(record.uid)
