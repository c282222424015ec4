"""Many members in one snapshot of a real Envoy."""

from functools import partial

import pytest

from lbcf.core.model.operations import Operation
from lbcf.sdk import Service
from tests.envoy.stage import Stage
from tests.lab.batches.caller import Caller, Member, as_object
from tests.sdk.services import serving
from tests.webhooks.troubled import settled


pytestmark = pytest.mark.envoy

MANY = 60


async def test_a_batch_shares_snapshots(stage: Stage) -> None:
    """Its members come and go by few updates, and each has its own answer."""
    driver = await stage.driver()
    envoy = await stage.envoy()
    await settled(partial(driver.create_load_balancer, stage.create()))
    of = [Member(f"record-{n}", f"127.0.2.{n + 1}:80") for n in range(MANY)]
    page = "/stats?filter=update_success"
    before = _sum(await envoy.ask(page))
    async with (
        serving(Service(driver)) as url,
        Caller.of(as_object(driver, url, batched=True), stage.lb_info) as caller,
    ):
        registered = await caller.all(Operation.ENSURE_BACKEND, of)
        inside = await envoy.members(stage.listen)
        updates = _sum(await envoy.ask(page)) - before
        ended = await caller.all(Operation.DEREGISTER_BACKEND, of)
        calls = caller.calls()

    assert ([], []) == (registered.failures, ended.failures)
    assert MANY == len(inside)
    assert updates < MANY / 4
    assert calls < MANY / 4
    assert {} == await envoy.members(stage.listen)


def _sum(page: str) -> int:
    """Return the sum of the counters of a page."""
    return sum(int(line.rpartition(" ")[2]) for line in page.splitlines() if line)
