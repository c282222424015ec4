"""Commands that HAProxy carries out after everybody has given them up."""

import asyncio

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import ClassVar

import attrs
import pytest

from lbcf.sdk import (
    BackendState,
    EnsureLoadBalancerRequest,
    Fail,
    Refusal,
    RetryAfter,
    Running,
    Succ,
)
from tests.fakes.clock import VirtualClock
from tests.haproxy.conftest import ANYWHERE, HERE
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import (
    NO_CHECK,
    a_deregister,
    a_drain,
    an_ensure,
    an_identity,
)
from tests.webhooks.requests import RECORD, a_list
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.errors import NoAnswer
from webhooks.haproxy.load_balancers import LoadBalancers
from webhooks.haproxy.memory import LATE
from webhooks.haproxy.replies import FORCED_MAINTENANCE
from webhooks.haproxy.runtime_api import RuntimeApi
from webhooks.haproxy.slot_driver import SlotDriver
from webhooks.haproxy.slots import FREE


pytestmark = pytest.mark.haproxy

ADDRESS = "127.0.1.1:80"

NEXT = "127.0.1.2:80"
"""Where the next member is."""

Ask = Callable[[HaproxyDriver, dict[str, str]], Awaitable[object]]
"""Asks for one thing once; returns the kind of the answer."""


@attrs.define(eq=False)
class HangingApi(RuntimeApi):
    """The client of a real HAProxy that hangs as one command is sent, and for a while.

    Attributes:
        at: what the line has in it.
        queue: lines that HAProxy has not carried out yet.
        hangs: whether it answers nothing at all.
        waits: set once that command is in the queue and waited for; None: it is given up.
    """

    at: ClassVar[str] = ""
    queue: ClassVar[list[str]] = []
    hangs: ClassVar[bool] = False
    waits: ClassVar[asyncio.Event | None] = None

    async def ask(self, line: str) -> str:
        """Send the line, or leave it in the queue without an answer."""
        if type(self).at and self.at in line:
            type(self).at = ""
            self.queue.append(line)
            if self.waits is not None:
                self.waits.set()
                await asyncio.Event().wait()
            raise NoAnswer("HAProxy hangs")
        if self.hangs:
            raise NoAnswer("HAProxy hangs")
        return await super().ask(line)


def a_driver(
    kind: type[HaproxyDriver], lb_info: dict[str, str], at: str, *, restores: bool
) -> tuple[HaproxyDriver, VirtualClock]:
    """Return a driver whose HAProxy hangs at a line, and the clock that it looks at."""
    HangingApi.at, HangingApi.hangs, HangingApi.waits = at, False, None
    HangingApi.queue.clear()
    balancers = LoadBalancers(
        ANYWHERE, restores=restores, connect=HangingApi, addresses=HERE
    )
    clock = VirtualClock()
    for pool in balancers.find(lb_info).pools:
        pool.api.memory.clock = clock
    return kind(balancers), clock


def parameters_of(driver: HaproxyDriver) -> dict[str, str]:
    """Return what members of a driver are like."""
    return {} if isinstance(driver, SlotDriver) else NO_CHECK


async def deregistered(driver: HaproxyDriver, lb_info: dict[str, str]) -> object:
    """Ask once for the deregistration, alone; return the kind of the answer."""
    request = a_deregister(lb_info, address=ADDRESS, drained=False)
    try:
        return type(await driver.deregister_backend(request))
    except Refusal as said:
        return type(said)


async def deregistered_with_others(
    driver: HaproxyDriver, lb_info: dict[str, str]
) -> object:
    """Ask once for the deregistration, in a batch."""
    requests = [a_deregister(lb_info, one, drained=False) for one in (RECORD, "other")]
    return type((await driver.deregister_backends(requests))[RECORD])


async def carry_out(proxy: Haproxy) -> None:
    """Have HAProxy carry out what is in its queue."""
    while HangingApi.queue:
        await proxy.ask(HangingApi.queue.pop(0))


async def ensured(driver: HaproxyDriver, lb_info: dict[str, str]) -> object:
    """Ask once for the member, alone; return the kind of the answer."""
    request = an_ensure(lb_info, ADDRESS, parameters=parameters_of(driver))
    try:
        return type(await driver.ensure_backend(request))
    except Refusal as said:
        return type(said)


async def ensured_with_others(driver: HaproxyDriver, lb_info: dict[str, str]) -> object:
    """Ask once for the member, in a batch."""
    requests = [an_ensure(lb_info, ADDRESS, one) for one in (RECORD, "other")]
    try:
        return type((await driver.ensure_backends(requests))[RECORD])
    except Refusal as said:
        return type(said)


