"""Which HAProxys a driver remembers: those that answer, and few that never did."""

import gc
import weakref

import pytest

from tests.haproxy.conftest import ANYWHERE, HERE
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import an_identity
from webhooks.haproxy.connection import Limits
from webhooks.haproxy.endpoints import Endpoint
from webhooks.haproxy.load_balancers import KEPT, LoadBalancers
from webhooks.haproxy.runtime_api import RuntimeApi


MADE: weakref.WeakSet[RuntimeApi] = weakref.WeakSet()


def connect(endpoint: Endpoint, limits: Limits) -> RuntimeApi:
    """Make a client, and count it as long as anybody holds it."""
    api = RuntimeApi(endpoint, limits)
    MADE.add(api)
    return api


@pytest.fixture(name="balancers")
def _balancers() -> LoadBalancers:
    """Return load balancers that nobody has asked for yet."""
    MADE.clear()
    return LoadBalancers(ANYWHERE, connect=connect, addresses=HERE)


def name_many(balancers: LoadBalancers) -> None:
    """Name endpoints at which no HAProxy is."""
    for number in range(2 * KEPT):
        balancers.find({"sockets": f"/tmp/nobody/{number}.sock", "backend": "web"})
    gc.collect()


def test_endpoints_that_never_answered_are_forgotten(balancers: LoadBalancers) -> None:
    """However many are named."""
    name_many(balancers)

    assert len(MADE) <= KEPT


def test_endpoint_in_use_stays_one(balancers: LoadBalancers) -> None:
    """Two who use it take turns by it."""
    fields = {"sockets": "/tmp/nobody/first.sock", "backend": "web"}
    before = balancers.find(fields)

    name_many(balancers)

    (pool,), (again,) = before.pools, balancers.find(fields).pools
    assert pool.api is again.api


@pytest.mark.haproxy
async def test_endpoint_that_answered_is_kept(
    balancers: LoadBalancers, proxy: Haproxy
) -> None:
    """What its processes were called tells a reload; and no member may have its address."""
    found = balancers.find(an_identity(proxy))
    async with found.pools[0].api.turn():
        await found.pools[0].api.snapshot("web")
    kept = weakref.ref(found.pools[0].api)
    del found

    name_many(balancers)

    assert kept() is balancers.find(an_identity(proxy)).pools[0].api
