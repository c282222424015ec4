"""Drivers are told whether records lock addresses: by memberKey, in calls about both."""

import asyncio
import json

import pytest

from prometheus_client import CollectorRegistry

from lbcf.core.lifecycle.load_balancer_steps import CallForLoadBalancer
from lbcf.core.model.operations import Operation
from lbcf.core.model.values import MemberKey
from lbcf.drivers.pool import DriverPool
from lbcf.executor import LoadBalancerCalls
from lbcf.runtime.clock import SystemClock
from tests.builders import a_load_balancer
from tests.drivers.servers import BESIDE_US, read_request, response, serving
from tests.drivers.servers import a_driver as driver_at


ABOUT_BALANCERS = (
    Operation.VALIDATE_LOAD_BALANCER,
    Operation.CREATE_LOAD_BALANCER,
    Operation.ENSURE_LOAD_BALANCER,
)


@pytest.mark.parametrize("key", MemberKey)
async def test_calls_about_load_balancers_tell_the_member_key(key: MemberKey) -> None:
    """So that a wrong one is told before anything is registered; and in a removal."""
    told: list[object] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            body = (await read_request(reader)).partition(b"\r\n\r\n")[2]
            told.append(json.loads(body).get("memberKey"))
            writer.write(response(b'{"status": "Succ", "succ": true}'))
            await writer.drain()

    clock, balancer = SystemClock(), a_load_balancer()
    async with (
        serving(talk) as url,
        DriverPool(clock, CollectorRegistry(), allowlist=BESIDE_US) as pool,
    ):
        calls, driver = LoadBalancerCalls(pool, clock), driver_at(url, member_key=key)
        for operation in ABOUT_BALANCERS:
            await calls.ask(CallForLoadBalancer(operation, balancer, driver))
        await calls.deregister(balancer, driver, ("192.0.2.1:80", "uid-a"))

    assert [key.value] * 4 == told