async def drained(driver: HaproxyDriver, lb_info: dict[str, str]) -> object:
    """Ask once for the drain; return the kind of the answer."""
    try:
        return type(await driver.drain_backend(a_drain(lb_info, address=ADDRESS)))
    except Refusal as said:
        return type(said)


async def weighed(
    driver: HaproxyDriver, lb_info: dict[str, str], weight: int
) -> object:
    """Ask once for the member with a weight; return the kind of the answer."""
    parameters = NO_CHECK | {"weight": f"{weight}"}
    try:
        request = an_ensure(lb_info, ADDRESS, parameters=parameters)
        return type(await driver.ensure_backend(request))
    except Refusal as said:
        return type(said)


async def weighed_with_others(
    driver: HaproxyDriver, lb_info: dict[str, str], weight: int
) -> object:
    """Ask once for the member with a weight, in a batch."""
    parameters = NO_CHECK | {"weight": f"{weight}"}
    requests = [
        an_ensure(lb_info, ADDRESS, one, parameters) for one in (RECORD, "other")
    ]
    try:
        return type((await driver.ensure_backends(requests))[RECORD])
    except Refusal as said:
        return type(said)


async def states(driver: HaproxyDriver, lb_info: dict[str, str]) -> list[BackendState]:
    """Return what the member's state is, as listBackends has it."""
    listed = await driver.list_backends(a_list(lb_info))
    return [one.state for one in listed.backends if one.backend_addr == ADDRESS]


@pytest.mark.parametrize("ensure", [ensured, ensured_with_others])
@pytest.mark.parametrize("deregister", [deregistered, deregistered_with_others])
@pytest.mark.parametrize("restores", [False, True])
async def test_what_may_be_added_yet_is_not_called_deregistered(
    proxy: Haproxy, ensure: Ask, deregister: Ask, restores: bool
) -> None:
    """HAProxy answers a question before it carries out an `add` that was given up."""
    lb_info = an_identity(proxy)
    driver, clock = a_driver(HaproxyDriver, lb_info, "add server", restores=restores)
    given_up = await ensure(driver, lb_info)

    before = await deregister(driver, lb_info)
    await carry_out(proxy)
    there = await proxy.ours()
    after = await deregister(driver, lb_info)
    gone = await proxy.ours()
    clock.advance(LATE)
    at_last = await deregister(driver, lb_info)

    assert [RetryAfter, Running, Running, Succ] == [given_up, before, after, at_last]
    assert f"lbcf-{RECORD}" in there
    assert f"lbcf-{RECORD}" not in gone


async def test_an_add_that_was_repeated_may_come_twice(proxy: Haproxy) -> None:
    """The first one is still in the queue when the second has been answered."""
    lb_info = an_identity(proxy)
    driver, clock = a_driver(HaproxyDriver, lb_info, "add server", restores=False)
    asked = [await ensured(driver, lb_info), await ensured(driver, lb_info)]

    before = await deregistered(driver, lb_info)
    await carry_out(proxy)
    clock.advance(LATE)
    at_last = await deregistered(driver, lb_info)

    assert [RetryAfter, Succ] == asked
    assert [Running, Succ] == [before, at_last]
    assert [] == await proxy.ours()


async def test_nothing_grows_old_while_haproxy_hangs(proxy: Haproxy) -> None:
    """However long that is: what is in its queue is carried out when it goes on."""
    lb_info = an_identity(proxy)
    driver, clock = a_driver(HaproxyDriver, lb_info, "add server", restores=False)
    await ensured(driver, lb_info)
    HangingApi.hangs = True
    clock.advance(timedelta(hours=1))
    meanwhile = await deregistered(driver, lb_info)

    HangingApi.hangs = False
    before = await deregistered(driver, lb_info)
    await carry_out(proxy)
    clock.advance(LATE)
    at_last = await deregistered(driver, lb_info)

    assert [Fail, Running, Succ] == [meanwhile, before, at_last]
    assert [] == await proxy.ours()


async def test_an_operation_that_ran_out_of_time_has_left_its_line(
    proxy: Haproxy,
) -> None:
    """The line was sent, too, where the driver's own patience ended first."""
    lb_info = an_identity(proxy)
    driver, _ = a_driver(HaproxyDriver, lb_info, "add server", restores=False)
    HangingApi.waits = asyncio.Event()
    task = asyncio.create_task(ensured(driver, lb_info))
    await HangingApi.waits.wait()
    task.cancel()
    await asyncio.wait([task])

    assert Running is await deregistered(driver, lb_info)


