"""Whether a record's load balancer goes is asked of the API server, not of the view."""

import asyncio

from collections.abc import Mapping
from datetime import timedelta

import attrs
import pytest

from prometheus_client import CollectorRegistry

from lbcf.core.lifecycle.steps import BalancerRead, ReadBalancer, Reply
from lbcf.core.model.names import bind_group_key
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.drivers.pool import DriverPool
from lbcf.executor import Executor, Subject
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import BINDS, LOAD_BALANCERS
from lbcf.kube.requests import ApiRequest
from tests.builders import a_record
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import TinyApi
from tests.kube.tiny_rules import Json


RECORD = a_record()
HELD: Json = {"finalizers": ["lbcf.tkestack.io/test"]}
ENDING: Json = {**HELD, "deletionTimestamp": "2026-01-01T00:00:00Z"}


OF_A_BIND = attrs.evolve(
    RECORD, group=bind_group_key(ObjectKey(RECORD.meta.key.namespace, "shop"))
)
ENTRY: Json = {"name": RECORD.spec.load_balancer, "driver": RECORD.spec.driver}


class Counting(TinyApi):
    """An API server that counts what it is asked for, and takes a moment to answer."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Answer."""
        self.asked += 1
        await asyncio.sleep(0.1)
        return await super().send(request, within)


def _reads(api: TinyApi, record: BackendRecord, count: int = 1) -> list[Reply]:
    """Read a record's load balancer as often as that, all at once."""
    clock = VirtualClock()
    pool = DriverPool(clock, CollectorRegistry())
    executor = Executor(KubeClient(api), pool, clock)
    subject = Subject(record.meta.key, record.meta.uid)

    async def play() -> list[Reply]:
        reads = (executor.perform(subject, ReadBalancer(record)) for _ in range(count))
        return await asyncio.gather(*reads)

    return run_virtual(play())


def _read(metadata: Json, info: Mapping[str, str]) -> Reply:
    """Read the record's load balancer where it is so."""
    api, key = TinyApi(), RECORD.load_balancer_key
    if metadata:
        spec = {"lbDriver": RECORD.spec.driver, "lbSpec": {}}
        whole = {"metadata": metadata, "spec": spec, "status": {"lbInfo": dict(info)}}
        api.put(LOAD_BALANCERS.path(key), whole)
    return _reads(api, RECORD)[0]


def test_one_that_cannot_be_understood_is_told_of() -> None:
    """Nobody knows whether it is being deleted."""
    api = TinyApi()
    policy = {"policy": "Sometimes"}
    spec = {"lbDriver": RECORD.spec.driver, "lbSpec": {}, "ensurePolicy": policy}
    whole = {"metadata": HELD, "spec": spec}
    api.put(LOAD_BALANCERS.path(RECORD.load_balancer_key), whole)

    [read] = _reads(api, RECORD)

    assert isinstance(read, BalancerRead)
    assert str(RECORD.load_balancer_key) in read.unreadable
    assert "Sometimes" in read.unreadable


def test_who_asks_at_once_shares_a_read() -> None:
    """A rollout of a thousand pods is no thousand reads."""
    api = Counting()

    assert [BalancerRead(is_ending=True)] * 100 == _reads(api, RECORD, 100)
    assert api.asked == 1


def _read_of_a_bind(metadata: Json, entries: list[Json], status: Json) -> Reply:
    """Read the load balancer of a Bind's record where the Bind is so."""
    api = TinyApi()
    if metadata:
        pods: Json = {"ports": [{"port": 80}], "byLabel": {"selector": {"no": "one"}}}
        whole = {
            "metadata": metadata,
            "spec": {"loadBalancers": entries, "pods": pods},
            "status": {"loadBalancerStatuses": [status]},
        }
        api.put(BINDS.path(ObjectKey(RECORD.meta.key.namespace, "shop")), whole)
    return _reads(api, OF_A_BIND)[0]


@pytest.mark.parametrize(
    ("metadata", "entries", "info", "is_ending"),
    [
        pytest.param(HELD, [ENTRY], RECORD.spec.lb_info, False, id="it is there"),
        pytest.param(ENDING, [ENTRY], RECORD.spec.lb_info, True, id="its Bind goes"),
        pytest.param(HELD, [], RECORD.spec.lb_info, True, id="it is taken out"),
        pytest.param(HELD, [ENTRY], {"made": "anew"}, True, id="it is another one"),
        pytest.param({}, [], {}, True, id="there is no such Bind"),
    ],
)
def test_bind_is_read_for_its_records(
    metadata: Json, entries: list[Json], info: Mapping[str, str], is_ending: bool
) -> None:
    """A load balancer of a Bind is no object."""
    status = {**ENTRY, "lbInfo": dict(info)}

    assert BalancerRead(is_ending) == _read_of_a_bind(metadata, entries, status)


@pytest.mark.parametrize(
    ("metadata", "info", "is_ending"),
    [
        pytest.param(HELD, RECORD.spec.lb_info, False, id="it is there"),
        pytest.param(ENDING, RECORD.spec.lb_info, True, id="it is being deleted"),
        pytest.param(HELD, {"made": "anew"}, True, id="another one has its name"),
        pytest.param({}, {}, True, id="it is gone"),
    ],
)
def test_what_is_there_now_counts(
    metadata: Json, info: Mapping[str, str], is_ending: bool
) -> None:
    """One that is made again as another is not the one that the record names."""
    assert BalancerRead(is_ending) == _read(metadata, info)
