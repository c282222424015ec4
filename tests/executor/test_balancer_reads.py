"""Whether a record's load balancer goes is asked of the API server, not of the view."""

from collections.abc import Mapping

import pytest

from prometheus_client import CollectorRegistry

from lbcf.core.lifecycle.steps import BalancerRead, ReadBalancer, Reply
from lbcf.drivers.pool import DriverPool
from lbcf.executor import Executor, Subject
from lbcf.kube.client import KubeClient
from tests.builders import a_record
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import TinyApi
from tests.kube.tiny_rules import Json


RECORD = a_record()
HELD: Json = {"finalizers": ["lbcf.tkestack.io/test"]}
ENDING: Json = {**HELD, "deletionTimestamp": "2026-01-01T00:00:00Z"}


def _read(metadata: Json, info: Mapping[str, str]) -> Reply:
    """Read the record's load balancer where it is so."""
    api, clock, key = TinyApi(), VirtualClock(), RECORD.load_balancer_key
    if metadata:
        path = f"/apis/lbcf.tkestack.io/v1beta1/namespaces/{key.namespace}"
        spec = {"lbDriver": RECORD.spec.driver, "lbSpec": {}}
        whole = {"metadata": metadata, "spec": spec, "status": {"lbInfo": dict(info)}}
        api.put(f"{path}/loadbalancers/{key.name}", whole)
    pool = DriverPool(clock, CollectorRegistry())
    executor = Executor(KubeClient(api), pool, clock)
    subject = Subject(RECORD.meta.key, RECORD.meta.uid)
    return run_virtual(executor.perform(subject, ReadBalancer(RECORD)))


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