def resting(rows: dict[str, dict[str, str]]) -> dict[str, tuple[str, str, bool]]:
    """Return where servers are, and whether nobody is let in."""
    return {
        name: (
            row["srv_addr"],
            row["srv_port"],
            bool(int(row["srv_admin_state"]) & FORCED_MAINTENANCE),
        )
        for name, row in rows.items()
    }


@pytest.mark.parametrize("at", [f" addr {ADDRESS.partition(':')[0]}", "state ready"])
async def test_what_may_take_a_slot_yet_is_not_called_deregistered(
    proxy: Haproxy, at: str
) -> None:
    """The address, or the service, of a member that nobody asks for any more."""
    lb_info = an_identity(proxy, backend="slots")
    before = await proxy.rows("slots")
    driver, clock = a_driver(SlotDriver, lb_info, at, restores=False)
    given_up = await ensured(driver, lb_info)

    meanwhile = await deregistered(driver, lb_info)
    await carry_out(proxy)
    after = await deregistered(driver, lb_info)
    clock.advance(LATE)
    at_last = await deregistered(driver, lb_info)

    assert [RetryAfter, Running, Running, Succ] == [given_up, meanwhile, after, at_last]
    assert resting(before) == resting(await proxy.rows("slots"))


@pytest.mark.parametrize(
    ("kind", "backend"), [(HaproxyDriver, "web"), (SlotDriver, "slots")]
)
async def test_what_may_be_served_yet_is_not_called_drained(
    proxy: Haproxy, kind: type[HaproxyDriver], backend: str
) -> None:
    """An ensure was repeated with success, and its first `state ready` is late."""
    lb_info = an_identity(proxy, backend=backend)
    driver, clock = a_driver(kind, lb_info, "state ready", restores=False)
    asked = [await ensured(driver, lb_info), await ensured(driver, lb_info)]

    before = await drained(driver, lb_info)
    await carry_out(proxy)
    after = await drained(driver, lb_info)
    clock.advance(LATE)
    at_last = await drained(driver, lb_info)

    assert [RetryAfter, Succ] == asked
    assert [Running, Running, Succ] == [before, after, at_last]
    assert [BackendState.DRAINING] == await states(driver, lb_info)


async def test_what_may_come_back_served_is_not_called_drained(proxy: Haproxy) -> None:
    """What puts a member back after a reload finds one that is there and drains."""
    lb_info = an_identity(proxy)
    driver, clock = a_driver(HaproxyDriver, lb_info, "", restores=True)
    await ensured(driver, lb_info)
    HangingApi.at = "add server"
    await proxy.reload()
    given_up = await ensured(driver, lb_info)
    again = await ensured(driver, lb_info)

    before = await drained(driver, lb_info)
    await carry_out(proxy)
    after = await drained(driver, lb_info)
    clock.advance(LATE)
    at_last = await drained(driver, lb_info)

    assert given_up is not Succ is again
    assert [Running, Running, Succ] == [before, after, at_last]
    assert [BackendState.DRAINING] == await states(driver, lb_info)


@pytest.mark.parametrize(
    ("kind", "backend"), [(HaproxyDriver, "web"), (SlotDriver, "slots")]
)
async def test_what_may_be_drained_yet_is_not_called_ensured(
    proxy: Haproxy, kind: type[HaproxyDriver], backend: str
) -> None:
    """It is in service meanwhile; once nothing can undo that, it is said."""
    lb_info = an_identity(proxy, backend=backend)
    driver, clock = a_driver(kind, lb_info, "", restores=False)
    await ensured(driver, lb_info)
    HangingApi.at = "state drain"
    given_up = await drained(driver, lb_info)

    before = await ensured(driver, lb_info)
    await carry_out(proxy)
    drains = await states(driver, lb_info)
    after = await ensured(driver, lb_info)
    clock.advance(LATE)
    at_last = await ensured(driver, lb_info)

    assert [RetryAfter, RetryAfter] == [given_up, before]
    assert [BackendState.DRAINING] == drains
    assert [RetryAfter, Succ] == [after, at_last]
    assert BackendState.DRAINING not in await states(driver, lb_info)


@pytest.mark.parametrize("weigh", [weighed, weighed_with_others])
async def test_what_may_be_weighed_otherwise_yet_is_not_called_ensured(
    proxy: Haproxy,
    weigh: Callable[[HaproxyDriver, dict[str, str], int], Awaitable[object]],
) -> None:
    """The same weight may come late as often as it likes; another one may not."""
    lb_info = an_identity(proxy)
    driver, clock = a_driver(HaproxyDriver, lb_info, "", restores=False)
    await ensured(driver, lb_info)
    HangingApi.at = "weight 7"
    asked = [await weigh(driver, lb_info, 7), await weigh(driver, lb_info, 7)]

    before = await weigh(driver, lb_info, 9)
    await carry_out(proxy)
    after = await weigh(driver, lb_info, 9)
    clock.advance(LATE)
    at_last = await weigh(driver, lb_info, 9)

    assert [RetryAfter, Succ] == asked
    assert [RetryAfter, RetryAfter, Succ] == [before, after, at_last]
    assert "9" == (await proxy.rows())[f"lbcf-{RECORD}"]["srv_uweight"]


