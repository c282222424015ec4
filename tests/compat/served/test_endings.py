"""Namespaces end, whatever is deleted first: nothing stuck, nothing leaked."""

import asyncio
import os
import time

import pytest

from tests.compat.endings import Ending, until_all
from tests.compat.scene import Scene, a_driver
from tests.e2e import objects


pytestmark = [pytest.mark.cluster, pytest.mark.timeout(3600)]

ORDERS = int(os.environ.get("LBCF_TEST_ORDERS", "3"))
"""How many orders are drawn; `make orders` draws twenty."""
AT_ONCE = 4
SYSTEM = "kube-system"


async def test_namespace_with_everything_in_it_ends_in_any_order(served: Scene) -> None:
    """Driver, load balancers, groups, records, pods and the namespace itself."""
    client, driver = served.stage.client, served.driver
    tag = f"lbcf-{time.monotonic_ns():x}"
    shared_driver = a_driver(driver.url)
    shared_driver["metadata"]["name"] = tag
    shared = objects.a_load_balancer(tag, driver=tag)
    shared["spec"]["scope"] = ["*"]
    await client.create(objects.DRIVERS, SYSTEM, shared_driver)
    await client.create(objects.LOAD_BALANCERS, SYSTEM, shared)
    endings = [
        Ending(client, driver, seed, f"{tag.removeprefix('lbcf-')}-{seed:02}", tag)
        for seed in range(1, ORDERS + 1)
    ]
    try:
        for first in range(0, ORDERS, AT_ONCE):
            some = endings[first : first + AT_ONCE]
            await asyncio.gather(*(one.furnish() for one in some))
            await until_all(some, "not all members came", Ending.is_furnished)

            await asyncio.gather(*(one.end() for one in some))

            await until_all(some, "not all namespaces ended", Ending.is_gone)
            assert {} == driver.members
        assert {f"name={tag}"} == set(driver.balancers)
    finally:
        await served.release(objects.LOAD_BALANCERS, SYSTEM, tag)
        await served.release(objects.DRIVERS, SYSTEM, tag)
