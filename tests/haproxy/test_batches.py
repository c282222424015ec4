"""Many members by few lines to HAProxy, and one that resists by itself."""

import asyncio

from collections.abc import Mapping
from typing import ClassVar

import pytest

from lbcf.sdk import Fail, RetryAfter, Succ
from tests.fakes.loop import run_virtual
from tests.haproxy.conftest import ANYWHERE, HERE, patient
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import NO_CHECK, a_deregister, an_ensure, an_identity
from webhooks.haproxy.driver import PATIENCE, HaproxyDriver
from webhooks.haproxy.errors import NoAnswer
from webhooks.haproxy.load_balancers import LoadBalancers
from webhooks.haproxy.runtime_api import RuntimeApi


pytestmark = pytest.mark.haproxy

MANY = 150


def names(number: int) -> list[str]:
    """Return the ids of so many records."""
    return [f"00000000-0000-4000-8000-{n:012}" for n in range(number)]


class CountingApi(RuntimeApi):
    """Counts the lines that are sent."""

    lines: ClassVar[list[str]] = []

    async def ask(self, line: str) -> str:
        """Take note of a line."""
        self.lines.append(line)
        return await super().ask(line)


async def test_many_come_and_go(proxy: Haproxy) -> None:
    """More than one line has room for, yet few lines; strangers stay as they are."""
    driver = patient(HaproxyDriver, connect=CountingApi, addresses=HERE)
    CountingApi.lines.clear()
    lb_info, before = an_identity(proxy), await proxy.foreign()
    ensured = await driver.ensure_backends(
        [
            an_ensure(lb_info, f"127.0.2.{n + 1}:80", one, NO_CHECK)
            for n, one in enumerate(names(MANY))
        ]
    )
    rows = await proxy.rows()
    states = {rows[f"lbcf-{one}"]["srv_admin_state"] for one in names(MANY)}
    ended = await driver.deregister_backends(
        [a_deregister(lb_info, one) for one in names(MANY)]
    )

    assert [Succ] * MANY == [type(one) for one in ensured.values()]
    assert {"0"} == states
    assert len(CountingApi.lines) < MANY / 3
    assert [Succ] * MANY == [type(one) for one in ended.values()]
    assert [] == await proxy.ours()
    assert before == await proxy.foreign()


async def test_who_resists_fails_alone(proxy: Haproxy, driver: HaproxyDriver) -> None:
    """Another address than it has, or none at all: the others are there."""
    lb_info = an_identity(proxy)
    taken, bad, *others = names(6)
    await driver.ensure_backend(an_ensure(lb_info, "127.0.2.9:80", taken, NO_CHECK))

    outcomes = await driver.ensure_backends(
        [
            an_ensure(lb_info, "127.0.2.1:80", taken, NO_CHECK),
            an_ensure(lb_info, "nonsense", bad, NO_CHECK),
            *(an_ensure(lb_info, "127.0.2.3:80", one, NO_CHECK) for one in others),
        ]
    )

    assert {taken, bad} == {
        name for name, one in outcomes.items() if isinstance(one, Fail)
    }
    assert "deregister it first" in str(outcomes[taken])
    assert sorted(f"lbcf-{one}" for one in [taken, *others]) == await proxy.ours()


async def test_a_backend_that_is_gone(proxy: Haproxy, driver: HaproxyDriver) -> None:
    """Nobody comes in, and everybody is out."""
    lb_info = an_identity(proxy, backend="nowhere")
    wanted = [an_ensure(lb_info, "127.0.2.1:80", one, NO_CHECK) for one in names(3)]

    ensured = await driver.ensure_backends(wanted)
    ended = await driver.deregister_backends(
        [a_deregister(lb_info, one) for one in names(3)]
    )

    assert [Fail] * 3 == [type(one) for one in ensured.values()]
    assert [Succ] * 3 == [type(one) for one in ended.values()]


class HungApi(RuntimeApi):
    """A HAProxy that answers nothing."""

    async def ask(self, line: str) -> str:
        """Wait for as long as a command may take."""
        await asyncio.sleep(self.limits.patience.total_seconds())
        raise NoAnswer(f"no answer to {line}")


@pytest.mark.parametrize("comes", [True, False])
def test_a_batch_ends_in_time(comes: bool) -> None:
    """Together and one by one it has the time of one operation: callers wait no longer."""
    driver = HaproxyDriver(LoadBalancers(ANYWHERE, connect=HungApi, addresses=HERE))
    lb_info = {"sockets": "/tmp/nowhere/admin.sock", "backend": "web"}
    ensures = [an_ensure(lb_info, "127.0.2.1:80", one, NO_CHECK) for one in names(5)]
    ends = [a_deregister(lb_info, one) for one in names(5)]

    async def play() -> tuple[float, Mapping[str, object]]:
        outcomes: Mapping[str, object]
        if comes:
            outcomes = await driver.ensure_backends(ensures)
        else:
            outcomes = await driver.deregister_backends(ends)
        return asyncio.get_running_loop().time(), outcomes

    seconds, outcomes = run_virtual(play())

    assert seconds <= PATIENCE.total_seconds()
    assert set(names(5)) == set(outcomes)
    assert {Fail, RetryAfter} >= {type(one) for one in outcomes.values()}


async def test_a_dry_run_changes_nothing(proxy: Haproxy, driver: HaproxyDriver) -> None:
    """Each says that it would be done."""
    lb_info = an_identity(proxy)
    request = an_ensure(lb_info, "127.0.2.1:80", names(1)[0], NO_CHECK)
    dry = type(request)(
        record_id=request.record_id,
        lb_info=lb_info,
        backend_addr=request.backend_addr,
        dry_run=True,
    )

    assert [Succ] == [type(x) for x in (await driver.ensure_backends([dry])).values()]
    assert [] == await proxy.ours()