async def next_ensured(driver: HaproxyDriver, lb_info: dict[str, str]) -> object:
    """Ask once for another member in slots; return the kind of the answer."""
    try:
        request = an_ensure(lb_info, NEXT, "next", parameters={})
        return type(await driver.ensure_backend(request))
    except Refusal as said:
        return type(said)


async def members_of(driver: HaproxyDriver, lb_info: dict[str, str]) -> list[str]:
    """Return where members in slots are, and whether nobody is let in to them."""
    listed = await driver.list_backends(a_list(lb_info))
    return [
        f"{one.backend_addr} {one.reason if one.reason in {'MAINT', 'DRAIN'} else ''}"
        for one in listed.backends
    ]


@pytest.mark.parametrize("at", ["state drain", "state maint", f" addr {FREE.ip} port"])
async def test_what_frees_a_slot_late_does_not_hit_the_next_member(
    proxy: Haproxy, at: str
) -> None:
    """The slot is given to nobody, and the deregistration not finished, until then."""
    lb_info = an_identity(proxy, backend="slots")
    driver, clock = a_driver(SlotDriver, lb_info, "", restores=False)
    await ensured(driver, lb_info)
    HangingApi.at = at
    await drained(driver, lb_info)
    await deregistered(driver, lb_info)

    before = await deregistered(driver, lb_info)
    comes = await next_ensured(driver, lb_info)
    await carry_out(proxy)
    members = await members_of(driver, lb_info)
    clock.advance(LATE)
    at_last = await deregistered(driver, lb_info)

    assert [Running, Succ, Succ] == [before, comes, at_last]
    assert [f"{NEXT} "] == members


@pytest.mark.parametrize("at", [f" addr {ADDRESS.partition(':')[0]}", "state ready"])
async def test_what_takes_a_slot_late_does_not_hit_the_next_member(
    proxy: Haproxy, at: str
) -> None:
    """An address that comes late would displace it, and service would undo its drain."""
    lb_info = an_identity(proxy, backend="slots")
    driver, _ = a_driver(SlotDriver, lb_info, at, restores=False)
    await ensured(driver, lb_info)
    await deregistered(driver, lb_info)
    comes = await next_ensured(driver, lb_info)
    drains = await driver.drain_backend(a_drain(lb_info, "next", NEXT))
    await carry_out(proxy)

    assert comes is Succ
    assert isinstance(drains, Succ)
    assert f"{NEXT} DRAIN" in await members_of(driver, lb_info)


async def test_a_member_is_asked_for_again_in_the_slot_that_it_may_take(
    proxy: Haproxy,
) -> None:
    """Another slot that has become free meanwhile would be its second one."""
    lb_info = an_identity(proxy, backend="slots")
    driver, _ = a_driver(SlotDriver, lb_info, "", restores=False)
    await next_ensured(driver, lb_info)
    HangingApi.at = f" addr {ADDRESS.partition(':')[0]}"
    given_up = await ensured(driver, lb_info)
    gone = a_deregister(lb_info, "next", address=NEXT, drained=False)
    await driver.deregister_backend(gone)

    again = await ensured(driver, lb_info)
    await carry_out(proxy)

    assert [RetryAfter, Succ] == [given_up, again]
    assert [f"{ADDRESS} "] == await members_of(driver, lb_info)


async def test_nobody_gets_a_slot_while_each_may_be_hit(proxy: Haproxy) -> None:
    """What looks whether slots can be changed may be given up, too: it rests one."""
    lb_info = an_identity(proxy, backend="slots")
    driver, clock = a_driver(SlotDriver, lb_info, "", restores=False)
    HangingApi.at = "state maint"
    with pytest.raises(RetryAfter):
        await driver.ensure_load_balancer(
            EnsureLoadBalancerRequest(record_id=RECORD, lb_info=lb_info)
        )
    for name in ("lbcf.2", "lbcf.3"):
        await proxy.ask(f"set server slots/{name} addr 127.0.1.7 port 80")

    before = await next_ensured(driver, lb_info)
    clock.advance(LATE)
    await driver.list_backends(a_list(lb_info))
    at_last = await next_ensured(driver, lb_info)

    assert [RetryAfter, Succ] == [before, at_last]
